//! The sessions in memory: those at work, and those that wait and may soon go on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_session::SessionId;
use tokio::time::Instant;

use crate::run::Slot;

/// The sessions in memory, bounded in number.
///
/// A session that only waits can be dropped at any time and is rebuilt from its journal when
/// needed. One at work is kept.
pub(crate) struct Live {
    slots: Mutex<HashMap<SessionId, Arc<Slot>>>,
    began: Instant,
    most: usize,
}

impl Live {
    pub(crate) fn new(most: usize) -> Self {
        Self { slots: Mutex::default(), began: Instant::now(), most }
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Slot>> {
        let slot = self.lock().get(&id).cloned()?;
        self.touch(&slot);
        Some(slot)
    }

    /// Adds a session, or finds it there already. None if there is no room.
    pub(crate) fn insert(&self, slot: Slot) -> Option<Arc<Slot>> {
        let mut slots = self.lock();
        if let Some(known) = slots.get(&slot.id) {
            self.touch(known);
            return Some(Arc::clone(known));
        }
        let dropped = if slots.len() >= self.most { make_room(&mut slots) } else { Vec::new() };
        let added = (slots.len() < self.most).then(|| {
            let slot = Arc::new(slot);
            self.touch(&slot);
            slots.insert(slot.id, Arc::clone(&slot));
            slot
        });
        // What a flow leaves behind is dropped without holding up anyone else.
        drop(slots);
        drop(dropped);
        added
    }

    /// Forgets a session, if it is this very one.
    pub(crate) fn remove(&self, slot: &Arc<Slot>) {
        let mut slots = self.lock();
        if slots.get(&slot.id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(&slot.id);
        }
    }

    /// Drops those that have waited in memory for long enough.
    pub(crate) fn sweep(&self, linger: Duration) {
        let now = self.now();
        let linger = u64::try_from(linger.as_millis()).unwrap_or(u64::MAX);
        let mut dropped = Vec::new();
        self.lock().retain(|_, slot| {
            let since = now.saturating_sub(slot.used.load(Ordering::Relaxed));
            let keep = since < linger || !is_idle(slot);
            if !keep {
                dropped.push(Arc::clone(slot));
            }
            keep
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn touch(&self, slot: &Slot) {
        slot.used.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out a tenth of the sessions, of those that only wait the ones that do so longest.
fn make_room(slots: &mut HashMap<SessionId, Arc<Slot>>) -> Vec<Arc<Slot>> {
    let mut idle: Vec<_> = slots
        .values()
        .filter(|slot| is_idle(slot))
        .map(|slot| (slot.used.load(Ordering::Relaxed), slot.id))
        .collect();
    idle.sort_unstable();
    let count = slots.len().div_ceil(10);
    idle.iter().take(count).filter_map(|(_, id)| slots.remove(id)).collect()
}

/// Whether nobody is using it: the table has the only hold on it, which cannot change while the
/// table is locked.
fn is_idle(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) == 1
}
