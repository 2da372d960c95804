//! Timestamps of the journal.

use std::time::Duration;

use jiff::civil::{Date, date};
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Latest timestamp; stands for no deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// Creates a timestamp from milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time this much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// Returns the time since `earlier`; zero if that is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time in ISO 8601, in UTC and with milliseconds; the last representable one for
    /// later times.
    pub fn to_iso8601(self) -> String {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        format!("{time:.3}")
    }

    /// Returns the date in UTC; the last representable one for later times.
    pub fn day(self) -> Date {
        let days = i64::try_from(self.0 / MILLIS_PER_DAY).unwrap_or(i64::MAX);
        jiff::Span::new()
            .try_days(days)
            .and_then(|span| date(1970, 1, 1).checked_add(span))
            .unwrap_or(Date::MAX)
    }
}

const MILLIS_PER_DAY: u64 = 24 * 60 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::Timestamp;
    use jiff::civil::Date;

    #[test]
    fn days_change_at_midnight() {
        for (millis, day) in [
            (0, "1970-01-01"),
            (86_399_999, "1970-01-01"),
            (86_400_000, "1970-01-02"),
            (1_709_210_096_000, "2024-02-29"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).day().to_string(), day);
        }
        assert_eq!(Timestamp::NEVER.day(), Date::MAX);
    }

    #[test]
    fn timestamps_are_written_in_iso_8601() {
        for (millis, text) in
            [(0, "1970-01-01T00:00:00.000Z"), (1_709_210_096_070, "2024-02-29T12:34:56.070Z")]
        {
            assert_eq!(Timestamp::from_millis(millis).to_iso8601(), text);
        }
        assert!(Timestamp::NEVER.to_iso8601().starts_with("9999-12-"));
    }
}
