//! Commands to a session, and the events they cause.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::apply::not_before;
use super::{Session, State, size};
use crate::event::{
    Ending, FaultName, FlowFault, JournalEvent, Limit, QuestionAnswered, QuestionAsked,
    SessionEnded, StepOutcome,
};
use crate::prompt::{FlowProgress, Prompt};
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
    },
    /// Answer the open question.
    Answer(Answer),
    /// Record a finished step of the flow.
    Record {
        /// Key of the step.
        key: String,
        /// Its outcome.
        outcome: StepOutcome,
    },
    /// Set an entry of the session's data.
    Set {
        /// Key of the entry.
        key: String,
        /// Value of the entry.
        value: Value,
    },
    /// End the session.
    End(Ending),
    /// Complete the session with the data gathered so far (C-08).
    Finish,
}

/// An answer as it arrives.
#[derive(Clone, Debug, Default, PartialEq)]
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
            Command::Ask { key, prompt, progress } => self.ask(key, prompt, progress, at, bounds),
            Command::Answer(answer) => self.answer(answer, at, bounds),
            Command::Record { key, outcome } => JournalEvent::StepDone { key, outcome, at },
            Command::Set { key, value } => JournalEvent::DataSet { key, value, at },
            Command::End(ending) => self.end(ending, at, bounds),
            Command::Finish => {
                let data = Value::Object(self.data.clone());
                let ending = Ending::Completed { success: true, data, summary: None };
                let ended = self.ended_by(ending, at, bounds);
                JournalEvent::Ended(SessionEnded { finished_early: true, ..ended })
            }
        };
        // Questions and answers have their own bounds; steps and data are bounded here.
        let added = match &event {
            JournalEvent::Ended(_) => return Ok(event),
            JournalEvent::StepDone { .. } | JournalEvent::DataSet { .. } => size::of(&event),
            _ => 0,
        };
        if self.length >= bounds.events || self.size.saturating_add(added) > bounds.bytes {
            let fault = FlowFault::new(FaultName::TooMuchData, "the session holds too much");
            return Ok(self.end(Ending::Failed(fault), at, bounds));
        }
        Ok(event)
    }

    /// Returns the event that ends this session, with its tombstone.
    pub fn end(&self, ending: Ending, at: Timestamp, bounds: &Bounds) -> JournalEvent {
        JournalEvent::Ended(self.ended_by(ending, at, bounds))
    }

    fn ended_by(&self, ending: Ending, at: Timestamp, bounds: &Bounds) -> SessionEnded {
        let at = not_before(at, self);
        SessionEnded {
            flow: self.started.flow.clone(),
            owner: self.started.owner.clone(),
            created: self.started.at,
            turns: u32::try_from(self.history.len()).unwrap_or(u32::MAX),
            last_answer: None,
            last_by_default: false,
            finished_early: false,
            // Expiry is no activity.
            last_activity: matches!(ending, Ending::Expired(_)).then_some(self.touched),
            ending,
            kept: Map::new(),
            at,
            until: at.after(bounds.retention),
        }
    }

    fn ask(
        &self,
        key: String,
        prompt: Arc<Prompt>,
        progress: Option<FlowProgress>,
        at: Timestamp,
        bounds: &Bounds,
    ) -> JournalEvent {
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
        let given = self.started.params.get(&key).filter(|value| !value.is_null());
        // A parameter answers once: a flow that asks again wants another answer.
        let is_fresh = |_: &&Value| {
            !self.given.contains(&key) && !self.history.iter().any(|turn| turn.asked.key == key)
        };
        let violation = match given.filter(is_fresh).map(|value| prompt.check(value)) {
            Some(Ok(value)) => return JournalEvent::Given { key, value, at },
            Some(Err(violation)) => Some(violation),
            None => None,
        };
        JournalEvent::Asked(QuestionAsked { key, prompt, progress, violation, at })
    }

    fn answer(&self, answer: Answer, at: Timestamp, bounds: &Bounds) -> JournalEvent {
        let Answer { value, timestamp, metadata } = answer;
        let checked = match &self.open {
            Some(open) => open.prompt.check(&value),
            None => Err(InvalidAnswer::new("no question is open")),
        };
        match checked {
            Ok(value) => {
                JournalEvent::Answered(QuestionAnswered { value, timestamp, metadata, at })
            }
            Err(violation) if self.attempts().saturating_add(1) < bounds.attempts => {
                JournalEvent::Rejected { violation, answer: None, at }
            }
            Err(violation) => {
                let message =
                    format!("{} wrong answers are too many: {violation}", bounds.attempts);
                let mut fault = FlowFault::new(FaultName::TooManyAttempts, message);
                fault.operation = self.open.as_ref().map(|open| open.key.clone());
                self.end(Ending::Failed(fault), at, bounds)
            }
        }
    }

    fn permits_command(&self, command: &Command) -> Result<(), CommandError> {
        let from = self.state;
        let running = matches!(from, State::Active | State::Processing);
        let (permitted, to) = match command {
            Command::Begin => (from == State::Idle, State::Active),
            Command::Ask { .. } => (running, State::WaitingUser),
            Command::Answer(_) => (from == State::WaitingUser, State::Processing),
            Command::Record { .. } | Command::Set { .. } => {
                (running || from == State::WaitingUser, State::Processing)
            }
            Command::Finish => (running || from == State::WaitingUser, State::Completed),
            Command::End(ending) => {
                let completes = matches!(ending, Ending::Completed { .. });
                (if completes { running } else { !from.is_final() }, ending.state())
            }
        };
        match (permitted, self.ending()) {
            (true, _) => Ok(()),
            (false, Some(Ending::Cancelled { .. })) => Err(CommandError::AlreadyCancelled),
            (false, Some(Ending::Expired(limit))) => Err(CommandError::Expired(*limit)),
            (false, _) => Err(CommandError::Transition { from, to }),
        }
    }
}
