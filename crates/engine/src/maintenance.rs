//! Background maintenance: expires overdue sessions, erases tombstones, warns subscribers, evicts
//! idle slots and resumes interrupted flows.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::HashSet;
use mcp_flow_session::store::{Filter, PageRequest, Phase};
use mcp_flow_session::{Command, SessionId, State, StoreError, Timestamp};
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::session_changes::SessionChange;

impl Engine {
    /// Resumes interrupted sessions and starts maintenance in the background, unless it is running.
    ///
    /// Must be called within a tokio runtime. [`shutdown`](Engine::shutdown) stops it.
    pub fn start_maintenance(&self) {
        if !self.inner.is_maintained.swap(true, Ordering::AcqRel) {
            let engine = self.clone();
            self.inner.tasks.spawn(async move { engine.run_maintenance().await });
        }
    }

    async fn run_maintenance(self) {
        if let Err(error) = self.find_interrupted().await {
            tracing::error!(%error, "cannot list interrupted sessions; they are not resumed");
        }
        loop {
            if let Err(error) = self.maintain().await {
                tracing::warn!(%error, "maintenance of sessions failed; retrying");
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.inner.stopping.cancelled() => return,
            }
        }
    }

    /// Runs one pass of maintenance. The background task does so twice a second; tests call it when
    /// they need it.
    pub async fn maintain(&self) -> Result<(), EngineError> {
        let inner = &self.inner;
        let now = self.now();
        inner.hub.publish_warnings(now);
        inner.slots.evict_idle(inner.limits.linger);
        if let Some(rate) = inner.limits.rate {
            inner.rates.sweep(rate, tokio::time::Instant::now().into_std());
        }
        self.resume_stalled().await;
        loop {
            let due = inner.store.due(now, PAGE).await?;
            let mut done = 0;
            for id in &due {
                match self.expire_or_erase(*id).await {
                    Ok(changed) => done += usize::from(changed),
                    // It is past its deadline and unreadable, so nothing of it is worth keeping.
                    Err(EngineError::Store(StoreError::Damaged(id))) => {
                        tracing::error!(session = %id, "erasing a damaged session past its deadline");
                        inner.store.erase(id).await?;
                        inner.counts.invalidate_all();
                        done += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
            // The next query would return those that did not change again, so they wait for the
            // next pass.
            if due.len() < PAGE || done == 0 {
                return Ok(());
            }
        }
    }

    /// Expires an overdue session, or erases its tombstone. Returns whether anything changed.
    async fn expire_or_erase(&self, id: SessionId) -> Result<bool, EngineError> {
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
            if is_due {
                inner.store.erase(id).await?;
                inner.hub.changes.publish(|| SessionChange::Erased(id));
                inner.slots.remove(&slot);
            }
            return Ok(is_due);
        }
        match self.expire(&slot, &turn).await {
            Ok(()) => Ok(false),
            Err(EngineError::Expired(_)) => Ok(true),
            Err(EngineError::Store(StoreError::Conflict(_))) => Ok(false),
            Err(error) => Err(error),
        }
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
            after = Some(last.id);
            for listed in found {
                self.inner.stalled.add(listed.id);
            }
        }
    }

    /// Resumes stalled sessions, as long as there are free slots.
    async fn resume_stalled(&self) {
        while let Some(id) = self.inner.stalled.take() {
            if let Err(error) = self.resume(id).await {
                tracing::warn!(session = %id, %error, "cannot resume a session");
                // Retried when a slot is free, or the disk has space again.
                if matches!(error, EngineError::Busy | EngineError::Store(StoreError::Full)) {
                    self.inner.stalled.add(id);
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
        if slot.execution.lock().session.state == State::Idle {
            slot.execution.command(Command::Begin)?;
        }
        self.advance(&slot, &turn).await
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

    fn take(&self) -> Option<SessionId> {
        let mut stalled = self.0.lock();
        let id = *stalled.iter().next()?;
        stalled.remove(&id);
        Some(id)
    }
}

/// Sessions read from the store at a time.
const PAGE: usize = 256;

/// Pause between two passes.
const PAUSE: Duration = Duration::from_millis(500);
