//! Which part of something is wanted (RFC 9110, section 14).

use std::ops::Range;

/// What a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Everything: the header is one that may be ignored.
    All,
    /// One part.
    Part(Range<u64>),
    /// A part that is not there.
    Nothing,
}

impl Wanted {
    /// Reads a header. Several parts at once are not served; who asks for them gets everything.
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
        if range.is_empty() { Self::Nothing } else { Self::Part(range) }
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // One that is too large for us is as good as the largest.
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn a_part_is_understood_or_everything_is_sent() {
        for (header, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=2-5", Wanted::Part(2..6)),
            ("bytes=2-", Wanted::Part(2..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-99", Wanted::Part(0..10)),
            ("bytes=5-99999999999999999999999", Wanted::Part(5..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-2", Wanted::All),
            ("bytes=0-1,3-4", Wanted::All),
            ("bytes=", Wanted::All),
            ("bytes=-", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("lines=1-2", Wanted::All),
            ("", Wanted::All),
        ] {
            assert_eq!(Wanted::parse(header, 10), expected, "{header}");
        }
        assert_eq!(Wanted::parse("bytes=0-", 0), Wanted::Nothing);
    }
}
