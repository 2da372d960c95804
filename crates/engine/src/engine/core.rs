//! What every handle of an engine shares, and how requests are served with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mcp_flow_rate::Buckets;
use mcp_flow_session::event::{Ending, FaultName};
use mcp_flow_session::session::State;
use mcp_flow_session::{Command, Owner, Refusal, Session, SessionId, Store, StoreError, Violation};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::request::{Reply, Response};
use crate::clock::Clock;
use crate::definition::Definition;
use crate::digest;
use crate::error::EngineError;
use crate::limits::Limits;
use crate::live::Live;
use crate::notice::{Hub, Subscription};
use crate::quota::Counts;
use crate::run::Slot;
use crate::shared::{Setting, Shared, Taken};
use crate::sweep::{Graves, Stalled};
use crate::view::View;

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) flows: Arc<BTreeMap<String, Arc<Definition>>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) live: Live,
    pub(crate) counts: Counts,
    pub(crate) rates: Buckets<SessionId>,
    pub(crate) graves: Graves,
    pub(crate) stalled: Stalled,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// How often someone tried what belongs to someone else.
    pub(crate) strangers: AtomicU64,
    /// Whether it sweeps by itself.
    pub(crate) running: AtomicBool,
}

impl Core {
    /// An engine of the same flows and limits on another store, with nothing in memory.
    pub(crate) fn beside(&self, store: Arc<dyn Store>) -> super::Engine {
        let core = Self {
            store,
            flows: Arc::clone(&self.flows),
            limits: Arc::clone(&self.limits),
            clock: Arc::clone(&self.clock),
            hub: Arc::new(Hub::default()),
            live: Live::new(self.limits.live),
            counts: Counts::default(),
            rates: Buckets::default(),
            graves: Graves::default(),
            stalled: Stalled::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            strangers: AtomicU64::new(0),
            // Nothing in it outlives one request.
            running: AtomicBool::new(true),
        };
        super::Engine { core: Arc::new(core) }
    }

    pub(super) async fn respond(
        self: &Arc<Self>,
        id: SessionId,
        owner: &Owner,
        response: &Response,
    ) -> Result<Reply, EngineError> {
        if !response.answer.metadata.is_empty() {
            check_size("metadata", self.limits.metadata, &response.answer.metadata)?;
        }
        let slot = self.slot(id, owner).await?;
        if let Some(rate) = self.limits.rate {
            let taken = self.rates.take(&id, rate, tokio::time::Instant::now().into_std());
            taken.map_err(|retry_after| EngineError::RateLimited { retry_after })?;
        }
        let turn = self.take_turn(&slot).await;
        if slot.is_dead() {
            return Err(StoreError::Conflict(id).into());
        }
        self.expire(&slot, &turn).await?;
        if let Some(reply) = repeated(&slot, response)? {
            return Ok(reply);
        }
        check_not_timed_out(&slot)?;
        slot.prepare()?;
        let reply = match slot.shared.answer(&response.answer)? {
            Taken::Accepted => {
                slot.answered.store(true, Ordering::Release);
                self.advance(&slot, &turn).await?;
                Reply::Accepted(slot.view())
            }
            Taken::Rejected(violation) => {
                self.commit(&slot, &turn).await?;
                rejected(&slot, violation)
            }
            Taken::Ended => {
                slot.poll();
                self.commit(&slot, &turn).await?;
                Reply::Ended(slot.view())
            }
        };
        drop(turn);
        self.rested(&slot);
        Ok(reply)
    }

    pub(super) async fn end(
        self: &Arc<Self>,
        id: SessionId,
        owner: &Owner,
        command: Command,
    ) -> Result<View, EngineError> {
        let slot = self.slot(id, owner).await?;
        let turn = self.take_turn(&slot).await;
        if slot.is_dead() {
            return Err(StoreError::Conflict(id).into());
        }
        self.expire(&slot, &turn).await?;
        let early = slot.definition.as_ref().is_some_and(|definition| definition.is_early());
        if command == Command::Finish && !early && !slot.is_over() {
            return Err(EngineError::NotEarly);
        }
        slot.shared.command(command)?;
        // The flow is over: this drops it, and with it the work it was at.
        slot.poll();
        slot.signal.say();
        self.commit(&slot, &turn).await?;
        drop(turn);
        self.rested(&slot);
        Ok(slot.view())
    }

    pub(super) async fn view(&self, id: SessionId, owner: &Owner) -> Result<View, EngineError> {
        self.look(id, owner, Slot::view, |session| View::of(id, session, None)).await
    }

    pub(super) async fn inspect(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<Session, EngineError> {
        self.look(id, owner, Slot::session, Session::clone).await
    }

    /// Looks at a session where it is, without bringing it into memory.
    async fn look<T>(
        &self,
        id: SessionId,
        owner: &Owner,
        live: impl FnOnce(&Slot) -> T,
        stored: impl FnOnce(&Session) -> T,
    ) -> Result<T, EngineError> {
        if let Some(slot) = self.live.get(id) {
            if slot.owner != *owner {
                return Err(self.stranger());
            }
            // Between turns all is durable; nobody is told of what is not.
            let _held = slot.turn.lock().await;
            if !slot.is_dead() {
                let expired = self.expired(&slot.shared.lock().session);
                return Ok(expired.map_or_else(|| live(&slot), |session| stored(&session)));
            }
        }
        let session = self.read(id, owner).await?.1;
        Ok(stored(self.expired(&session).as_ref().unwrap_or(&session)))
    }

    /// What a session has become that ran out of time, though nobody has ended it yet.
    pub(crate) fn expired(&self, session: &Session) -> Option<Session> {
        let now = self.clock.now();
        let limit = session.overdue(now)?;
        let mut expired = session.clone();
        expired.apply(session.end(Ending::Expired(limit), now, &self.limits.bounds)).ok()?;
        Some(expired)
    }

    pub(super) async fn subscribe(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<Subscription, EngineError> {
        let session = self.inspect(id, owner).await?;
        let quarter = session.started.inactivity.unwrap_or(u64::MAX) / 4;
        let warning = u64::try_from(self.limits.warning.as_millis()).unwrap_or(u64::MAX);
        Ok(self.hub.subscribe(id, &session, quarter.min(warning)))
    }

    /// A session in memory, brought there if need be.
    async fn slot(&self, id: SessionId, owner: &Owner) -> Result<Arc<Slot>, EngineError> {
        if let Some(slot) = self.live.get(id) {
            return if slot.owner == *owner { Ok(slot) } else { Err(self.stranger()) };
        }
        let (events, session) = self.read(id, owner).await?;
        self.revive(id, &events, session)
    }

    pub(crate) fn revive(
        &self,
        id: SessionId,
        events: &[mcp_flow_session::Event],
        session: Session,
    ) -> Result<Arc<Slot>, EngineError> {
        let definition = self.flows.get(&session.started.flow);
        let shared = Shared::new(id, events, session, self.setting(definition));
        self.live.insert(Slot::new(shared, definition.cloned())).ok_or(EngineError::Busy)
    }

    pub(super) fn setting(&self, definition: Option<&Arc<Definition>>) -> Setting {
        let mut limits = Arc::clone(&self.limits);
        if let Some(prompts) = definition.and_then(|definition| definition.prompts()) {
            Arc::make_mut(&mut limits).bounds.prompts = prompts;
        }
        Setting {
            clock: Arc::clone(&self.clock),
            limits,
            hub: Arc::clone(&self.hub),
            definition: definition.cloned(),
        }
    }

    async fn read(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<(Vec<mcp_flow_session::Event>, Session), EngineError> {
        match self.read_any(id).await? {
            Some(found) if found.1.started.owner == *owner => Ok(found),
            Some(_) => Err(self.stranger()),
            None => Err(EngineError::NotFound),
        }
    }

    /// Counts an attempt on someone else's session, and answers it like any other (C-53).
    pub(crate) fn stranger(&self) -> EngineError {
        self.strangers.fetch_add(1, Ordering::Relaxed);
        EngineError::NotFound
    }

    pub(crate) async fn read_any(
        &self,
        id: SessionId,
    ) -> Result<Option<(Vec<mcp_flow_session::Event>, Session)>, EngineError> {
        let events = self.store.read(id).await?;
        let session = Session::replay(&events).map_err(|_| StoreError::Damaged(id))?;
        Ok(session.map(|session| (events, session)))
    }
}

/// Whether this answer was given before: to an earlier turn, as an attempt at the open question, or
/// as the last one of a session that is over (C-11).
fn repeated(slot: &Slot, response: &Response) -> Result<Option<Reply>, EngineError> {
    let inner = slot.shared.lock();
    let session = &inner.session;
    let value = &response.answer.value;
    let known = match (&session.ended, response.turn) {
        (Some(ended), turn) => {
            let last = turn.is_none_or(|turn| turn.checked_add(1) == Some(ended.turns));
            let known = ended.last_by_default && mcp_flow_session::is_empty(value)
                || ended.last_answer.as_ref() == Some(&digest::of_answer(slot.id, value));
            // Sent twice before the first was answered, it is one answer too many, not a retry.
            let is_retry = turn.is_some()
                || response.seen.is_none_or(|seen| !seen.is_reliable || seen.turn >= ended.turns);
            // A flow that failed or was cancelled over an answer is not asked again, and one that
            // was finished early did not end by an answer.
            let by_answer =
                matches!(ended.ending, Ending::Completed { .. }) && !ended.finished_early;
            last && known && is_retry && by_answer
        }
        (None, None) => {
            let turn = u32::try_from(session.history.len()).unwrap_or(u32::MAX);
            let is_unseen = response.seen.is_some_and(|seen| seen.turn < turn);
            // What another process has answered, it may have asked about, too.
            if is_unseen && session.open.is_some() && slot.answered.load(Ordering::Acquire) {
                return Err(EngineError::Transition { from: session.state, to: State::Processing });
            }
            false
        }
        (None, Some(turn)) => {
            let place = usize::try_from(turn).unwrap_or(usize::MAX);
            if place == session.history.len() {
                // Of what was wrong since the question was asked in this very form.
                let attempt = response.attempt.and_then(|attempt| usize::try_from(attempt).ok());
                let since = attempt.and_then(|attempt| session.wrong.get(attempt..));
                let again = since.is_some_and(|wrong| {
                    !wrong.is_empty() && wrong.contains(&Some(digest::of_answer(slot.id, value)))
                });
                let violation = session.violation.clone().filter(|_| again);
                drop(inner);
                return Ok(violation.map(|violation| rejected(slot, violation)));
            }
            let known = session.history.get(place).is_some_and(|turn| {
                let given = turn.asked.prompt.check(value);
                given.is_ok_and(|given| given == turn.answered.value)
            });
            if !known {
                let (from, to) = (session.state, State::Processing);
                return Err(Refusal::Transition { from, to }.into());
            }
            true
        }
    };
    drop(inner);
    Ok(known.then(|| Reply::Repeated(slot.view())))
}

/// Refuses an answer to a session that ended because something took too long (C-41).
fn check_not_timed_out(slot: &Slot) -> Result<(), EngineError> {
    match slot.shared.lock().session.ending() {
        Some(Ending::Failed(fault)) if fault.name == FaultName::Timeout => {
            Err(EngineError::TimedOut(fault.clone()))
        }
        _ => Ok(()),
    }
}

fn rejected(slot: &Slot, violation: Violation) -> Reply {
    let attempts = slot.shared.lock().session.attempts();
    let left = slot.shared.limits.bounds.attempts.saturating_sub(attempts);
    Reply::Rejected { violation, left, view: slot.view() }
}

pub(super) fn check_size(
    what: &'static str,
    most: usize,
    value: &impl Serialize,
) -> Result<(), EngineError> {
    let size = serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len());
    if size > most { Err(EngineError::TooLarge { what, most }) } else { Ok(()) }
}
