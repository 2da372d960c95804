//! The formats that forms of the protocol use.

use std::net::Ipv6Addr;

/// A format of a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    Email,
    Uri,
    Date,
    DateTime,
}

impl Format {
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Email, Self::Uri, Self::Date, Self::DateTime]
            .into_iter()
            .find(|it| it.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => is_uri(text),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
        }
    }
}

/// Common addresses: neither quoted nor at an IP address.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    let is_atom = |part: &str| !part.is_empty() && part.bytes().all(atom);
    let is_label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(good)
            && !label.starts_with('-')
            && !label.ends_with('-')
            // Only punycode labels have two hyphens there, and those have further rules.
            && label.get(2..4) != Some("--")
    };
    local.len() <= 64
        && domain.len() <= 253
        && local.split('.').all(is_atom)
        && domain.split('.').all(is_label)
}

/// RFC 3986, with a scheme.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        || !scheme.bytes().all(in_scheme)
    {
        return false;
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    is_authority(authority)
        && has_only(path, "/:@")
        && has_only(query, "/:@?")
        && has_only(fragment, "/:@?")
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text.split_once('@').unwrap_or(("", text));
    let (host, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((address, "")) => (address.parse::<Ipv6Addr>().is_ok(), ""),
        Some((address, port)) => match port.strip_prefix(':') {
            Some(port) => (address.parse::<Ipv6Addr>().is_ok(), port),
            None => return false,
        },
        None => {
            let (name, port) = host.split_once(':').unwrap_or((host, ""));
            (has_only(name, ""), port)
        }
    };
    host && has_only(user, ":") && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a text has only percent-encoded bytes, these characters, and those allowed
/// anywhere in a URI.
fn has_only(text: &str, more: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let good = match byte {
            b'%' => (0..2).all(|_| bytes.next().is_some_and(|byte| byte.is_ascii_hexdigit())),
            byte => {
                byte.is_ascii_alphanumeric()
                    || b"-._~!$&'()*+,;=".contains(&byte)
                    || more.as_bytes().contains(&byte)
            }
        };
        if !good {
            return false;
        }
    }
    true
}

/// RFC 3339: `2024-02-29`.
fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, b"0000-00-00") else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// RFC 3339: `2024-02-29T12:00:00.5+02:00`.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let Some([hour, minute, second]) = numbers(clock, b"00:00:00") else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let offset = match zone.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), ..] => match numbers(&zone[1..], b"00:00") {
            Some([hours @ 0..=23, minutes @ 0..=59]) => {
                let offset = hours * 60 + minutes;
                if *sign == b'+' { -offset } else { offset }
            }
            _ => return false,
        },
        _ => return false,
    };
    // A leap second is the last second of a UTC day.
    let in_time = second < 60
        || second == 60 && (hour * 60 + minute + offset).rem_euclid(24 * 60) == 24 * 60 - 1;
    is_date(date) && hour < 24 && minute < 60 && in_time
}

/// The numbers in a text of this form, where a zero stands for any digit.
fn numbers<const N: usize>(text: &str, model: &[u8]) -> Option<[i32; N]> {
    let fits = |(byte, model): (u8, &u8)| match model {
        b'0' => byte.is_ascii_digit(),
        model => byte == *model,
    };
    if text.len() != model.len() || !text.bytes().zip(model).all(fits) {
        return None;
    }
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(text.split(['-', ':'])) {
        *number = digits.parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::Format;
    use serde_json::json;

    /// Both implementations agree on common values, and ours is never more permissive.
    #[test]
    fn formats_agree_with_the_jsonschema_crate() {
        for (format, good, bad) in [
            (
                Format::Email,
                &["a@b.example", "a.b+c@x-y.example", "a@localhost"][..],
                &[
                    "",
                    "a",
                    "@b",
                    "a@",
                    "a@b@c",
                    "a..b@c.d",
                    ".a@b.c",
                    "a@-b.c",
                    "a b@c.d",
                    "é@b.c",
                    "a@b..c",
                    "a@é.example",
                    "a@b_c.example",
                ][..],
            ),
            (
                Format::Uri,
                &[
                    "https://a.example/b?c=d#e",
                    "mailto:a@b.example",
                    "urn:x:y",
                    "http://[::1]:80/",
                    "file:///a%20b",
                    "a://u:p@h:1",
                    "http://h?q/?",
                    "x:",
                ],
                &[
                    "",
                    "a",
                    "/a/b",
                    "//a.example",
                    "1a:b",
                    "http://a b",
                    "http://a/%2",
                    "http://[x]/",
                    "http://a:b/",
                    "a:#b#c",
                    "http://a@b@c/",
                    "http://é.example",
                    "http://[::1]a",
                    ":a",
                    "http://a/[b]",
                    "http://a\\b",
                ],
            ),
            (
                Format::Date,
                &["2024-02-29", "2000-02-29", "0000-01-01", "1999-12-31"],
                &[
                    "",
                    "2023-02-29",
                    "1900-02-29",
                    "2024-13-01",
                    "2024-00-01",
                    "2024-04-31",
                    "2024-1-01",
                    "24-01-01",
                    "2024-01-00",
                    "2024/01/01",
                    "2024-01-01 ",
                    "2024-01-0é",
                ],
            ),
            (
                Format::DateTime,
                &[
                    "2024-02-29T12:00:00Z",
                    "2024-02-29t23:59:60z",
                    "2024-02-29T12:00:00.5+02:00",
                    "2024-02-29T00:59:60+01:00",
                    "2024-02-29T22:59:60-01:00",
                ],
                &[
                    "",
                    "2024-02-29",
                    "2024-02-29T12:00:00",
                    "2024-02-29T24:00:00Z",
                    "2024-02-29T12:60:00Z",
                    "2024-02-29T12:00:60Z",
                    "2024-02-29T12:00:00.Z",
                    "2024-02-29T12:00:00+24:00",
                    "2024-02-29T12:00:00+1:00",
                    "2024-02-30T12:00:00Z",
                    "2024-02-29 12:00:00Z",
                    "2024-02-29T12:00:61Z",
                    "2024-02-29T12:00:0é",
                    "2024-02-29T12:00:00+é1:0",
                    "2024-02-29T12:00:00ZZ",
                ],
            ),
        ] {
            let schema = json!({"format": format.name()});
            let options = jsonschema::options().should_validate_formats(true);
            let validator = options.build(&schema).unwrap();
            for (texts, expected) in [(good, true), (bad, false)] {
                for text in texts {
                    assert_eq!(format.holds(text), expected, "{text:?} as {}", format.name());
                    assert_eq!(validator.is_valid(&json!(text)), expected, "{text:?}, the other");
                }
            }
        }
    }
}
