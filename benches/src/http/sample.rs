//! The result of one load on one server, and the median of several.

use std::time::Duration;

use serde::Serialize;

use crate::report::{median, megabytes};

/// Throughput, latency and cost of one server.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    pub(crate) calls_per_second: f64,
    pub(crate) p50_microseconds: f64,
    pub(crate) p99_microseconds: f64,
    pub(crate) cpu_microseconds_per_call: f64,
    pub(crate) peak_rss_megabytes: f64,
    /// Share of the time in which the driver was not waiting.
    pub(crate) driver_busy: f64,
    /// Share of the time in which the server was runnable but its core was taken. If it is not
    /// small, other load on the machine has set the pace.
    pub(crate) kept_waiting: f64,
}

/// The resources used by a load.
pub(crate) struct Usage {
    pub(crate) elapsed: Duration,
    pub(crate) server_cpu: Duration,
    pub(crate) server_waited: Duration,
    pub(crate) driver_cpu: Duration,
    pub(crate) server_peak_rss: u64,
}

impl Sample {
    /// Summarises at least one call.
    pub(crate) fn new(mut latencies: Vec<Duration>, usage: &Usage) -> Self {
        latencies.sort_unstable();
        let elapsed = usage.elapsed.as_secs_f64();
        let calls = latencies.len() as f64;
        Self {
            calls_per_second: calls / elapsed,
            p50_microseconds: microseconds(percentile(&latencies, 50)),
            p99_microseconds: microseconds(percentile(&latencies, 99)),
            cpu_microseconds_per_call: microseconds(usage.server_cpu) / calls,
            peak_rss_megabytes: megabytes(usage.server_peak_rss),
            driver_busy: usage.driver_cpu.as_secs_f64() / elapsed,
            kept_waiting: usage.server_waited.as_secs_f64() / elapsed,
        }
    }

    /// Returns the ratio of throughput of two servers, measured in the same rounds.
    pub(crate) fn speed(one: &[Self], other: &[Self]) -> f64 {
        Self::ratio(one, other, |sample| sample.calls_per_second)
    }

    /// Returns the median of the ratios within each round. A machine that was slow for half of the
    /// rounds affects this less than the ratio of two medians, which may be from different rounds.
    pub(crate) fn ratio(one: &[Self], other: &[Self], of: fn(&Self) -> f64) -> f64 {
        median(one.iter().zip(other).map(|(one, other)| of(one) / of(other)).collect())
    }

    /// Returns the median of each number by itself.
    pub(crate) fn median_of(samples: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(samples.iter().map(field).collect());
        Self {
            calls_per_second: of(|sample| sample.calls_per_second),
            p50_microseconds: of(|sample| sample.p50_microseconds),
            p99_microseconds: of(|sample| sample.p99_microseconds),
            cpu_microseconds_per_call: of(|sample| sample.cpu_microseconds_per_call),
            peak_rss_megabytes: of(|sample| sample.peak_rss_megabytes),
            driver_busy: of(|sample| sample.driver_busy),
            kept_waiting: of(|sample| sample.kept_waiting),
        }
    }
}

/// Returns a percentile of sorted values.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let millis = |range: std::ops::RangeInclusive<u64>| {
            range.map(Duration::from_millis).collect::<Vec<_>>()
        };
        let hundred = millis(1..=100);
        assert_eq!(percentile(&hundred, 50), Duration::from_millis(50));
        assert_eq!(percentile(&hundred, 99), Duration::from_millis(99));
        let one = millis(7..=7);
        assert_eq!(percentile(&one, 50), Duration::from_millis(7));
        assert_eq!(percentile(&one, 99), Duration::from_millis(7));
    }
}
