//! Table of the slots in memory: sessions at work, and idle ones that may soon be resumed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_session::SessionId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::slot::Slot;

/// Slots by session id, limited in number.
///
/// An idle slot can be evicted at any time; it is rebuilt from its journal when needed. One that is
/// in use stays.
pub(crate) struct Slots {
    table: Mutex<HashMap<SessionId, Arc<Slot>>>,
    began: Instant,
    limit: usize,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self { table: Mutex::default(), began: Instant::now(), limit }
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Slot>> {
        let slot = self.table.lock().get(&id).cloned()?;
        self.touch(&slot);
        Some(slot)
    }

    /// Adds a slot, or returns the one that is there already. None if the table is full and no slot
    /// is idle.
    pub(crate) fn insert(&self, slot: Slot) -> Option<Arc<Slot>> {
        let mut table = self.table.lock();
        if let Some(existing) = table.get(&slot.id) {
            self.touch(existing);
            return Some(Arc::clone(existing));
        }
        let evicted = if table.len() >= self.limit { evict(&mut table) } else { Vec::new() };
        let added = (table.len() < self.limit).then(|| {
            let slot = Arc::new(slot);
            self.touch(&slot);
            table.insert(slot.id, Arc::clone(&slot));
            slot
        });
        // Dropping a flow runs its destructors, which must not happen under the lock.
        drop(table);
        drop(evicted);
        added
    }

    /// Removes this very slot; another one of the same session stays.
    pub(crate) fn remove(&self, slot: &Arc<Slot>) {
        let mut table = self.table.lock();
        if table.get(&slot.id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            table.remove(&slot.id);
        }
    }

    /// Evicts slots that have been idle for this long.
    pub(crate) fn evict_idle(&self, linger: Duration) {
        let now = self.now();
        let linger = u64::try_from(linger.as_millis()).unwrap_or(u64::MAX);
        let mut evicted = Vec::new();
        self.table.lock().retain(|_, slot| {
            let since = now.saturating_sub(slot.last_used.load(Ordering::Relaxed));
            let keep = since < linger || !is_idle(slot);
            if !keep {
                evicted.push(Arc::clone(slot));
            }
            keep
        });
    }

    /// Returns whether a task drives the flow of a session.
    pub(crate) fn is_driven(&self, id: SessionId) -> bool {
        self.table.lock().get(&id).is_some_and(|slot| slot.is_driven())
    }

    /// Returns all slots.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.table.lock().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().len()
    }

    pub(crate) fn touch(&self, slot: &Slot) {
        slot.last_used.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Takes out a tenth of the table: of the idle slots those least recently used.
fn evict(table: &mut HashMap<SessionId, Arc<Slot>>) -> Vec<Arc<Slot>> {
    let mut idle: Vec<_> = table
        .values()
        .filter(|slot| is_idle(slot))
        .map(|slot| (slot.last_used.load(Ordering::Relaxed), slot.id))
        .collect();
    idle.sort_unstable();
    let count = table.len().div_ceil(10);
    idle.iter().take(count).filter_map(|(_, id)| table.remove(id)).collect()
}

/// Returns whether only the table holds the slot, which cannot change while the table is locked.
fn is_idle(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) == 1
}
