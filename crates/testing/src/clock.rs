//! The clock of a test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_engine::Clock;
use mcp_flow_session::Timestamp;

use crate::FlowTestError;

/// Clock that stands still until a test advances it.
#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl TestClock {
    /// Creates a clock that shows a time.
    pub(crate) fn new(start: Timestamp) -> Self {
        Self(AtomicU64::new(start.as_millis()))
    }

    pub(crate) fn set(&self, time: Timestamp) {
        self.0.store(time.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Time by which to advance: a [`Duration`], or a text such as `"3 days"` or `"1 h 30 min"`.
pub trait SkipDuration {
    /// Returns the duration.
    fn skip_duration(self) -> Result<Duration, FlowTestError>;
}

impl SkipDuration for Duration {
    fn skip_duration(self) -> Result<Duration, FlowTestError> {
        Ok(self)
    }
}

impl SkipDuration for &str {
    fn skip_duration(self) -> Result<Duration, FlowTestError> {
        parse(self).ok_or_else(|| FlowTestError::BadDuration(self.to_owned()))
    }
}

fn parse(text: &str) -> Option<Duration> {
    let mut total = None;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (number, after) = split(rest, |character| character.is_ascii_digit());
        let (unit, after) = split(after.trim_start(), char::is_alphabetic);
        let seconds = UNITS.iter().find(|(names, _)| names.contains(&unit))?.1;
        let part = Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?);
        // A thousandth is the only unit shorter than a second.
        let part = if unit.starts_with('m') && seconds == 1 { part / 1000 } else { part };
        total = Some(part.checked_add(total.unwrap_or_default())?);
        rest = after.trim_start();
    }
    total
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|character| !belongs(character)).unwrap_or(text.len()))
}

/// Names of units, and seconds in each; of milliseconds, in a thousand of them.
const UNITS: [(&[&str], u64); 6] = [
    (&["ms", "millisecond", "milliseconds"], 1),
    (&["s", "sec", "second", "seconds"], 1),
    (&["m", "min", "minute", "minutes"], 60),
    (&["h", "hour", "hours"], 60 * 60),
    (&["d", "day", "days"], 24 * 60 * 60),
    (&["week", "weeks"], 7 * 24 * 60 * 60),
];

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn durations_are_read_from_texts() {
        for (text, millis) in [
            ("3 days", 3 * 86_400_000),
            ("1 h 30 min", 5_400_000),
            ("90s", 90_000),
            ("250 ms", 250),
            ("2 weeks", 14 * 86_400_000),
            ("0 s", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "3", "days", "-1 day", "3 moons", "99999999999999999999 s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
