//! Durations, sizes, choices and secrets.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use mcp_flow_workflow::document::{Fields, nearest, shown};
use serde_json::Value;

use crate::secret::SecretSource;

/// Reads one of several words.
pub(super) fn one_of<T: Copy>(fields: &Fields<'_>, name: &str, words: &[(&str, T)]) -> Option<T> {
    let value = fields.get(name)?;
    let found = words.iter().find(|(word, _)| value == word);
    if found.is_none() {
        let list: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let near = value.as_str().and_then(|written| nearest(written, list.iter().copied()));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use one of {}", list.join(", ")),
        };
        fields.note(name, format!("`{name}` cannot be {}; {hint}", shown(value)));
    }
    found.map(|(_, meaning)| *meaning)
}

/// Reads a duration: seconds, or a text such as `500ms`, `30s`, `5m`, `1h`.
pub(super) fn duration(
    fields: &Fields<'_>,
    name: &str,
    range: RangeInclusive<Duration>,
) -> Option<Duration> {
    let value = fields.get(name)?;
    let parsed = match value {
        Value::Number(seconds) => {
            seconds.as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok())
        }
        Value::String(text) => parse_duration(text),
        _ => None,
    };
    let parsed = parsed.filter(|duration| range.contains(duration));
    if parsed.is_none() {
        let (from, to) = range.into_inner();
        let message = format!(
            "`{name}` must be a duration such as 500ms, 30s or 5m, from {from:?} to {to:?}, not {}",
            shown(value)
        );
        fields.note(name, message);
    }
    parsed
}

fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_unit = |character: char| !(character.is_ascii_digit() || character == '.');
    let end = text.find(is_unit).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let factor = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * factor).ok()
}

/// Reads a number of bytes, or a text such as `64K`, `512M`, `2G`.
pub(super) fn size(fields: &Fields<'_>, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let value = fields.get(name)?;
    let parsed = match value {
        Value::Number(bytes) => bytes.as_u64(),
        Value::String(text) => parse_size(text),
        _ => None,
    };
    let parsed = parsed.filter(|size| range.contains(size));
    if parsed.is_none() {
        let (from, to) = range.into_inner();
        let message = format!(
            "`{name}` must be a size such as 64K or 512M, from {from} to {to} bytes, not {}",
            shown(value)
        );
        fields.note(name, message);
    }
    parsed
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches("iB").trim_end_matches('B');
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim() {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Reads `{secret: "env:NAME"}`.
pub(super) fn secret(fields: &Fields<'_>, folder: &Path) -> Option<SecretSource> {
    let reference = fields.required_text("secret", 1..=4096)?;
    SecretSource::parse(&reference, folder).map_err(|message| fields.note("secret", message)).ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_size};
    use std::time::Duration;

    #[test]
    fn durations_and_sizes_have_units() {
        for (text, millis) in
            [("500ms", 500), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("5", 5_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", ".", "s", "-1s", "1 year", "1e9s", "99999999999999999999h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        for (text, bytes) in [("10", 10), ("1K", 1024), ("3 MiB", 3 << 20), ("2G", 2 << 30)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1T", "99999999999G"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
