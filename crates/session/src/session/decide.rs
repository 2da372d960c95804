//! Commands to a session, and the events they cause.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::apply::not_before;
use super::{MAX_TIMERS, QueuedQuestion, Session, State, size};
use crate::event::{
    Ending, FaultName, FlowFault, JournalEvent, Limit, QuestionAnswered, QuestionAsked,
    SessionEnded, StepFailure, StepOutcome,
};
use crate::prompt::{FlowProgress, Prompt};
use crate::replay::Divergence;
use crate::store::Epoch;
use crate::{InvalidAnswer, Timestamp};

/// Command to a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Begin to run the flow.
    Begin,
    /// Ask a question of the flow.
    Ask {
        /// Key of the question.
        key: String,
        /// The question.
        prompt: Arc<Prompt>,
        /// Progress of the flow.
        progress: Option<FlowProgress>,
        /// Number of the link that can answer it.
        link: Option<u32>,
    },
    /// Answer the open question.
    Answer(Answer),
    /// Answer a queued question ahead of its turn.
    AnswerAhead {
        /// Number of the question.
        question: u32,
        /// The answer.
        answer: Answer,
    },
    /// Drop a question that the flow no longer waits for.
    Withdraw {
        /// Number of the question.
        question: u32,
        /// Set if it is the open question and clients may have seen it.
        skipped: bool,
    },
    /// Set a label.
    Label {
        /// Key of the label.
        key: String,
        /// Its value.
        value: String,
    },
    /// Set a timer.
    SetTimer {
        /// Name of the timer.
        key: String,
        /// Time at which it fires.
        until: Timestamp,
    },
    /// Fire a timer.
    FireTimer {
        /// Number of the timer.
        timer: u32,
    },
    /// Drop a timer that the flow no longer waits for.
    DropTimer {
        /// Number of the timer.
        timer: u32,
    },
    /// Wait for a signal.
    AwaitSignal {
        /// Name of the signal.
        key: String,
    },
    /// Keep a signal until the flow takes it.
    Signal {
        /// Name of the signal.
        key: String,
        /// Value that came with it.
        value: Value,
        /// Number of the link by which it is sent.
        link: Option<u32>,
    },
    /// Take a signal that the flow waits for.
    TakeSignal {
        /// Number of the wait.
        wait: u32,
        /// Number of the signal.
        signal: u32,
    },
    /// Drop a wait for a signal.
    DropSignalWait {
        /// Number of the wait.
        wait: u32,
    },
    /// Make a link.
    MakeLink {
        /// Name of the signal, or key of the question.
        key: String,
        /// URL of the server, with which its URL begins.
        base: String,
        /// Random end of its URL.
        token: String,
        /// Set if it answers a question.
        is_question: bool,
        /// Set if it needs a login.
        needs_login: bool,
    },
    /// Revoke a link.
    RevokeLink {
        /// Number of the link.
        link: u32,
    },
    /// Record that a node is about to begin a step of the flow.
    BeginStep {
        /// Key of the step.
        key: String,
        /// Number of the step among those of its key, counted from 1.
        number: u32,
        /// Node that begins it.
        epoch: Epoch,
    },
    /// Record a failed attempt at a step of the flow, after which there is another.
    RecordFailure {
        /// Key of the step.
        key: String,
        /// Number of the step among those of its key, counted from 1.
        number: u32,
        /// Number of the attempt, counted from 1.
        attempt: u32,
        /// Its failure.
        failure: StepFailure,
    },
    /// Record a finished step of the flow, or a drawn value.
    Record {
        /// Key of the step.
        key: String,
        /// Number of the step among those of its key, counted from 1.
        number: Option<u32>,
        /// Its outcome.
        outcome: StepOutcome,
        /// Set if it has no side effects.
        is_lookup: bool,
        /// Set if it has a compensation.
        is_compensable: bool,
    },
    /// Set an entry of the session's data.
    Set {
        /// Key of the entry.
        key: String,
        /// Value of the entry.
        value: Value,
    },
    /// Set the session aside, for its flow does not fit its journal.
    SetAside(Divergence),
    /// Go on with a session that was set aside.
    Unstick,
    /// End the session, after its compensations if it ends without success.
    End(Ending),
    /// End a session whose compensations have run.
    Close,
    /// Complete the session with the data gathered so far (C-08).
    Finish,
}

/// An answer as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Answer {
    /// Value of the answer.
    pub value: Value,
    /// Client's time of the answer.
    pub timestamp: Option<Timestamp>,
    /// Client's metadata.
    pub metadata: Map<String, Value>,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, ..Self::default() }
    }
}

/// Bounds on the size of a session. The defaults are safe on an open network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most questions, including those answered by parameters.
    pub prompts: u32,
    /// Most answers to one question.
    pub attempts: u32,
    /// Most events.
    pub events: usize,
    /// Most bytes of events.
    pub bytes: usize,
    /// Retention of the tombstone of an ended session.
    pub retention: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            prompts: 100,
            attempts: 10,
            events: 10_000,
            bytes: 16 * 1024 * 1024,
            retention: Duration::from_secs(5 * 60),
        }
    }
}

/// Reason a command causes no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The state does not allow it. Read the state first.
    #[error("a session in state {from} cannot change to {to}")]
    Transition {
        /// Current state.
        from: State,
        /// State the command would have led to.
        to: State,
    },
    /// The session was cancelled before. Start another.
    #[error("the session was cancelled")]
    AlreadyCancelled,
    /// The session has expired. Start another.
    #[error("the session has expired")]
    Expired(Limit),
    /// The session keeps too much already for another signal. Try again when its flow has taken some.
    #[error("the session cannot keep any more signals; try again later")]
    TooManySignals,
    /// The link was used before.
    #[error("the link was used before")]
    LinkUsed,
    /// The link was revoked.
    #[error("the link was revoked")]
    LinkRevoked,
}

impl Session {
    /// Returns the event that a command causes, without applying it.
    ///
    /// An invalid answer causes its rejection. A question or an answer that exceeds a bound causes
    /// the end of the session.
    pub fn decide(
        &self,
        command: Command,
        at: Timestamp,
        bounds: &Bounds,
    ) -> Result<JournalEvent, CommandError> {
        let at = not_before(at, self);
        self.permits_command(&command)?;
        let event = match command {
            Command::Begin => JournalEvent::Began { at },
            Command::Ask { key, prompt, progress, link } => {
                self.ask(QuestionAsked { key, prompt, progress, link, violation: None, at }, bounds)
            }
            Command::Answer(answer) => self.answer(None, answer, at, bounds),
            Command::AnswerAhead { question, answer } => {
                self.answer(self.unanswered(question), answer, at, bounds)
            }
            Command::Withdraw { question, skipped } => {
                JournalEvent::Withdrawn { question, skipped, at }
            }
            Command::SetTimer { key, until } => self.set(key, until, at, bounds),
            Command::FireTimer { timer } => JournalEvent::TimerFired { timer, at },
            Command::DropTimer { timer } => JournalEvent::TimerDropped { timer, at },
            Command::AwaitSignal { key } => self.decide_wait(key, at, bounds),
            Command::Signal { key, value, link } => {
                link.map_or(Ok(()), |link| self.check_link(link))?;
                let signalled = JournalEvent::Signalled { key, value, link, at };
                return self.decide_signal(signalled, bounds);
            }
            Command::MakeLink { key, base, token, is_question, needs_login } => {
                JournalEvent::LinkMade { key, base, token, is_question, needs_login, at }
            }
            Command::RevokeLink { link } => return Ok(JournalEvent::LinkRevoked { link, at }),
            Command::TakeSignal { wait, signal } => JournalEvent::SignalTaken { wait, signal, at },
            Command::DropSignalWait { wait } => JournalEvent::SignalWaitDropped { wait, at },
            Command::BeginStep { key, number, epoch } => {
                JournalEvent::StepBegun { key, number, epoch, at }
            }
            Command::RecordFailure { key, number, attempt, failure } => {
                JournalEvent::StepFailed { key, number, attempt, failure, at }
            }
            Command::Record { key, number, outcome, is_lookup, is_compensable } => {
                JournalEvent::StepDone { key, number, outcome, is_lookup, is_compensable, at }
            }
            Command::Set { key, value } => JournalEvent::DataSet { key, value, at },
            Command::Label { key, value } => JournalEvent::Labelled { key, value, at },
            Command::SetAside(divergence) => return Ok(JournalEvent::Stuck { divergence, at }),
            Command::Unstick => return Ok(JournalEvent::Unstuck { at }),
            Command::End(ending) => self.end(ending, at, bounds),
            Command::Close => {
                let ending = self.closing.clone().unwrap_or(Ending::Cancelled { reason: None });
                JournalEvent::Ended(self.ended_by(ending, at, bounds))
            }
            Command::Finish => {
                let data = Value::Object(self.data.clone());
                let ending = Ending::Completed { success: true, data, summary: None };
                let ended = self.ended_by(ending, at, bounds);
                JournalEvent::Ended(SessionEnded { finished_early: true, ..ended })
            }
        };
        // Questions and answers have their own bounds; steps and data are bounded here.
        let added = match &event {
            JournalEvent::Ended(_) | JournalEvent::EndBegun { .. } => return Ok(event),
            // Recorded in any case, so that it is compensated.
            JournalEvent::StepDone { is_compensable: true, .. } => return Ok(event),
            JournalEvent::StepFailed { .. }
            | JournalEvent::StepDone { .. }
            | JournalEvent::DataSet { .. }
            | JournalEvent::Labelled { .. }
            | JournalEvent::TimerSet { .. }
            | JournalEvent::LinkMade { .. }
            | JournalEvent::SignalAwaited { .. } => size::of(&event),
            _ => 0,
        };
        Ok(self.overflow(added, at, bounds).unwrap_or(event))
    }

    fn ask(&self, asked: QuestionAsked, bounds: &Bounds) -> JournalEvent {
        let QuestionAsked { key, prompt, at, .. } = &asked;
        let at = *at;
        if self.prompts >= bounds.prompts {
            let message = format!("the flow asked more than {} questions", bounds.prompts);
            let fault = FlowFault::new(FaultName::TooManyPrompts, message).at(key);
            return self.end(Ending::Failed(fault), at, bounds);
        }
        if let Err(bad) = prompt.validate() {
            let message = format!("question `{key}` cannot be asked: {bad}");
            let fault = FlowFault::new(FaultName::BadPrompt, message).at(key);
            return self.end(Ending::Failed(fault), at, bounds);
        }
        // Approvals are given by a person, whatever the key and the parameters are.
        let given = self.started.params.get(key).filter(|_| !prompt.is_approval());
        let given = given.filter(|value| !value.is_null() && !self.reopened.contains(key));
        // A parameter answers once: a flow that asks again wants another answer.
        let is_fresh = |_: &&Value| {
            !self.given.contains(key) && !self.history.iter().any(|turn| turn.asked.key == *key)
        };
        let violation = match given.filter(is_fresh).map(|value| prompt.check(value)) {
            Some(Ok(value)) => return JournalEvent::Given { key: asked.key, value, at },
            Some(Err(violation)) => Some(violation),
            None => None,
        };
        let asked = QuestionAsked { violation, ..asked };
        if self.open.is_some() { JournalEvent::Queued(asked) } else { JournalEvent::Asked(asked) }
    }

    fn set(&self, key: String, until: Timestamp, at: Timestamp, bounds: &Bounds) -> JournalEvent {
        if self.timers.len() >= MAX_TIMERS {
            let message = format!("more than {MAX_TIMERS} timers wait at once");
            let fault = FlowFault::new(FaultName::TooMuchData, message).at(key);
            return self.end(Ending::Failed(fault), at, bounds);
        }
        JournalEvent::TimerSet { key, until, at }
    }

    /// Decides on an answer to a queued question, or else to the open one.
    fn answer(
        &self,
        queued: Option<&QueuedQuestion>,
        answer: Answer,
        at: Timestamp,
        bounds: &Bounds,
    ) -> JournalEvent {
        let Answer { value, timestamp, metadata } = answer;
        let asked = queued.map(|queued| &queued.asked).or(self.open.as_ref());
        let attempts = queued.map_or_else(|| self.attempts(), QueuedQuestion::attempts);
        let question = queued.map(|queued| queued.number);
        let checked = match asked {
            Some(asked) => asked.prompt.check(&value),
            None => Err(InvalidAnswer::new("no question is open")),
        };
        match checked {
            Ok(value) => {
                let answered = QuestionAnswered { value, timestamp, metadata, at };
                match question {
                    Some(question) => JournalEvent::AnsweredAhead { question, answered },
                    None => JournalEvent::Answered(answered),
                }
            }
            Err(violation) if attempts.saturating_add(1) < bounds.attempts => {
                JournalEvent::Rejected { question, violation, answer: None, at }
            }
            Err(violation) => {
                let message =
                    format!("{} wrong answers are too many: {violation}", bounds.attempts);
                let mut fault = FlowFault::new(FaultName::TooManyAttempts, message);
                fault.operation = asked.map(|asked| asked.key.clone());
                self.end(Ending::Failed(fault), at, bounds)
            }
        }
    }

    fn permits_command(&self, command: &Command) -> Result<(), CommandError> {
        let from = self.state;
        let running = matches!(from, State::Active | State::Processing);
        let (permitted, to) = match command {
            _ if self.closing.is_some() => (self.permits_closing_command(command), from),
            Command::Begin => (from == State::Idle, State::Active),
            Command::Ask { .. } => {
                let queues = from == State::WaitingUser && self.can_ask();
                (running || queues, State::WaitingUser)
            }
            Command::Answer(_) => (from == State::WaitingUser, State::Processing),
            Command::AnswerAhead { question, .. } => {
                (self.unanswered(*question).is_some(), State::Processing)
            }
            Command::Withdraw { question, .. } => (self.can_withdraw(*question), State::Processing),
            Command::BeginStep { .. }
            | Command::RecordFailure { .. }
            | Command::Record { .. }
            | Command::Set { .. }
            | Command::Label { .. }
            | Command::SetTimer { .. }
            | Command::DropTimer { .. }
            | Command::MakeLink { .. }
            | Command::AwaitSignal { .. } => {
                (running || from == State::WaitingUser, State::Processing)
            }
            Command::FireTimer { timer } => (self.has_timer(*timer), State::Processing),
            Command::DropSignalWait { wait } => {
                let is_running = running || from == State::WaitingUser;
                (is_running && *wait < self.signal_waits_made, State::Processing)
            }
            Command::Signal { .. } => (!from.is_final(), State::Processing),
            Command::RevokeLink { link } => {
                (!from.is_final() && self.link(*link).is_some(), State::Processing)
            }
            Command::TakeSignal { wait, signal } => {
                (self.can_take(*wait, *signal), State::Processing)
            }
            Command::SetAside(divergence) => {
                (!from.is_final() && self.stuck.as_ref() != Some(divergence), from)
            }
            Command::Unstick => (self.stuck.is_some(), from),
            Command::Close => (false, from),
            Command::Finish => (running || from == State::WaitingUser, State::Completed),
            Command::End(ending) => {
                let completes = matches!(ending, Ending::Completed { .. });
                (if completes { running } else { !from.is_final() }, ending.state())
            }
        };
        match (permitted, self.ending().or(self.closing.as_ref())) {
            (true, _) => Ok(()),
            (false, Some(Ending::Cancelled { .. })) => Err(CommandError::AlreadyCancelled),
            (false, Some(Ending::Expired(limit))) => Err(CommandError::Expired(*limit)),
            (false, _) => Err(CommandError::Transition { from, to }),
        }
    }
}
