//! Rate limiting with token buckets.
//!
//! The clock is an argument, so that tests and paused runtimes can use their own.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Size of the bucket: events allowed at once.
    pub burst: u32,
    /// Refill rate: events per second in the long run.
    pub per_second: f64,
}

impl Rate {
    /// This many events per minute, all of them at once if need be.
    ///
    /// ```
    /// use mcp_flow_rate::Rate;
    ///
    /// assert_eq!(Rate::per_minute(30), Rate { burst: 30, per_second: 0.5 });
    /// ```
    pub fn per_minute(times: u32) -> Self {
        Self { burst: times, per_second: f64::from(times) / 60.0 }
    }

    /// Share of one of several nodes that keep to a limit together.
    ///
    /// ```
    /// use mcp_flow_rate::Rate;
    ///
    /// let rate = Rate { burst: 4, per_second: 2.0 };
    /// assert_eq!(rate.share(2), Rate { burst: 2, per_second: 1.0 });
    /// assert_eq!(rate.share(0), rate);
    /// assert_eq!(rate.share(9).burst, 1);
    /// ```
    #[must_use]
    pub fn share(self, nodes: u32) -> Self {
        let nodes = nodes.max(1);
        Self {
            burst: self.burst.div_ceil(nodes).max(1),
            per_second: self.per_second / f64::from(nodes),
        }
    }
}

/// A token bucket.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mcp_flow_rate::{Bucket, Rate};
///
/// let (rate, start) = (Rate { burst: 1, per_second: 2.0 }, Instant::now());
/// let mut bucket = Bucket::full(rate, start);
/// assert_eq!(bucket.take(rate, start), Ok(()));
/// assert_eq!(bucket.take(rate, start), Err(Duration::from_millis(500)));
/// assert_eq!(bucket.take(rate, start + Duration::from_millis(500)), Ok(()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    left: f64,
    filled: Instant,
}

impl Bucket {
    /// Creates a full bucket.
    pub fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.burst.into(), filled: now }
    }

    /// Takes a token, or returns the time until one is available.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        self.left = self.left_at(now, rate);
        self.filled = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.left) / rate.per_second.max(f64::MIN_POSITIVE);
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// Returns whether it is full.
    pub fn is_full(&self, rate: Rate, now: Instant) -> bool {
        self.left_at(now, rate) >= rate.burst.into()
    }

    fn left_at(&self, now: Instant, rate: Rate) -> f64 {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.left + passed * rate.per_second).min(rate.burst.into())
    }
}

/// One bucket for each key seen recently.
///
/// A full bucket can be dropped. If too many are not full, all are reset: a caller with that many
/// keys is not limited by any of them.
///
/// ```
/// use std::time::Instant;
/// use mcp_flow_rate::{Buckets, Rate};
///
/// let (rate, now) = (Rate { burst: 1, per_second: 1.0 }, Instant::now());
/// let buckets = Buckets::<String>::default();
/// assert!(buckets.take("ada", rate, now).is_ok());
/// assert!(buckets.take("ada", rate, now).is_err());
/// assert!(buckets.take("bob", rate, now).is_ok());
/// ```
#[derive(Debug)]
pub struct Buckets<K> {
    buckets: Mutex<HashMap<K, Bucket>>,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self { buckets: Mutex::default() }
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Takes a token from the bucket of a key, or returns the time until one is available.
    pub fn take<Q>(&self, key: &Q, rate: Rate, now: Instant) -> Result<(), Duration>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let mut buckets = self.buckets.lock();
        if let Some(bucket) = buckets.get_mut(key) {
            return bucket.take(rate, now);
        }
        if buckets.len() >= MAX_COUNT {
            buckets.retain(|_, bucket| !bucket.is_full(rate, now));
        }
        if buckets.len() >= MAX_COUNT {
            buckets.clear();
        }
        let mut bucket = Bucket::full(rate, now);
        let taken = bucket.take(rate, now);
        buckets.insert(key.to_owned(), bucket);
        taken
    }

    /// Drops the buckets that are full.
    pub fn sweep(&self, rate: Rate, now: Instant) {
        self.buckets.lock().retain(|_, bucket| !bucket.is_full(rate, now));
    }
}

/// A few megabytes.
const MAX_COUNT: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::{Bucket, Buckets, MAX_COUNT, Rate};
    use std::time::{Duration, Instant};

    /// PAT-055, INT-107: a burst is limited, tokens refill with time, and keys have separate
    /// buckets.
    #[test]
    fn bursts_are_limited_and_tokens_refill() {
        let (rate, start) = (Rate::per_minute(3), Instant::now());
        let buckets = Buckets::<String>::default();
        let allowed = |key: &str, seconds| {
            buckets.take(key, rate, start + Duration::from_secs(seconds)).is_ok()
        };
        let burst: Vec<_> = (0..5).map(|_| allowed("a", 0)).collect();
        assert_eq!(burst, [true, true, true, false, false]);
        assert!(allowed("b", 0), "another key has its own count");
        assert!(!allowed("a", 19));
        assert!(allowed("a", 21));
        assert!(!allowed("a", 22));
        let later: Vec<_> = (0..4).map(|_| allowed("a", 1000)).collect();
        assert_eq!(later, [true, true, true, false]);
    }

    /// Waiting for the returned time suffices, and a clock that goes backwards grants nothing.
    #[test]
    fn the_returned_wait_suffices() {
        let rate = Rate { burst: 2, per_second: 3.0 };
        let start = Instant::now() + Duration::from_secs(100);
        let mut bucket = Bucket::full(rate, start);
        let taken: Vec<_> = (0..2).map(|_| bucket.take(rate, start)).collect();
        assert_eq!(taken, [Ok(()), Ok(())]);
        let wait = bucket.take(rate, start).unwrap_err();
        assert!(bucket.take(rate, start - Duration::from_secs(50)).is_err());
        let mut bucket = Bucket { left: 0.0, filled: start };
        let wait = wait + Duration::from_nanos(1);
        assert_eq!(bucket.take(rate, start + wait), Ok(()));
        let never = Rate { burst: 0, per_second: 0.0 };
        assert_eq!(Bucket::full(never, start).take(never, start), Err(Duration::MAX));
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let (rate, now) = (Rate { burst: 1, per_second: 0.1 }, Instant::now());
        let buckets = Buckets::<u64>::default();
        for key in 0..MAX_COUNT as u64 + 10 {
            assert_eq!(buckets.take(&key, rate, now), Ok(()));
        }
        assert!(buckets.buckets.lock().len() <= 10);
        buckets.sweep(rate, now + Duration::from_secs(10));
        assert!(buckets.buckets.lock().is_empty());
    }
}
