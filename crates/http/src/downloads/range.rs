//! The `Range` request header (RFC 9110, section 14).

use std::ops::Range;

/// Byte range that a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestedRange {
    /// The whole content: the header is absent, invalid or of another unit.
    All,
    /// One range within the content.
    Part(Range<u64>),
    /// A range outside the content.
    Unsatisfiable,
}

impl RequestedRange {
    /// Parses a header for content of this size. Multiple ranges are not supported and yield `All`.
    pub(super) fn parse(header: &str, size: u64) -> Self {
        let Some(range) = header.trim().strip_prefix("bytes=") else { return Self::All };
        let Some((first, last)) = range.split_once('-') else { return Self::All };
        let range = match (number(first), number(last), first.trim().is_empty(), last.trim()) {
            (Some(first), _, _, "") => first..size,
            (Some(first), Some(last), _, _) if first <= last => {
                first..size.min(last.saturating_add(1))
            }
            (None, Some(length), true, _) => size.saturating_sub(length)..size,
            _ => return Self::All,
        };
        if range.is_empty() { Self::Unsatisfiable } else { Self::Part(range) }
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Saturates: a number past the end means the end.
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::RequestedRange;

    #[test]
    fn single_ranges_are_parsed_and_others_ignored() {
        for (header, expected) in [
            ("bytes=0-0", RequestedRange::Part(0..1)),
            ("bytes=2-5", RequestedRange::Part(2..6)),
            ("bytes=2-", RequestedRange::Part(2..10)),
            ("bytes=-3", RequestedRange::Part(7..10)),
            ("bytes=-99", RequestedRange::Part(0..10)),
            ("bytes=5-99999999999999999999999", RequestedRange::Part(5..10)),
            ("bytes=10-", RequestedRange::Unsatisfiable),
            ("bytes=99999999999999999999999-", RequestedRange::Unsatisfiable),
            ("bytes=-0", RequestedRange::Unsatisfiable),
            ("bytes=5-2", RequestedRange::All),
            ("bytes=0-1,3-4", RequestedRange::All),
            ("bytes=", RequestedRange::All),
            ("bytes=-", RequestedRange::All),
            ("bytes=a-b", RequestedRange::All),
            ("bytes=+1-2", RequestedRange::All),
            ("lines=1-2", RequestedRange::All),
            ("", RequestedRange::All),
        ] {
            assert_eq!(RequestedRange::parse(header, 10), expected, "{header}");
        }
        assert_eq!(RequestedRange::parse("bytes=0-", 0), RequestedRange::Unsatisfiable);
    }
}
