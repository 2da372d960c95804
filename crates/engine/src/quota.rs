//! How many sessions owners have, and how often a session may be written to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_flow::{Owner, SessionId};
use tokio::time::Instant;

use crate::limits::Rate;

/// How many live sessions each owner has, as far as anyone asked.
///
/// The store knows; this saves counting there at every start. What is not here is counted again.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    owners: Mutex<HashMap<Owner, usize>>,
}

impl Counts {
    /// The count of an owner, if it is known.
    pub(crate) fn known(&self, owner: &Owner) -> bool {
        self.lock().contains_key(owner)
    }

    /// Notes what the store counted, unless someone else was faster.
    pub(crate) fn learn(&self, owner: &Owner, count: usize) {
        let mut owners = self.lock();
        if owners.len() >= MOST_OWNERS {
            owners.clear();
        }
        owners.entry(owner.clone()).or_insert(count);
    }

    /// Takes a place for one more session, if there is one.
    pub(crate) fn take(&self, owner: &Owner, most: usize) -> bool {
        let mut owners = self.lock();
        let count = owners.entry(owner.clone()).or_insert(0);
        let free = *count < most;
        if free {
            *count += 1;
        }
        free
    }

    /// Gives a place back.
    pub(crate) fn give_back(&self, owner: &Owner) {
        if let Some(count) = self.lock().get_mut(owner) {
            *count = count.saturating_sub(1);
        }
    }

    /// Has an owner counted again.
    pub(crate) fn forget(&self, owner: &Owner) {
        self.lock().remove(owner);
    }

    /// Has everyone counted again: someone has one session less, and nobody can say who.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, usize>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of their rate sessions have used, whether or not they are in memory.
///
/// One that has all of it again is forgotten: a pause is all it takes to get there.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: Mutex<HashMap<SessionId, Bucket>>,
}

impl Rates {
    /// Takes one request out of what a session may still do now, or says how long to wait for it.
    pub(crate) fn take(&self, id: SessionId, rate: Rate) -> Result<(), Duration> {
        let mut buckets = self.lock();
        if buckets.len() >= MOST_BUCKETS && !buckets.contains_key(&id) {
            buckets.retain(|_, bucket| !bucket.is_full(rate));
            if buckets.len() >= MOST_BUCKETS {
                buckets.clear();
            }
        }
        buckets.entry(id).or_insert_with(|| Bucket::new(rate)).take(rate)
    }

    /// Forgets those that have all of their rate again.
    pub(crate) fn sweep(&self, rate: Rate) {
        self.lock().retain(|_, bucket| !bucket.is_full(rate));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of its rate a session has used.
#[derive(Debug)]
struct Bucket {
    left: f64,
    filled: Instant,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        Self { left: rate.burst.into(), filled: Instant::now() }
    }

    /// Takes one, or says how long to wait for it.
    fn take(&mut self, rate: Rate) -> Result<(), Duration> {
        let now = Instant::now();
        self.left = self.left_at(now, rate);
        self.filled = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.left) / rate.per_second.max(f64::MIN_POSITIVE);
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    fn is_full(&self, rate: Rate) -> bool {
        self.left_at(Instant::now(), rate) >= rate.burst.into()
    }

    fn left_at(&self, now: Instant, rate: Rate) -> f64 {
        let passed = now.duration_since(self.filled).as_secs_f64();
        (self.left + passed * rate.per_second).min(rate.burst.into())
    }
}

/// So many sessions are a few megabytes. Beyond them all start with a full rate again.
const MOST_BUCKETS: usize = 100_000;

/// So many owners are a few megabytes.
const MOST_OWNERS: usize = 50_000;
