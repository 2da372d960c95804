//! Count of live sessions per owner.

use hashbrown::HashMap;
use mcp_flow_session::Owner;
use parking_lot::Mutex;

/// Cached counts of live sessions per owner, to enforce the quota at every start.
///
/// The store has the truth. An owner that is not in the cache has to be counted there first.
#[derive(Debug, Default)]
pub(crate) struct SessionCounts {
    owners: Mutex<HashMap<Owner, usize>>,
}

impl SessionCounts {
    pub(crate) fn is_cached(&self, owner: &Owner) -> bool {
        self.owners.lock().contains_key(owner)
    }

    /// Caches the store's count, unless another request did so meanwhile.
    pub(crate) fn cache(&self, owner: &Owner, count: usize) {
        let mut owners = self.owners.lock();
        if owners.len() >= CACHED_OWNERS {
            owners.clear();
        }
        owners.entry(owner.clone()).or_insert(count);
    }

    /// Counts one more session, if the owner has fewer than the limit. Returns whether it did.
    pub(crate) fn reserve(&self, owner: &Owner, limit: usize) -> bool {
        let mut owners = self.owners.lock();
        let count = owners.entry(owner.clone()).or_insert(0);
        let is_free = *count < limit;
        if is_free {
            *count += 1;
        }
        is_free
    }

    /// Counts one session less.
    pub(crate) fn release(&self, owner: &Owner) {
        if let Some(count) = self.owners.lock().get_mut(owner) {
            *count = count.saturating_sub(1);
        }
    }

    /// Drops the count of an owner from the cache.
    pub(crate) fn invalidate(&self, owner: &Owner) {
        self.owners.lock().remove(owner);
    }

    /// Drops all counts from the cache, after a session of an unknown owner was erased.
    pub(crate) fn invalidate_all(&self) {
        self.owners.lock().clear();
    }
}

/// Owners in the cache at most: a few megabytes.
const CACHED_OWNERS: usize = 50_000;
