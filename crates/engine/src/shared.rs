//! What a running flow and the engine share: the session, the journal it replays, and what it has
//! done that is not yet durable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hashbrown::HashMap;
use mcp_flow_session::event::{Ending, Event, Fault, FaultName, Outcome};
use mcp_flow_session::prompt::{Progress, Prompt};
use mcp_flow_session::replay::Known;
use mcp_flow_session::session::{Answer, Turn};
use mcp_flow_session::{Command, Refusal, Replay, Session, SessionId, Timestamp, Violation};
use serde_json::Value;

use crate::clock::Clock;
use crate::definition::Definition;
use crate::digest;
use crate::limits::Limits;
use crate::notice::Hub;

pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) hub: Arc<Hub>,
    state: Mutex<Inner>,
}

/// What a session runs in.
pub(crate) struct Setting {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) definition: Option<Arc<Definition>>,
}

pub(crate) struct Inner {
    /// With everything in `pending` applied.
    pub(crate) session: Session,
    replay: Replay,
    /// Decided, and not yet durable.
    pending: Vec<Event>,
    /// How many events the store has.
    durable: usize,
    /// Someone waits for `pending` to be durable before having an effect.
    flush: bool,
    /// A question the flow asks while another is on record: a sign of divergence, unless another
    /// part of the flow asks the one on record.
    out_of_turn: Option<(String, Prompt)>,
    /// Whether the flow has come as far as the question on record.
    reached: bool,
    /// The keys of the steps at work.
    steps: Vec<String>,
    /// How many steps of each key there were in this run.
    occurrences: HashMap<String, u32>,
    wakers: Vec<Waker>,
    pub(crate) progress: Option<Progress>,
    summary: Option<String>,
    id: SessionId,
    /// Of the flow this runs, if this program has it.
    definition: Option<Arc<Definition>>,
}

/// What became of an answer.
pub(crate) enum Taken {
    Accepted,
    Rejected(Violation),
    /// It was wrong once too often, or one too much, and the session is over.
    Ended,
}

/// What is to be written.
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    pub(crate) length: usize,
    pub(crate) replace: bool,
}

impl Shared {
    pub(crate) fn new(id: SessionId, events: &[Event], session: Session, setting: Setting) -> Self {
        let Setting { clock, limits, hub, definition } = setting;
        let state = Inner {
            replay: Replay::new(events),
            pending: Vec::new(),
            durable: events.len(),
            flush: false,
            out_of_turn: None,
            reached: false,
            steps: Vec::new(),
            occurrences: HashMap::new(),
            wakers: Vec::new(),
            progress: session.open.as_ref().and_then(|open| open.progress.clone()),
            summary: None,
            id,
            definition,
            session,
        };
        Self { id, clock, limits, hub, state: Mutex::new(state) }
    }

    /// A session that starts now: nothing of it is durable, not even that it started.
    pub(crate) fn fresh(id: SessionId, session: Session, setting: Setting) -> Self {
        let started = Event::Started(session.started.clone());
        let shared = Self::new(id, &[], session, setting);
        shared.lock().pending.push(started);
        shared
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides a command and notes what it causes.
    pub(crate) fn command(&self, command: Command) -> Result<(), Refusal> {
        let now = self.clock.now();
        let mut inner = self.lock();
        let event = inner.session.decide(command, now, &self.limits.bounds)?;
        inner.note(event);
        Ok(())
    }

    /// Ends the session for a fault, if it is not over already.
    pub(crate) fn fail(&self, fault: Fault) {
        let _ = self.command(Command::End(Ending::Failed(fault)));
    }

    /// Takes an answer to the open question, if the rules allow it.
    pub(crate) fn answer(&self, answer: &Answer) -> Result<Taken, Refusal> {
        let now = self.clock.now();
        let mut inner = self.lock();
        let command = Command::Answer(answer.clone());
        let mut event = inner.session.decide(command, now, &self.limits.bounds)?;
        let taken = match &mut event {
            Event::Answered(answered) => {
                inner.replay.answer(answered.value.clone());
                inner.wake();
                Taken::Accepted
            }
            Event::Rejected { violation, answer: noted, .. } => {
                *noted = Some(digest::of_answer(self.id, &answer.value));
                Taken::Rejected(violation.clone())
            }
            _ => Taken::Ended,
        };
        inner.note(event);
        Ok(taken)
    }

    /// One poll of a question: what it was answered with, or nothing yet.
    pub(crate) fn poll_ask(
        &self,
        key: &str,
        prompt: &Prompt,
        context: &mut Context<'_>,
    ) -> Poll<Value> {
        let now = self.clock.now();
        let mut inner = self.lock();
        let inner = &mut *inner;
        if inner.session.ended.is_some() {
            return Poll::Pending;
        }
        match inner.replay.question(key, prompt) {
            Known::Answered(value) => {
                inner.reached = false;
                inner.out_of_turn = None;
                // Another part of the flow may be waiting for its turn.
                inner.wake();
                return Poll::Ready(value);
            }
            Known::Open => inner.reached = true,
            Known::NotYet => {
                inner.out_of_turn = Some((key.to_owned(), prompt.clone()));
            }
            Known::Differs(divergence) => {
                inner.fail(divergence.to_string(), FaultName::Diverged, key, now, &self.limits);
            }
            Known::New => {
                let command = Command::Ask {
                    key: key.to_owned(),
                    prompt: Arc::new(prompt.clone()),
                    progress: inner.progress.clone(),
                };
                match inner.session.decide(command, now, &self.limits.bounds) {
                    Ok(Event::Given { key, value, at }) => {
                        inner.note(Event::Given { key, value: value.clone(), at });
                        return Poll::Ready(value);
                    }
                    Ok(event) => {
                        if matches!(event, Event::Asked(_)) {
                            inner.replay.asked(key);
                            inner.reached = true;
                        }
                        inner.note(event);
                    }
                    // It asks where it cannot: before it began or after its end.
                    Err(refusal) => {
                        let reason = refusal.to_string();
                        inner.fail(reason, FaultName::Failed, key, now, &self.limits);
                    }
                }
            }
        }
        inner.park(context);
        Poll::Pending
    }

    /// One poll of the wish to have everything durable that happened so far.
    pub(crate) fn poll_flushed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.pending.is_empty() && inner.session.ended.is_none() {
            return Poll::Ready(());
        }
        inner.flush = true;
        inner.park(context);
        Poll::Pending
    }

    /// How a step of this key ended before, or else which of its key it is, counted from 1.
    pub(crate) fn recorded(&self, key: &str) -> Result<Outcome, u32> {
        let mut inner = self.lock();
        let number = inner.occurrences.entry_ref(key).or_insert(0);
        *number += 1;
        let number = *number;
        inner.replay.step(key).ok_or(number)
    }

    /// Notes how a step ended, or that something was drawn. Whether the session goes on.
    pub(crate) fn record(&self, key: &str, outcome: Outcome) -> bool {
        let _ = self.command(Command::Record { key: key.to_owned(), outcome });
        self.lock().session.ended.is_none()
    }

    /// Notes something for those who look at the session, unless it was noted before.
    pub(crate) fn set(&self, key: &str, value: Value) {
        if self.lock().replay.noted(key) {
            return;
        }
        let _ = self.command(Command::Set { key: key.to_owned(), value });
    }

    pub(crate) fn step_begins(&self, key: &str) {
        self.lock().steps.push(key.to_owned());
    }

    pub(crate) fn step_ends(&self, key: &str) {
        let mut inner = self.lock();
        if let Some(place) = inner.steps.iter().position(|step| step == key) {
            inner.steps.swap_remove(place);
        }
    }

    pub(crate) fn set_progress(&self, progress: Progress) {
        let mut inner = self.lock();
        let live = inner.replay.is_over();
        inner.progress = Some(progress.clone());
        let owner = inner.session.started.owner.clone();
        drop(inner);
        // What was told before is not told again.
        if live {
            self.hub.progressed(self.id, &owner, &progress);
        }
    }

    pub(crate) fn set_summary(&self, summary: String) {
        self.lock().summary = Some(summary);
    }

    pub(crate) fn now(&self) -> Timestamp {
        let inner = self.lock();
        self.clock.now().max(inner.session.touched)
    }

    /// After a poll that left the flow waiting: whether it asks something it did not before.
    pub(crate) fn settle(&self) {
        let now = self.clock.now();
        let mut inner = self.lock();
        if !inner.steps.is_empty() || inner.reached || inner.flush {
            return;
        }
        let Some((key, prompt)) = inner.out_of_turn.take() else { return };
        let divergence = inner.replay.divergence(Some((&key, &prompt)));
        inner.fail(divergence.to_string(), FaultName::Diverged, &key, now, &self.limits);
    }

    /// The flow came to its end.
    pub(crate) fn finish(&self, success: bool, data: Value, summary: Option<String>) {
        let now = self.clock.now();
        let mut inner = self.lock();
        if !inner.replay.is_over() {
            let reason = inner.replay.divergence(None).to_string();
            inner.fail(reason, FaultName::Diverged, "", now, &self.limits);
            return;
        }
        let summary = summary.or_else(|| inner.summary.take());
        let ending = Ending::Completed { success, data, summary };
        if let Ok(event) = inner.session.decide(Command::End(ending), now, &self.limits.bounds) {
            inner.note(event);
        }
    }

    /// What is to be written now.
    pub(crate) fn batch(&self) -> Batch {
        let mut inner = self.lock();
        let mut events = std::mem::take(&mut inner.pending);
        let length = inner.durable;
        // The end takes the place of everything before it, written or not (C-11).
        let replace = matches!(events.last(), Some(Event::Ended(_)));
        if replace {
            events.drain(..events.len() - 1);
        }
        Batch { events, length, replace }
    }

    /// A batch is durable. Whether someone waited for that.
    pub(crate) fn committed(&self, count: usize, replace: bool) -> bool {
        let mut inner = self.lock();
        inner.durable = if replace { count } else { inner.durable + count };
        let flush = std::mem::take(&mut inner.flush);
        if flush {
            inner.wake();
        }
        flush
    }

    /// Whether the flow has something to do other than to wait for an answer.
    pub(crate) fn is_busy(&self) -> bool {
        let inner = self.lock();
        inner.session.ended.is_none() && (inner.session.open.is_none() || !inner.steps.is_empty())
    }

    /// What the flow is at: a step, if any.
    pub(crate) fn operation(&self) -> Option<String> {
        self.lock().steps.first().cloned()
    }
}

impl Inner {
    fn note(&mut self, mut event: Event) {
        if let Event::Ended(ended) = &mut event {
            if let Some(Turn { asked, answered }) = self.session.history.last() {
                ended.last_answer = Some(digest::of_answer(self.id, &answered.value));
                let by_default = asked.prompt.check(&Value::Null);
                ended.last_by_default = by_default.is_ok_and(|value| value == answered.value);
            }
            if let Some(definition) = &self.definition {
                if let Some(duration) = definition.remembers(&ended.ending) {
                    ended.until = ended.at.after(duration);
                }
                // A result says itself what came of it.
                let is_result = matches!(ended.ending, Ending::Completed { .. });
                if definition.keeps_data() && !is_result {
                    ended.kept.clone_from(&self.session.data);
                }
            }
        }
        // What was decided can be applied; anything else would be a fault of ours, and then the
        // journal, which is checked when read, must not have it either.
        if self.session.apply(event.clone()).is_ok() {
            self.pending.push(event);
        }
    }

    fn fail(
        &mut self,
        reason: String,
        name: FaultName,
        key: &str,
        now: Timestamp,
        limits: &Limits,
    ) {
        let mut fault = Fault::new(name, reason);
        if !key.is_empty() {
            fault = fault.at(key);
        }
        let command = Command::End(Ending::Failed(fault));
        if let Ok(event) = self.session.decide(command, now, &limits.bounds) {
            self.note(event);
        }
    }

    fn park(&mut self, context: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.wakers.push(context.waker().clone());
        }
    }

    fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}
