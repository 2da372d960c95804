//! Sessions that are due: expired, erased, or woken by a timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use hashbrown::HashSet;
use mcp_flow_session::{SessionId, StoreError, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::session_changes::SessionChange;
use crate::slot::Slot;

impl Engine {
    /// Expires, erases or wakes the sessions that are due at a time.
    ///
    /// Nodes that share a store divide them by their ids; a node that works on a session wakes it, too,
    /// for no other node may. Then the oldest node looks for those left over, and every node now and
    /// then: an older version among them wakes no sessions.
    pub(crate) async fn settle_due(&self, now: Timestamp) -> Result<(), EngineError> {
        let Some(membership) = &self.inner.membership else {
            return self.settle_share(now, |_| true).await;
        };
        let (rank, nodes) = membership.rank();
        if nodes > 1 {
            let slots = &self.inner.slots;
            let is_mine = |id: SessionId| id.bits() % nodes == rank || slots.is_driven(id);
            self.settle_share(now, is_mine).await?;
        }
        let passes = self.inner.wakeups.passes.fetch_add(1, Ordering::Relaxed);
        if rank == 0 || passes.is_multiple_of(LEFT_OVER_PASSES) {
            self.settle_share(now, |_| true).await?;
        }
        Ok(())
    }

    async fn settle_share(
        &self,
        now: Timestamp,
        is_mine: impl Fn(SessionId) -> bool,
    ) -> Result<(), EngineError> {
        let inner = &self.inner;
        loop {
            let skipped = inner.wakeups.unwakeable.lock().len();
            let most = PAGE + skipped;
            let due = inner.store.due(now, most).await?;
            let mine: Vec<_> = {
                let unwakeable = inner.wakeups.unwakeable.lock();
                let ids = due.iter().filter(|id| is_mine(**id) && !unwakeable.contains(*id));
                ids.copied().collect()
            };
            let mut settled = stream::iter(mine).map(|id| self.settle(id)).buffer_unordered(PAGE);
            let mut done = 0;
            while let Some(changed) = settled.next().await {
                done += usize::from(changed?);
            }
            // The next query would return those that did not change again, so they wait for the
            // next pass. Those that cannot be run make room for others.
            let is_stuck = done == 0 && inner.wakeups.unwakeable.lock().len() == skipped;
            if due.len() < most || is_stuck {
                return Ok(());
            }
        }
    }

    /// Settles one session that is due. Returns whether anything changed.
    async fn settle(&self, id: SessionId) -> Result<bool, EngineError> {
        match self.expire_erase_or_wake(id).await {
            Ok(changed) => Ok(changed),
            // It is past its deadline and unreadable, so nothing of it is worth keeping.
            Err(EngineError::Store(StoreError::Damaged(id))) => {
                tracing::error!(session = %id, "erasing a damaged session past its deadline");
                self.inner.store.erase(id).await?;
                self.inner.counts.invalidate_all();
                Ok(true)
            }
            // The version that wrote it settles it.
            Err(EngineError::Store(StoreError::Newer(id))) => {
                self.inner.wakeups.add_unwakeable(id);
                Ok(false)
            }
            // Another node came first, or there is no slot: it is still due then.
            Err(EngineError::Store(StoreError::Conflict(_)) | EngineError::Busy) => Ok(false),
            Err(error @ EngineError::Store(_)) => Err(error),
            Err(error @ EngineError::ShuttingDown) => Err(error),
            Err(error) => {
                tracing::warn!(session = %id, %error, "cannot wake a session; another program may");
                self.inner.wakeups.add_unwakeable(id);
                Ok(false)
            }
        }
    }

    async fn expire_erase_or_wake(&self, id: SessionId) -> Result<bool, EngineError> {
        let inner = &self.inner;
        let Some(slot) = self.slot(id).await? else {
            inner.store.erase(id).await?;
            return Ok(true);
        };
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Ok(false);
        }
        if slot.has_ended() {
            let until = slot.execution.lock().session.deadline();
            let is_due = until.is_some_and(|until| until <= self.now());
            if !is_due {
                return self.recheck(&slot).await;
            }
            inner.store.erase(id).await?;
            inner.hub.changes.publish(|| SessionChange::Erased(id));
            inner.slots.remove(&slot);
            return Ok(true);
        }
        match self.expire(&slot, &turn).await {
            Ok(()) => {}
            Err(EngineError::Expired(_)) => return Ok(true),
            Err(error) => return Err(error),
        }
        let is_stuck = slot.execution.lock().session.stuck.is_some();
        if !is_stuck && slot.execution.lock().session.due_timer(self.now()).is_none() {
            return self.recheck(&slot).await;
        }
        slot.prepare()?;
        slot.execution.fire_timers();
        self.advance(&slot, &turn).await?;
        drop(turn);
        self.release_slot(&slot);
        Ok(true)
    }

    /// Drops a slot that is not due, though the store says so, if it is outdated. The next pass
    /// loads the session again.
    async fn recheck(&self, slot: &Arc<Slot>) -> Result<bool, EngineError> {
        self.check_current(slot).await.map(|()| false)
    }
}

/// Times at which maintenance has to look for due sessions, and sessions that this program cannot run.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    /// Earliest time within the next pause at which a timer of this process fires, or a session with
    /// subscribers is warned of or ends.
    next: Mutex<Option<Instant>>,
    is_earlier: Notify,
    /// Sessions that this program cannot run, such as those whose flow it does not have.
    unwakeable: Mutex<HashSet<SessionId>>,
    passes: AtomicU32,
}

impl Wakeups {
    /// Notes that there is something to do at a time.
    pub(crate) fn add(&self, at: Timestamp, now: Timestamp) {
        let left = at.since(now).max(SHORTEST_PAUSE);
        // Later ones are found by a regular pass.
        if left < PAUSE {
            let at = Instant::now() + left;
            let mut next = self.next.lock();
            if next.is_none_or(|next| at < next) {
                *next = Some(at);
                self.is_earlier.notify_one();
            }
        }
    }

    /// Returns the sessions that this program cannot run.
    pub(crate) fn unwakeable(&self) -> Vec<SessionId> {
        self.unwakeable.lock().iter().copied().collect()
    }

    /// Notes a session that this program cannot run, until there is another flow.
    pub(crate) fn add_unwakeable(&self, id: SessionId) {
        self.unwakeable.lock().insert(id);
    }

    /// Tries sessions again that could not be run: there is another flow now.
    pub(crate) fn retry(&self) {
        self.unwakeable.lock().clear();
    }

    /// Waits until the next pass of maintenance.
    pub(crate) async fn pause(&self) {
        let until = Instant::now() + PAUSE;
        loop {
            let next = self.next.lock().map_or(until, |next| next.min(until));
            tokio::select! {
                () = sleep_until(next) => break,
                () = self.is_earlier.notified() => {}
            }
        }
        let now = Instant::now();
        self.next.lock().take_if(|next| *next <= now);
    }
}

/// Sessions read from the store, and settled, at a time.
const PAGE: usize = 256;

/// Passes after which a node looks for what others left over.
const LEFT_OVER_PASSES: u32 = 4;

/// Pause between two passes.
const PAUSE: Duration = Duration::from_millis(500);

/// Shortest pause between two passes, for timers that fire soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
