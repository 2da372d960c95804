//! State that the engine shares with a running flow: the session, the journal being replayed, and
//! the events that are not durable yet.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hashbrown::HashMap;
use mcp_flow_session::event::{Ending, FaultName, FlowFault, JournalEvent, StepOutcome};
use mcp_flow_session::prompt::{FlowProgress, Prompt};
use mcp_flow_session::replay::RecordedQuestion;
use mcp_flow_session::session::{Answer, AnsweredTurn};
use mcp_flow_session::{
    Command, CommandError, InvalidAnswer, Replay, Session, SessionId, Timestamp,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::clock::Clock;
use crate::definition::Definition;
use crate::digest;
use crate::limits::SessionLimits;
use crate::notice::Hub;

/// Execution of a session's flow in memory. The slot and the [`Flow`](crate::Flow) handle own it
/// together, so that the handle does not keep the slot alive.
pub(crate) struct Execution {
    pub(crate) id: SessionId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<SessionLimits>,
    pub(crate) hub: Arc<Hub>,
    state: Mutex<ExecutionState>,
}

/// Parts of the engine that an execution uses.
pub(crate) struct ExecutionContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<SessionLimits>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) definition: Option<Arc<Definition>>,
}

pub(crate) struct ExecutionState {
    /// The session with everything in `pending` applied.
    pub(crate) session: Session,
    replay: Replay,
    /// Events that were decided and are not durable yet.
    pending: Vec<JournalEvent>,
    /// Number of events in the store.
    durable: usize,
    /// Set while a step waits for `pending` to be durable before it begins.
    flush: bool,
    /// Question that was asked while the journal has another one next: a divergence, unless
    /// another branch of the flow asks the recorded one.
    out_of_turn: Option<(String, Prompt)>,
    /// Set when the flow has reached the open question.
    reached: bool,
    /// Keys of the steps in progress.
    running_steps: Vec<String>,
    /// Number of steps of each key in this run.
    occurrences: HashMap<String, u32>,
    wakers: Vec<Waker>,
    pub(crate) progress: Option<FlowProgress>,
    summary: Option<String>,
    id: SessionId,
    /// Definition of the flow, if this program has it.
    definition: Option<Arc<Definition>>,
}

/// Outcome of an answer to the open question.
pub(crate) enum AnswerOutcome {
    Accepted,
    Rejected(InvalidAnswer),
    /// It was the last attempt, or exceeded a bound: the session has ended.
    Ended,
}

/// Events to append.
pub(crate) struct Batch {
    pub(crate) events: Vec<JournalEvent>,
    pub(crate) length: usize,
    pub(crate) replace: bool,
}

impl Execution {
    pub(crate) fn new(
        id: SessionId,
        events: &[JournalEvent],
        session: Session,
        context: ExecutionContext,
    ) -> Self {
        let ExecutionContext { clock, limits, hub, definition } = context;
        let state = ExecutionState {
            replay: Replay::new(events),
            pending: Vec::new(),
            durable: events.len(),
            flush: false,
            out_of_turn: None,
            reached: false,
            running_steps: Vec::new(),
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

    /// Creates the execution of a new session, whose start is not durable yet.
    pub(crate) fn create(id: SessionId, session: Session, context: ExecutionContext) -> Self {
        let started = JournalEvent::Started(session.started.clone());
        let execution = Self::new(id, &[], session, context);
        execution.lock().pending.push(started);
        execution
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ExecutionState> {
        self.state.lock()
    }

    /// Decides a command and applies the event it causes.
    pub(crate) fn command(&self, command: Command) -> Result<(), CommandError> {
        let now = self.clock.now();
        let mut state = self.lock();
        let event = state.session.decide(command, now, &self.limits.bounds)?;
        state.push(event);
        Ok(())
    }

    /// Ends the session with a fault, unless it has ended.
    pub(crate) fn fail(&self, fault: FlowFault) {
        let _ = self.command(Command::End(Ending::Failed(fault)));
    }

    /// Answers the open question, if the answer is valid.
    pub(crate) fn answer_question(&self, answer: &Answer) -> Result<AnswerOutcome, CommandError> {
        let now = self.clock.now();
        let mut state = self.lock();
        let command = Command::Answer(answer.clone());
        let mut event = state.session.decide(command, now, &self.limits.bounds)?;
        let outcome = match &mut event {
            JournalEvent::Answered(answered) => {
                state.replay.answer(answered.value.clone());
                state.wake();
                AnswerOutcome::Accepted
            }
            JournalEvent::Rejected { violation, answer: noted, .. } => {
                *noted = Some(digest::of_answer(self.id, &answer.value));
                AnswerOutcome::Rejected(violation.clone())
            }
            _ => AnswerOutcome::Ended,
        };
        state.push(event);
        Ok(outcome)
    }

    /// Polls a question of the flow for its answer.
    pub(crate) fn poll_ask(
        &self,
        key: &str,
        prompt: &Prompt,
        context: &mut Context<'_>,
    ) -> Poll<Value> {
        let now = self.clock.now();
        let mut state = self.lock();
        let state = &mut *state;
        if state.session.ended.is_some() {
            return Poll::Pending;
        }
        match state.replay.question(key, prompt) {
            RecordedQuestion::Answered(value) => {
                state.reached = false;
                state.out_of_turn = None;
                // Another branch of the flow may wait for its question to come up.
                state.wake();
                return Poll::Ready(value);
            }
            RecordedQuestion::Open => state.reached = true,
            RecordedQuestion::NotYet => {
                state.out_of_turn = Some((key.to_owned(), prompt.clone()));
            }
            RecordedQuestion::Differs(divergence) => {
                state.fail(divergence.to_string(), FaultName::Diverged, key, now, &self.limits);
            }
            RecordedQuestion::New => {
                let command = Command::Ask {
                    key: key.to_owned(),
                    prompt: Arc::new(prompt.clone()),
                    progress: state.progress.clone(),
                };
                match state.session.decide(command, now, &self.limits.bounds) {
                    Ok(JournalEvent::Given { key, value, at }) => {
                        state.push(JournalEvent::Given { key, value: value.clone(), at });
                        return Poll::Ready(value);
                    }
                    Ok(event) => {
                        if matches!(event, JournalEvent::Asked(_)) {
                            state.replay.asked(key);
                            state.reached = true;
                        }
                        state.push(event);
                    }
                    // The flow asks before it began or after its end.
                    Err(error) => {
                        let reason = error.to_string();
                        state.fail(reason, FaultName::Failed, key, now, &self.limits);
                    }
                }
            }
        }
        state.register(context);
        Poll::Pending
    }

    /// Polls for everything so far to be durable.
    pub(crate) fn poll_flushed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.pending.is_empty() && state.session.ended.is_none() {
            return Poll::Ready(());
        }
        state.flush = true;
        state.register(context);
        Poll::Pending
    }

    /// Returns the recorded outcome of the next step of this key, or else its number, counted from
    /// 1.
    pub(crate) fn recorded_step(&self, key: &str) -> Result<StepOutcome, u32> {
        let mut state = self.lock();
        let number = state.occurrences.entry_ref(key).or_insert(0);
        *number += 1;
        let number = *number;
        state.replay.step(key).ok_or(number)
    }

    /// Records the outcome of a step or a drawn value. Returns whether the session is still live.
    pub(crate) fn record_step(&self, key: &str, outcome: StepOutcome) -> bool {
        let _ = self.command(Command::Record { key: key.to_owned(), outcome });
        self.lock().session.ended.is_none()
    }

    /// Sets an entry of the session's data, unless the journal being replayed has it.
    pub(crate) fn set_data(&self, key: &str, value: Value) {
        if self.lock().replay.noted(key) {
            return;
        }
        let _ = self.command(Command::Set { key: key.to_owned(), value });
    }

    pub(crate) fn step_begins(&self, key: &str) {
        self.lock().running_steps.push(key.to_owned());
    }

    pub(crate) fn step_ends(&self, key: &str) {
        let mut state = self.lock();
        if let Some(index) = state.running_steps.iter().position(|step| step == key) {
            state.running_steps.swap_remove(index);
        }
    }

    pub(crate) fn set_progress(&self, progress: FlowProgress) {
        let mut state = self.lock();
        let is_replaying = !state.replay.is_over();
        state.progress = Some(progress.clone());
        let owner = state.session.started.owner.clone();
        drop(state);
        // It was published when the flow ran for the first time.
        if !is_replaying {
            self.hub.publish_progress(self.id, &owner, &progress);
        }
    }

    pub(crate) fn set_summary(&self, summary: String) {
        self.lock().summary = Some(summary);
    }

    pub(crate) fn now(&self) -> Timestamp {
        let state = self.lock();
        self.clock.now().max(state.session.touched)
    }

    /// Ends the session if the flow waits without having asked the recorded question.
    pub(crate) fn check_divergence(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        if !state.running_steps.is_empty() || state.reached || state.flush {
            return;
        }
        let Some((key, prompt)) = state.out_of_turn.take() else { return };
        let divergence = state.replay.divergence(Some((&key, &prompt)));
        state.fail(divergence.to_string(), FaultName::Diverged, &key, now, &self.limits);
    }

    /// Completes the session with the result of the flow.
    pub(crate) fn finish(&self, success: bool, data: Value, summary: Option<String>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if !state.replay.is_over() {
            let reason = state.replay.divergence(None).to_string();
            state.fail(reason, FaultName::Diverged, "", now, &self.limits);
            return;
        }
        let summary = summary.or_else(|| state.summary.take());
        let ending = Ending::Completed { success, data, summary };
        if let Ok(event) = state.session.decide(Command::End(ending), now, &self.limits.bounds) {
            state.push(event);
        }
    }

    /// Takes the pending events for an append.
    pub(crate) fn take_batch(&self) -> Batch {
        let mut state = self.lock();
        let mut events = std::mem::take(&mut state.pending);
        let length = state.durable;
        // The end replaces everything before it, durable or not (C-11).
        let replace = matches!(events.last(), Some(JournalEvent::Ended(_)));
        if replace {
            events.drain(..events.len() - 1);
        }
        Batch { events, length, replace }
    }

    /// Marks a batch as durable. Returns whether a step was waiting for that.
    pub(crate) fn mark_committed(&self, count: usize, replace: bool) -> bool {
        let mut state = self.lock();
        state.durable = if replace { count } else { state.durable + count };
        let flush = std::mem::take(&mut state.flush);
        if flush {
            state.wake();
        }
        flush
    }

    /// Returns whether the flow has work other than waiting for an answer.
    pub(crate) fn has_work(&self) -> bool {
        let state = self.lock();
        let session = &state.session;
        session.ended.is_none() && (session.open.is_none() || !state.running_steps.is_empty())
    }

    /// Returns the key of a step in progress.
    pub(crate) fn operation(&self) -> Option<String> {
        self.lock().running_steps.first().cloned()
    }
}

impl ExecutionState {
    /// Applies a decided event and queues it for the journal.
    fn push(&mut self, mut event: JournalEvent) {
        if let JournalEvent::Ended(ended) = &mut event {
            if let Some(AnsweredTurn { asked, answered }) = self.session.history.last() {
                ended.last_answer = Some(digest::of_answer(self.id, &answered.value));
                let by_default = asked.prompt.check(&Value::Null);
                ended.last_by_default = by_default.is_ok_and(|value| value == answered.value);
            }
            if let Some(definition) = &self.definition {
                if let Some(duration) = definition.retention_of(&ended.ending) {
                    ended.until = ended.at.after(duration);
                }
                // A result has the data in it.
                let is_result = matches!(ended.ending, Ending::Completed { .. });
                if definition.keeps_data() && !is_result {
                    ended.kept.clone_from(&self.session.data);
                }
            }
        }
        // A decided event can be applied. If it could not, that would be a bug, and the journal,
        // which is validated when read, must not contain it.
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
        limits: &SessionLimits,
    ) {
        let mut fault = FlowFault::new(name, reason);
        if !key.is_empty() {
            fault = fault.at(key);
        }
        let command = Command::End(Ending::Failed(fault));
        if let Ok(event) = self.session.decide(command, now, &limits.bounds) {
            self.push(event);
        }
    }

    fn register(&mut self, context: &Context<'_>) {
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
