//! How many sessions owners have.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use mcp_flow_session::Owner;

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

/// So many owners are a few megabytes.
const MOST_OWNERS: usize = 50_000;
