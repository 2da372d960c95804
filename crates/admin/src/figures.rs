//! How a server is doing, second by second.

use std::time::Duration;

use serde::Serialize;

/// What is counted of the second that is going on.
#[derive(Debug)]
pub(crate) struct Counting {
    calls: u64,
    errors: u64,
    bytes_in: u64,
    bytes_out: u64,
    slowest: Duration,
    /// How many calls took about so long; see [`place`].
    times: [u32; PLACES],
}

/// What is told of one second that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Second {
    /// When it ended, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Times in milliseconds that half, nine in ten and ninety-nine in a hundred calls kept within.
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) slowest: f64,
    /// Connections that are open.
    pub(crate) connections: u64,
    /// Bytes of memory the process takes, where the system says so.
    pub(crate) memory: Option<u64>,
}

impl Default for Counting {
    fn default() -> Self {
        let (calls, errors, bytes_in, bytes_out) = (0, 0, 0, 0);
        let (slowest, times) = (Duration::ZERO, [0; PLACES]);
        Self { calls, errors, bytes_in, bytes_out, slowest, times }
    }
}

impl Counting {
    pub(crate) fn count(&mut self, time: Duration, is_error: bool, bytes: (usize, usize)) {
        self.calls += 1;
        self.errors += u64::from(is_error);
        self.bytes_in += bytes.0 as u64;
        self.bytes_out += bytes.1 as u64;
        self.slowest = self.slowest.max(time);
        self.times[place(time)] += 1;
    }

    pub(crate) fn finish(&self, at: u64, connections: u64, memory: Option<u64>) -> Second {
        let slowest = millis(self.slowest);
        let within = |share: f64| self.within(share).min(slowest);
        Second {
            at,
            calls: self.calls,
            errors: self.errors,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            p50: within(0.5),
            p90: within(0.9),
            p99: within(0.99),
            slowest,
            connections,
            memory,
        }
    }

    /// The milliseconds that this share of the calls kept within.
    fn within(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most calls"
        )]
        #[expect(clippy::cast_precision_loss, reason = "nobody counts so far in a second")]
        let wanted = (self.calls as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.times.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return upper_end(place);
            }
        }
        0.0
    }
}

/// Times are told apart by eighths of a doubling, from a microsecond up.
fn place(time: Duration) -> usize {
    let micros = time.as_secs_f64() * 1e6;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within PLACES")]
    let place = (micros.max(1.0).log2() * STEPS).floor() as usize;
    place.min(PLACES - 1)
}

/// The longest time of a place, in milliseconds.
fn upper_end(place: usize) -> f64 {
    let place = f64::from(u32::try_from(place).unwrap_or(u32::MAX));
    ((place + 1.0) / STEPS).exp2() / 1000.0
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

const STEPS: f64 = 8.0;

/// Enough for a little over an hour.
const PLACES: usize = 256;

/// The memory the process takes, in bytes, where the system says so.
pub(crate) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::Counting;
    use std::time::Duration;

    #[test]
    fn shares_of_calls_are_told_within_a_tenth() {
        let mut counting = Counting::default();
        for number in 1..=1000 {
            counting.count(Duration::from_micros(number * 100), number % 10 == 0, (2, 3));
        }
        let second = counting.finish(7, 1, None);
        assert_eq!((second.calls, second.errors), (1000, 100));
        assert_eq!((second.bytes_in, second.bytes_out), (2000, 3000));
        for (told, exact) in [(second.p50, 50.0), (second.p90, 90.0), (second.p99, 99.0)] {
            assert!((exact..exact * 1.1).contains(&told), "{told} is not about {exact}");
        }
        assert!((second.slowest - 100.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_made_of_no_calls_and_much_of_long_ones() {
        let mut counting = Counting::default();
        assert!(counting.finish(0, 0, None).p99.abs() < f64::EPSILON);
        counting.count(Duration::from_secs(1_000_000), false, (0, 0));
        counting.count(Duration::ZERO, false, (0, 0));
        assert!(counting.finish(0, 0, None).p50 < 0.01);
    }
}
