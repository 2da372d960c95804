//! How often a server may do something (PAT-055).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// So many times in so long, and no more in one burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    times: f64,
    within: Duration,
}

impl Rate {
    /// So many times a minute.
    pub fn per_minute(times: u32) -> Self {
        Self { times: times.into(), within: Duration::from_secs(60) }
    }

    /// So many times in so long.
    pub fn new(times: u32, within: Duration) -> Self {
        Self { times: times.into(), within: within.max(Duration::from_millis(1)) }
    }
}

/// Counts by server.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    filled: Instant,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Counts one more, if there may be.
    pub(super) fn admits(&self, server: &str) -> bool {
        self.admits_at(server, Instant::now())
    }

    fn admits_at(&self, server: &str, now: Instant) -> bool {
        let Rate { times, within } = self.rate;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket =
            buckets.entry(server.to_owned()).or_insert_with(|| Bucket { left: times, filled: now });
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.left = (bucket.left + passed / within.as_secs_f64() * times).min(times);
        bucket.filled = now;
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Limiter, Rate};
    use std::time::{Duration, Instant};

    #[test]
    fn a_burst_is_cut_and_time_makes_room() {
        let limiter = Limiter::new(Rate::per_minute(3));
        let start = Instant::now();
        let admitted =
            |server: &str, seconds| limiter.admits_at(server, start + Duration::from_secs(seconds));
        let burst: Vec<_> = (0..5).map(|_| admitted("a", 0)).collect();
        assert_eq!(burst, [true, true, true, false, false]);
        assert!(admitted("b", 0), "another server has its own count");
        assert!(!admitted("a", 19));
        assert!(admitted("a", 21));
        assert!(!admitted("a", 22));
        let later: Vec<_> = (0..4).map(|_| admitted("a", 1000)).collect();
        assert_eq!(later, [true, true, true, false]);
    }
}
