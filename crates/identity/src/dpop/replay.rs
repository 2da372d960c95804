//! Cache of accepted proofs, against replay: bounded in memory, and for each key.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use mcp_flow_principal::ProofRejected;
use ring::digest::{Context, SHA256};

/// Proofs accepted of late, in two generations: the older one is dropped as a whole.
///
/// If it is full, proofs are rejected rather than accepted twice. A key has a limit of its own, so
/// that no client can fill the cache alone.
#[derive(Default)]
pub(crate) struct ReplayCache {
    current: Generation,
    previous: Generation,
    started: Option<Instant>,
}

#[derive(Default)]
struct Generation {
    proofs: HashSet<Digest>,
    /// Number of proofs of each key.
    keys: HashMap<Digest, usize>,
}

/// Truncated hash: shorter than what clients choose, and of fixed size.
type Digest = [u8; 16];

impl ReplayCache {
    /// Remembers a proof for at least this time. Rejects one that is known already.
    pub(crate) fn insert(
        &mut self,
        thumbprint: &str,
        id: &str,
        retention: Duration,
    ) -> Result<(), ProofRejected> {
        self.insert_at(Instant::now(), thumbprint, id, retention)
    }

    fn insert_at(
        &mut self,
        now: Instant,
        thumbprint: &str,
        id: &str,
        retention: Duration,
    ) -> Result<(), ProofRejected> {
        self.rotate(now, retention);
        let proof = hash(&[thumbprint, id]);
        if self.current.proofs.contains(&proof) || self.previous.proofs.contains(&proof) {
            return Err(ProofRejected::Replayed);
        }
        let of_key = self.current.keys.entry(hash(&[thumbprint])).or_default();
        if *of_key >= MAX_OF_KEY || self.current.proofs.len() >= MAX_PROOFS {
            return Err(ProofRejected::Unavailable);
        }
        *of_key += 1;
        self.current.proofs.insert(proof);
        Ok(())
    }

    /// Starts a new generation once all of the previous one has expired.
    fn rotate(&mut self, now: Instant, retention: Duration) {
        let started = *self.started.get_or_insert(now);
        let age = now.saturating_duration_since(started);
        if age < retention {
            return;
        }
        self.previous = std::mem::take(&mut self.current);
        if age >= 2 * retention {
            self.previous = Generation::default();
        }
        self.started = Some(now);
    }
}

fn hash(parts: &[&str]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(&context.finish().as_ref()[..16]);
    digest
}

/// Limit on the proofs of a generation: some 12 MB.
const MAX_PROOFS: usize = 400_000;

/// Limit on the proofs of one key in a generation.
const MAX_OF_KEY: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mcp_flow_principal::ProofRejected;

    use super::{MAX_OF_KEY, MAX_PROOFS, ReplayCache};

    const RETENTION: Duration = Duration::from_secs(100);

    /// A proof is known for its retention time at least, and forgotten some time after.
    #[test]
    fn proofs_are_remembered_for_their_retention_time() {
        let mut cache = ReplayCache::default();
        let start = Instant::now();
        let mut insert = |seconds, key: &str, id: &str| {
            cache.insert_at(start + Duration::from_secs(seconds), key, id, RETENTION)
        };
        assert_eq!(insert(0, "a", "1"), Ok(()));
        assert_eq!(insert(0, "b", "1"), Ok(()));
        assert_eq!(insert(0, "a", "2"), Ok(()));
        assert_eq!(insert(90, "a", "3"), Ok(()));
        for (seconds, id) in [(0, "1"), (99, "1"), (101, "1"), (150, "3"), (189, "3")] {
            assert_eq!(insert(seconds, "a", id), Err(ProofRejected::Replayed), "{seconds}");
        }
        assert_eq!(insert(202, "a", "4"), Ok(()));
        assert_eq!(insert(203, "a", "1"), Ok(()));
        assert_eq!(insert(1000, "a", "4"), Ok(()));
    }

    /// The cache is bounded: neither one key nor many fill it without end, and no proof passes twice.
    #[test]
    fn the_cache_is_bounded() {
        let mut cache = ReplayCache::default();
        let now = Instant::now();
        for number in 0..MAX_OF_KEY {
            cache.insert_at(now, "greedy", &number.to_string(), RETENTION).unwrap();
        }
        let full = Err(ProofRejected::Unavailable);
        assert_eq!(cache.insert_at(now, "greedy", "one more", RETENTION), full);
        assert_eq!(cache.insert_at(now, "greedy", "0", RETENTION), Err(ProofRejected::Replayed));
        assert_eq!(cache.insert_at(now, "other", "0", RETENTION), Ok(()));
        for number in 1..(MAX_PROOFS - MAX_OF_KEY) {
            let key = (number % 10).to_string();
            cache.insert_at(now, &key, &number.to_string(), RETENTION).unwrap();
        }
        assert_eq!(cache.insert_at(now, "new", "0", RETENTION), full);
        assert_eq!(cache.insert_at(now + RETENTION, "new", "0", RETENTION), Ok(()));
    }
}
