//! Metrics per second: calls, errors, bytes and latency percentiles.

use std::time::Duration;

use serde::Serialize;

/// Counters of the current second.
#[derive(Debug)]
pub(crate) struct SecondCounter {
    calls: u64,
    errors: u64,
    bytes_in: u64,
    bytes_out: u64,
    slowest: Duration,
    /// Latency histogram; see [`bucket`].
    times: [u32; BUCKETS],
}

/// Metrics of one finished second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecondMetrics {
    /// End of the second, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Latency percentiles in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) slowest: f64,
    /// Open connections.
    pub(crate) connections: u64,
    /// Resident memory of the process in bytes, if known.
    pub(crate) memory: Option<u64>,
}

impl Default for SecondCounter {
    fn default() -> Self {
        let (calls, errors, bytes_in, bytes_out) = (0, 0, 0, 0);
        let (slowest, times) = (Duration::ZERO, [0; BUCKETS]);
        Self { calls, errors, bytes_in, bytes_out, slowest, times }
    }
}

impl SecondCounter {
    pub(crate) fn count(&mut self, time: Duration, is_error: bool, bytes: (usize, usize)) {
        self.calls += 1;
        self.errors += u64::from(is_error);
        self.bytes_in += bytes.0 as u64;
        self.bytes_out += bytes.1 as u64;
        self.slowest = self.slowest.max(time);
        self.times[bucket(time)] += 1;
    }

    pub(crate) fn finish(&self, at: u64, connections: u64, memory: Option<u64>) -> SecondMetrics {
        let slowest = millis(self.slowest);
        let within = |share: f64| self.percentile(share).min(slowest);
        SecondMetrics {
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

    /// Latency percentile in milliseconds.
    fn percentile(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most calls"
        )]
        #[expect(clippy::cast_precision_loss, reason = "far fewer calls in a second")]
        let wanted = (self.calls as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.times.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return upper_bound(bucket);
            }
        }
        0.0
    }
}

/// Histogram bucket of a latency: eight buckets per power of two, from one microsecond.
fn bucket(time: Duration) -> usize {
    let micros = time.as_secs_f64() * 1e6;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within BUCKETS")]
    let bucket = (micros.max(1.0).log2() * STEPS).floor() as usize;
    bucket.min(BUCKETS - 1)
}

/// Upper bound of a bucket, in milliseconds.
fn upper_bound(bucket: usize) -> f64 {
    let bucket = f64::from(u32::try_from(bucket).unwrap_or(u32::MAX));
    ((bucket + 1.0) / STEPS).exp2() / 1000.0
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

const STEPS: f64 = 8.0;

/// Enough for a little over an hour.
const BUCKETS: usize = 256;

/// Resident memory of the process in bytes, on Linux.
pub(crate) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::SecondCounter;
    use std::time::Duration;

    #[test]
    fn percentiles_are_exact_to_ten_percent() {
        let mut counter = SecondCounter::default();
        for number in 1..=1000 {
            counter.count(Duration::from_micros(number * 100), number % 10 == 0, (2, 3));
        }
        let second = counter.finish(7, 1, None);
        assert_eq!((second.calls, second.errors), (1000, 100));
        assert_eq!((second.bytes_in, second.bytes_out), (2000, 3000));
        for (measured, exact) in [(second.p50, 50.0), (second.p90, 90.0), (second.p99, 99.0)] {
            assert!((exact..exact * 1.1).contains(&measured), "{measured} is not about {exact}");
        }
        assert!((second.slowest - 100.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_handle_no_calls_and_extreme_latencies() {
        let mut counter = SecondCounter::default();
        assert!(counter.finish(0, 0, None).p99.abs() < f64::EPSILON);
        counter.count(Duration::from_secs(1_000_000), false, (0, 0));
        counter.count(Duration::ZERO, false, (0, 0));
        assert!(counter.finish(0, 0, None).p50 < 0.01);
    }
}
