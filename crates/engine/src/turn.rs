//! One turn of a session: run the flow, then make durable what it did.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use mcp_flow_session::event::{Ending, FaultName, FlowFault, JournalEvent};
use mcp_flow_session::store::{Append, Fence};
use mcp_flow_session::{Command, Divergence, Session, StoreError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::notice::{Notice, asked};
use crate::slot::Slot;
use crate::trace;

/// Guard of a session's turn.
///
/// A caller may go away at any await. If the guard is dropped with uncommitted events, be they
/// pending or handed to the store, the slot may differ from the store: it is marked stale and its
/// session resumed from the journal. An append that was handed to the store is completed first,
/// because until then the journal is unknown.
pub(crate) struct TurnGuard<'a> {
    engine: &'a Engine,
    slot: &'a Arc<Slot>,
    writing: Mutex<Option<PendingAppend>>,
    lock: Option<OwnedMutexGuard<()>>,
}

/// An append that was handed to the store and is not durable yet.
type PendingAppend = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

impl TurnGuard<'_> {
    /// Appends to the journal. The append is completed even if the caller goes away.
    async fn append(&self, append: Append) -> Result<(), StoreError> {
        let store = Arc::clone(&self.engine.inner.store);
        let mut span = trace::start_append(&self.slot.execution, append.events.len());
        *self.writing.lock() = Some(Box::pin(async move {
            let written = store.append(append).await;
            if let Err(error) = &written {
                span.fail("store", || error.to_string());
            }
            written
        }));
        poll_fn(|context| {
            let mut writing = self.writing.lock();
            let Some(pending) = writing.as_mut() else { return Poll::Ready(Ok(())) };
            let written = ready!(pending.as_mut().poll(context));
            *writing = None;
            Poll::Ready(written)
        })
        .await
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let writing = self.writing.get_mut().take();
        let is_pending = !self.slot.is_stale() && self.slot.execution.has_pending();
        if !is_pending && !self.slot.uncommitted.load(Ordering::Acquire) {
            return;
        }
        let (engine, slot, lock) = (self.engine.clone(), Arc::clone(self.slot), self.lock.take());
        let Some((writing, runtime)) = writing.zip(Handle::try_current().ok()) else {
            return engine.abandon_turn(&slot);
        };
        let tasks = engine.inner.tasks.clone();
        tasks.spawn_on(
            async move {
                // Whether it failed or not, the journal is settled now.
                let _ = writing.await;
                engine.abandon_turn(&slot);
                drop(lock);
            },
            &runtime,
        );
    }
}

impl Engine {
    /// Waits for the turn of a session.
    pub(crate) async fn lock_turn<'a>(&'a self, slot: &'a Arc<Slot>) -> TurnGuard<'a> {
        let lock = Some(Arc::clone(&slot.turn).lock_owned().await);
        TurnGuard { engine: self, slot, writing: Mutex::default(), lock }
    }

    /// Gives up a turn that was not committed; maintenance resumes the session.
    pub(crate) fn abandon_turn(&self, slot: &Arc<Slot>) {
        self.invalidate(slot);
        self.inner.stalled.add(slot.id);
    }

    /// Runs the flow until it waits, and commits what it did. If it waits for a step, a task drives
    /// it on.
    pub(crate) async fn advance(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
    ) -> Result<(), EngineError> {
        self.run_flow(slot, turn).await?;
        if slot.execution.has_work() && !slot.driven.swap(true, Ordering::AcqRel) {
            let (engine, slot) = (self.clone(), Arc::clone(slot));
            let driven = async move { engine.drive_flow(slot).await };
            self.inner.drivers.spawn(mcp_flow_telemetry::inherit(driven));
        }
        Ok(())
    }

    async fn run_flow(&self, slot: &Arc<Slot>, turn: &TurnGuard<'_>) -> Result<(), EngineError> {
        loop {
            self.await_lease(slot).await?;
            self.poll_slot(slot, turn).await?;
            if !self.commit(slot, turn).await? {
                return Ok(());
            }
        }
    }

    /// Polls a flow. If it diverges from its journal, the session is set aside and the error is
    /// [`EngineError::Stuck`].
    pub(crate) async fn poll_slot(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
    ) -> Result<(), EngineError> {
        slot.poll();
        let Some(divergence) = slot.execution.divergence() else {
            slot.execution.unstick();
            return Ok(());
        };
        // The slot has what the flow did since, which must not be recorded.
        self.invalidate(slot);
        self.set_aside(slot, turn, &divergence).await?;
        Err(EngineError::Stuck(Box::new(divergence)))
    }

    /// Records that a session is stuck, unless its journal says so. A session that is not durable
    /// yet stays that way.
    async fn set_aside(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
        divergence: &Divergence,
    ) -> Result<(), EngineError> {
        let (id, epoch) = (slot.id, slot.execution.epoch());
        let events = self.inner.store.read(id).await?;
        let Ok(Some(mut session)) = Session::replay(&events) else { return Ok(()) };
        let command = Command::SetAside(divergence.clone());
        let bounds = &self.inner.limits.bounds;
        if let Ok(event) = session.decide(command, self.now(), bounds)
            && session.apply(event.clone()).is_ok()
        {
            tracing::warn!(session = %id, %divergence, "a session is stuck");
            let append = Append {
                id,
                length: slot.execution.durable().0,
                events: vec![event],
                summary: session.summary(),
                replace: false,
                fence: Fence { by: epoch, holder: None, steal: false },
            };
            turn.append(append).await?;
            let notice = Notice::Stuck(Box::new(divergence.clone()));
            self.inner.hub.publish_turn(id, &session, vec![notice]);
        }
        self.inner.wakeups.add_unwakeable(id);
        Ok(())
    }

    /// Makes the decided events durable. Returns whether the flow was waiting for that.
    pub(crate) async fn commit(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
    ) -> Result<bool, EngineError> {
        self.commit_as(slot, turn, false).await
    }

    /// Makes durable that a session ends, even if another node works on it, and runs its
    /// compensations.
    pub(crate) async fn commit_end(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
    ) -> Result<(), EngineError> {
        self.commit_end_as(slot, turn, true).await
    }

    /// Makes durable that a session ends, and runs its compensations.
    pub(crate) async fn commit_end_as(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
        steal: bool,
    ) -> Result<(), EngineError> {
        if slot.has_ended() {
            // Polling drops the flow, and with it a step in progress.
            slot.poll();
        }
        slot.signal.fire();
        self.commit_as(slot, turn, steal).await?;
        if slot.has_ended() {
            return Ok(());
        }
        let closed = match slot.prepare() {
            Ok(_) => self.advance(slot, turn).await,
            Err(error) => Err(error),
        };
        match closed {
            // Code that fits runs its compensations.
            Err(EngineError::UnknownFlow(_) | EngineError::Stuck(_)) => Ok(()),
            closed => closed,
        }
    }

    async fn commit_as(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
        steal: bool,
    ) -> Result<bool, EngineError> {
        let batch = slot.execution.take_batch();
        let count = batch.events.len();
        if count == 0 {
            slot.uncommitted.store(false, Ordering::Release);
            return Ok(slot.execution.mark_committed(0, false));
        }
        let notices = self.notices(slot, &batch.events);
        let ended = match batch.events.last() {
            Some(JournalEvent::Ended(ended)) => Some(ended.until),
            _ => None,
        };
        let holder = slot.execution.holder();
        let mut summary = slot.execution.lock().session.summary();
        summary.is_asleep &= !slot.execution.is_working();
        let wakes = summary.wakes;
        slot.uncommitted.store(true, Ordering::Release);
        let append = Append {
            id: slot.id,
            length: batch.length,
            events: batch.events,
            summary,
            replace: batch.replace,
            fence: Fence { by: slot.execution.epoch(), holder, steal },
        };
        if let Err(error) = turn.append(append).await {
            self.invalidate(slot);
            // After a conflict the other writer drives the session on.
            if !matches!(error, StoreError::Conflict(_)) {
                self.inner.failed_writes.fetch_add(1, Ordering::Relaxed);
                self.inner.stalled.add(slot.id);
            }
            return Err(error.into());
        }
        let flushed = slot.execution.mark_committed(count, batch.replace);
        if let Some(until) = ended {
            self.inner.counts.release(&slot.owner);
            self.add_tombstone(slot.id, until).await;
        }
        self.inner.hub.publish_turn(slot.id, &slot.execution.lock().session, notices);
        if let Some(wakes) = wakes {
            self.inner.wakeups.add(wakes, self.now());
        }
        // A flow that waited for the commit has to be polled again within this turn.
        slot.uncommitted.store(flushed, Ordering::Release);
        Ok(flushed)
    }

    /// Expires a session past its deadline, and fails with [`EngineError::Expired`] then.
    pub(crate) async fn expire(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
    ) -> Result<(), EngineError> {
        let overdue = slot.execution.lock().session.overdue(self.now());
        let Some(limit) = overdue else { return Ok(()) };
        slot.execution.command(Command::End(Ending::Expired(limit)))?;
        self.commit_end(slot, turn).await?;
        Err(EngineError::Expired(limit))
    }

    /// Runs a flow whenever its step makes progress, until it waits for an answer or has ended. While
    /// the engine drains, until its steps in progress have ended.
    async fn drive_flow(self, slot: Arc<Slot>) {
        let limit = slot.execution.operation_limit();
        let mut length = 0;
        let mut began = Instant::now();
        loop {
            let is_draining = self.inner.draining.is_cancelled();
            if is_draining && !slot.execution.is_in_step() {
                return;
            }
            // A step with a timeout of its own may take that long.
            let longest = slot.execution.longest_timeout().saturating_add(STEP_GRACE);
            let limit = if longest > STEP_GRACE { limit.max(longest) } else { limit };
            let deadline = began + limit.min(LONGEST_OPERATION);
            let woken = tokio::select! {
                woken = timeout_at(deadline, slot.signal.fired()) => woken,
                () = self.inner.draining.cancelled(), if !is_draining => continue,
                () = self.inner.stopping.cancelled() => return,
            };
            let turn = self.lock_turn(&slot).await;
            if slot.is_stale() {
                return;
            }
            if woken.is_err() && slot.execution.has_work() {
                let operation = slot.execution.operation().unwrap_or_else(|| "flow".to_owned());
                let message = format!("`{operation}` took longer than {} ms", limit.as_millis());
                let fault = FlowFault::new(FaultName::Timeout, message).at(operation);
                slot.execution.fail(fault);
            }
            if let Err(error) = self.run_flow(&slot, &turn).await {
                tracing::warn!(session = %slot.id, %error, "cannot write a session");
                return;
            }
            if !slot.execution.has_work() {
                slot.driven.store(false, Ordering::Release);
                self.release_slot(&slot);
                return;
            }
            // The timeout is per operation: each recorded event restarts it.
            let now = slot.execution.lock().session.length;
            if now != length || slot.execution.is_closing() {
                length = now;
                began = Instant::now();
            }
        }
    }

    /// Marks a slot as stale and removes it: the session has to be loaded again.
    pub(crate) fn invalidate(&self, slot: &Arc<Slot>) {
        slot.uncommitted.store(false, Ordering::Release);
        slot.stale.store(true, Ordering::Release);
        slot.signal.fire();
        self.inner.slots.remove(slot);
    }

    /// Marks a slot as used, or removes it if idle slots do not linger.
    pub(crate) fn release_slot(&self, slot: &Arc<Slot>) {
        self.inner.slots.touch(slot);
        if self.inner.limits.linger.is_zero() && !slot.is_driven() {
            self.inner.slots.remove(slot);
        }
    }

    fn notices(&self, slot: &Slot, events: &[JournalEvent]) -> Vec<Notice> {
        if !self.inner.hub.is_watched(slot.id) {
            return Vec::new();
        }
        let state = slot.execution.lock();
        let mut notices: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                JournalEvent::Answered(_) => Some(Notice::Accepted),
                JournalEvent::Rejected { question: None, violation, .. } => {
                    Some(Notice::Rejected(violation.clone()))
                }
                JournalEvent::Ended(ended) => Some(Notice::Ended(ended.clone())),
                _ => None,
            })
            .collect();
        // An answer opens the next question that was queued.
        let opens = |event: &_| {
            matches!(
                event,
                JournalEvent::Asked(_)
                    | JournalEvent::Answered(_)
                    | JournalEvent::Withdrawn { skipped: true, .. }
            )
        };
        if events.iter().any(opens) {
            notices.extend(asked(&state.session));
        }
        // An end that has begun closes all questions.
        if events.iter().any(changes_queue) {
            notices.push(Notice::QueueChanged);
        }
        if state.session.is_asleep() && events.iter().any(sets_timer) {
            notices.extend(state.session.wakes().map(Notice::Sleeping));
        }
        notices
    }
}

fn sets_timer(event: &JournalEvent) -> bool {
    matches!(event, JournalEvent::TimerSet { .. } | JournalEvent::TimerDropped { .. })
}

/// Time in which a step is interrupted by its own timeout.
const STEP_GRACE: Duration = Duration::from_secs(1);

/// Longest timeout of an operation, so that deadlines can be computed.
const LONGEST_OPERATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Returns whether an event changes the questions behind the open one.
fn changes_queue(event: &JournalEvent) -> bool {
    matches!(
        event,
        JournalEvent::Queued(_)
            | JournalEvent::AnsweredAhead { .. }
            | JournalEvent::Rejected { question: Some(_), .. }
            | JournalEvent::Withdrawn { .. }
            | JournalEvent::EndBegun { .. }
    )
}
