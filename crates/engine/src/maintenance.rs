//! Background maintenance: expires overdue sessions, erases tombstones, warns subscribers, evicts
//! idle slots and resumes interrupted flows.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use hashbrown::HashSet;
use mcp_flow_session::store::{Filter, Listed, PageRequest, Phase};
use mcp_flow_session::{Command, SessionId, State, StoreError, Timestamp};
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::session_changes::SessionChange;
use crate::trace;

impl Engine {
    /// Resumes interrupted sessions and starts maintenance in the background, unless it is running.
    ///
    /// Must be called within a tokio runtime. [`shutdown`](Engine::shutdown) stops it.
    pub fn start_maintenance(&self) {
        if !self.inner.is_maintained.swap(true, Ordering::AcqRel) {
            self.start_membership();
            let engine = self.clone();
            self.inner.tasks.spawn(async move { engine.run_maintenance().await });
        }
    }

    async fn run_maintenance(self) {
        // Nodes that share a store claim interrupted sessions instead, whenever a node is gone.
        if self.inner.membership.is_none() {
            // Sleeping sessions are listed, too, and timers that are due do not wait for that.
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                if let Err(error) = engine.find_interrupted().await {
                    tracing::error!(%error, "cannot list interrupted sessions; they are not resumed");
                }
            });
        }
        loop {
            if let Err(error) = self.maintain().await {
                tracing::warn!(%error, "maintenance of sessions failed; retrying");
            }
            tokio::select! {
                () = self.inner.wakeups.pause() => {}
                () = self.inner.draining.cancelled() => return,
            }
        }
    }

    /// Runs one pass of maintenance. The background task does so twice a second; tests call it when
    /// they need it.
    pub async fn maintain(&self) -> Result<(), EngineError> {
        let inner = &self.inner;
        let now = self.now();
        if let Some(next) = inner.hub.publish_warnings(now) {
            inner.wakeups.add(next, now);
        }
        inner.slots.evict_idle(inner.limits.linger);
        if let Some(rate) = inner.limits.rate {
            inner.rates.sweep(rate, tokio::time::Instant::now().into_std());
        }
        self.resume_stalled().await;
        if inner.membership.is_some() {
            // Other nodes start and end sessions, too.
            inner.counts.invalidate_all();
        }
        self.settle_due(now).await
    }

    /// Records the tombstone of a session, and erases the oldest one past the limit.
    pub(crate) async fn add_tombstone(&self, id: SessionId, until: Timestamp) {
        let inner = &self.inner;
        let oldest = inner.tombstones.add(id, until, self.now(), inner.limits.tombstones);
        if let Some(oldest) = oldest {
            // If this fails, it is erased at its deadline.
            let _ = inner.store.erase(oldest).await;
            inner.hub.changes.publish(|| SessionChange::Erased(oldest));
        }
    }

    /// Finds the sessions whose flow was working when the last process ended.
    async fn find_interrupted(&self) -> Result<(), EngineError> {
        let mut after = None;
        loop {
            let filter = Filter { owner: None, phase: Phase::Working };
            let found = self.list_all(filter, PageRequest { after, most: PAGE }).await?;
            let Some(last) = found.last() else { return Ok(()) };
            if self.inner.stopping.is_cancelled() {
                return Ok(());
            }
            after = Some(last.id);
            // One that is stuck is due.
            let is_interrupted =
                |listed: &&Listed| !listed.summary.is_asleep && listed.summary.stuck.is_none();
            let mut interrupted = found.iter().filter(is_interrupted).peekable();
            if interrupted.peek().is_some() {
                self.inner.wakeups.add(self.now(), self.now());
            }
            for listed in interrupted {
                self.inner.stalled.add(listed.id);
            }
        }
    }

    /// Resumes stalled sessions, as long as there are free slots.
    async fn resume_stalled(&self) {
        // A session whose journal cannot be written is added again, for the next pass.
        let mut stalled = self.inner.stalled.take_all().into_iter();
        while let Some(id) = stalled.next() {
            if let Err(error) = self.resume(id).await {
                tracing::warn!(session = %id, %error, "cannot resume a session");
                // Retried when a slot is free, or the disk has space again.
                let is_unreachable = matches!(
                    error,
                    EngineError::Store(StoreError::Unavailable(_) | StoreError::Backend(_))
                );
                if is_unreachable && self.inner.membership.is_some()
                    || matches!(error, EngineError::Busy | EngineError::Store(StoreError::Full))
                {
                    self.inner.stalled.add(id);
                    stalled.for_each(|id| self.inner.stalled.add(id));
                    return;
                }
            }
        }
    }

    /// Runs the flow of a session from where its journal ends.
    pub(crate) async fn resume(&self, id: SessionId) -> Result<(), EngineError> {
        let Some(slot) = self.slot(id).await? else { return Ok(()) };
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() || slot.has_ended() || slot.is_driven() {
            return Ok(());
        }
        slot.prepare()?;
        if slot.session_state() == State::Idle {
            slot.execution.command(Command::Begin)?;
        }
        let span = trace::start_resume(&slot.execution);
        span.scope(self.advance(&slot, &turn)).await
    }
}

/// Tombstones written by this process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tombstones(Mutex<VecDeque<(SessionId, Timestamp)>>);

impl Tombstones {
    /// Adds one, and returns the oldest if that exceeds the limit.
    fn add(
        &self,
        id: SessionId,
        until: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Option<SessionId> {
        let mut tombstones = self.0.lock();
        // Maintenance erases these from the store by their deadline.
        while tombstones.front().is_some_and(|(_, until)| *until <= now) {
            tombstones.pop_front();
        }
        tombstones.push_back((id, until));
        if tombstones.len() > limit { tombstones.pop_front().map(|(id, _)| id) } else { None }
    }
}

/// Sessions whose flow has work to do and no task that drives it.
#[derive(Debug, Default)]
pub(crate) struct Stalled(Mutex<HashSet<SessionId>>);

impl Stalled {
    pub(crate) fn add(&self, id: SessionId) {
        self.0.lock().insert(id);
    }

    fn take_all(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Sessions read from the store at a time.
const PAGE: usize = 256;
