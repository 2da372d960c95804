//! One number per session, so that an old token is not used again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use mcp_flow_flow::SessionId;

/// How many events each session had when it was last seen.
///
/// Bounded: beyond so many sessions the one that was added first is forgotten.
#[derive(Debug)]
pub(super) struct Guard {
    seen: Mutex<Seen>,
    most: usize,
}

#[derive(Debug, Default)]
struct Seen {
    lengths: HashMap<SessionId, usize>,
    order: VecDeque<SessionId>,
}

impl Guard {
    pub(super) fn new(most: usize) -> Self {
        Self { seen: Mutex::default(), most: most.max(1) }
    }

    /// Takes the turn after so many events, if nobody has.
    pub(super) fn take(&self, id: SessionId, length: usize) -> Option<Taken<'_>> {
        let mut seen = self.lock();
        if seen.lengths.get(&id).is_some_and(|known| *known > length) {
            return None;
        }
        if seen.lengths.insert(id, length + 1).is_none() {
            seen.order.push_back(id);
            if seen.order.len() > self.most
                && let Some(oldest) = seen.order.pop_front()
            {
                seen.lengths.remove(&oldest);
            }
        }
        Some(Taken { guard: self, id, length })
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that is taken; given back when dropped, so that a request that failed can be repeated.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    guard: &'a Guard,
    id: SessionId,
    length: usize,
}

impl Taken<'_> {
    /// The turn is over, and the session has so many events.
    pub(super) fn keep(mut self, length: usize) {
        self.length = length;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.guard.lock().lengths.get_mut(&self.id) {
            *known = self.length;
        }
    }
}
