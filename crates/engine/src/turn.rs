//! One turn of a session: the flow goes on, and what it did is made durable.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};

use mcp_flow_session::event::{Ending, Event, Fault, FaultName};
use mcp_flow_session::store::Append;
use mcp_flow_session::{Command, StoreError};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use crate::engine::Core;
use crate::error::EngineError;
use crate::notice::{Notice, asked};
use crate::run::Slot;

/// That a session's turn is held.
///
/// Whoever waits for a turn may go away at any moment. Dropped in the middle of one, this sees to
/// it that what is in memory, and may differ from what is stored, is not used any more, and that
/// the flow is taken up again from the journal. What was handed to the store by then is written
/// first: until that is done nobody can tell what the journal is.
pub(crate) struct Turn<'a> {
    core: &'a Arc<Core>,
    slot: &'a Arc<Slot>,
    writing: Mutex<Option<Writing>>,
    held: Option<OwnedMutexGuard<()>>,
}

/// What was handed to the store and is not durable yet.
type Writing = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

impl Turn<'_> {
    /// Writes to the journal, to the end even if nobody waits for that any more.
    async fn write(&self, append: Append) -> Result<(), StoreError> {
        let store = Arc::clone(&self.core.store);
        *self.writing() = Some(Box::pin(async move { store.append(append).await }));
        poll_fn(|context| {
            let mut writing = self.writing();
            let Some(pending) = writing.as_mut() else { return Poll::Ready(Ok(())) };
            let written = ready!(pending.as_mut().poll(context));
            *writing = None;
            Poll::Ready(written)
        })
        .await
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let writing = self.writing().take();
        if !self.slot.unsettled.load(Ordering::Acquire) {
            return;
        }
        let (core, slot, held) = (Arc::clone(self.core), Arc::clone(self.slot), self.held.take());
        let Some((writing, runtime)) = writing.zip(Handle::try_current().ok()) else {
            return core.leave(&slot);
        };
        let tasks = core.tasks.clone();
        tasks.spawn_on(
            async move {
                // Whatever came of it, the journal now says so.
                let _ = writing.await;
                core.leave(&slot);
                drop(held);
            },
            &runtime,
        );
    }
}

impl Core {
    /// Waits for the turn of a session.
    pub(crate) async fn take_turn<'a>(self: &'a Arc<Self>, slot: &'a Arc<Slot>) -> Turn<'a> {
        let held = Some(Arc::clone(&slot.turn).lock_owned().await);
        Turn { core: self, slot, writing: Mutex::default(), held }
    }

    /// A turn was not brought to its end: someone else will have to take the flow up again.
    fn leave(&self, slot: &Arc<Slot>) {
        self.abandon(slot);
        self.stalled.add(slot.id);
    }

    /// Lets the flow run as far as it goes without waiting, and makes durable what it did. If it
    /// has more to do, a task sees to that.
    pub(crate) async fn advance(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        turn: &Turn<'_>,
    ) -> Result<(), EngineError> {
        self.run(slot, turn).await?;
        if slot.shared.is_busy() && !slot.driven.swap(true, Ordering::AcqRel) {
            let (core, slot) = (Arc::clone(self), Arc::clone(slot));
            self.tasks.spawn(async move { core.drive(slot).await });
        }
        Ok(())
    }

    async fn run(&self, slot: &Arc<Slot>, turn: &Turn<'_>) -> Result<(), EngineError> {
        loop {
            slot.poll();
            if !self.commit(slot, turn).await? {
                return Ok(());
            }
        }
    }

    /// Makes durable what was decided. Whether the flow waited for that.
    pub(crate) async fn commit(
        &self,
        slot: &Arc<Slot>,
        turn: &Turn<'_>,
    ) -> Result<bool, EngineError> {
        let batch = slot.shared.batch();
        let count = batch.events.len();
        if count == 0 {
            slot.unsettled.store(false, Ordering::Release);
            return Ok(slot.shared.committed(0, false));
        }
        let notices = self.notices(slot, &batch.events);
        let ended = match batch.events.last() {
            Some(Event::Ended(ended)) => Some(ended.until),
            _ => None,
        };
        let summary = slot.shared.lock().session.summary();
        slot.unsettled.store(true, Ordering::Release);
        let append = Append {
            id: slot.id,
            length: batch.length,
            events: batch.events,
            summary,
            replace: batch.replace,
        };
        if let Err(error) = turn.write(append).await {
            self.discard(slot, &error);
            return Err(error.into());
        }
        let flushed = slot.shared.committed(count, batch.replace);
        if let Some(until) = ended {
            self.counts.give_back(&slot.owner);
            self.buried(slot.id, until).await;
        }
        self.hub.turned(slot.id, &slot.shared.lock().session, notices);
        // A flow that waited for this has yet to go on.
        slot.unsettled.store(flushed, Ordering::Release);
        Ok(flushed)
    }

    /// Ends a session that has run out of time.
    pub(crate) async fn expire(
        &self,
        slot: &Arc<Slot>,
        turn: &Turn<'_>,
    ) -> Result<(), EngineError> {
        let overdue = slot.shared.lock().session.overdue(self.clock.now());
        let Some(limit) = overdue else { return Ok(()) };
        slot.shared.command(Command::End(Ending::Expired(limit)))?;
        slot.poll();
        self.commit(slot, turn).await?;
        Err(EngineError::Expired(limit))
    }

    /// Goes on with a flow whenever it can, until it waits for an answer or is over.
    async fn drive(self: Arc<Self>, slot: Arc<Slot>) {
        let limit = slot.definition.as_ref().and_then(|definition| definition.operation());
        let limit = limit.unwrap_or(self.limits.operation);
        let mut length = 0;
        let mut patience = Instant::now() + limit;
        loop {
            let woken = tokio::select! {
                woken = timeout_at(patience, slot.signal.heard()) => woken,
                () = self.stopping.cancelled() => return,
            };
            let turn = self.take_turn(&slot).await;
            if slot.is_dead() {
                return;
            }
            if woken.is_err() {
                let operation = slot.shared.operation().unwrap_or_else(|| "flow".to_owned());
                let message = format!("`{operation}` took longer than {} ms", limit.as_millis());
                slot.shared.fail(Fault::new(FaultName::Timeout, message).at(operation));
            }
            if let Err(error) = self.run(&slot, &turn).await {
                tracing::warn!(session = %slot.id, %error, "a session could not be written");
                return;
            }
            if !slot.shared.is_busy() {
                slot.driven.store(false, Ordering::Release);
                self.rested(&slot);
                return;
            }
            // Whatever is recorded is a sign of life.
            let now = slot.shared.lock().session.length;
            if now != length {
                length = now;
                patience = Instant::now() + limit;
            }
        }
    }

    /// What is in memory is not what the store has: forget it. If the flow has something to do,
    /// someone will have to take it up again.
    fn discard(&self, slot: &Arc<Slot>, error: &StoreError) {
        self.abandon(slot);
        if !matches!(error, StoreError::Conflict(_)) {
            self.stalled.add(slot.id);
        }
    }

    fn abandon(&self, slot: &Arc<Slot>) {
        slot.unsettled.store(false, Ordering::Release);
        slot.dead.store(true, Ordering::Release);
        slot.signal.say();
        self.live.remove(slot);
    }

    /// A turn is over; where nothing is to linger, the session leaves memory.
    pub(crate) fn rested(&self, slot: &Arc<Slot>) {
        self.live.touch(slot);
        if self.limits.linger.is_zero() && !slot.is_driven() {
            self.live.remove(slot);
        }
    }

    fn notices(&self, slot: &Slot, events: &[Event]) -> Vec<Notice> {
        if !self.hub.listens(slot.id) {
            return Vec::new();
        }
        let inner = slot.shared.lock();
        events
            .iter()
            .filter_map(|event| match event {
                Event::Asked(_) => asked(&inner.session),
                Event::Answered(_) => Some(Notice::Accepted),
                Event::Rejected { violation, .. } => Some(Notice::Rejected(violation.clone())),
                Event::Ended(ended) => Some(Notice::Ended(ended.clone())),
                _ => None,
            })
            .collect()
    }
}
