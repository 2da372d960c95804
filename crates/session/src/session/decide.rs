//! Commands to a session: what each causes, or why it cannot be.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::apply::not_before;
use super::{Session, State, size};
use crate::event::{Answered, Asked, Ended, Ending, Event, Fault, FaultName, Limit, Outcome};
use crate::prompt::{Progress, Prompt};
use crate::{Timestamp, Violation};

/// What someone wants of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The flow begins to run.
    Begin,
    /// The flow asks.
    Ask {
        /// The key of the question.
        key: String,
        /// The question.
        prompt: Arc<Prompt>,
        /// How far the flow has come.
        progress: Option<Progress>,
    },
    /// The user answers.
    Answer(Answer),
    /// A step of the flow is over.
    Record {
        /// The key of the step.
        key: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// The flow notes something.
    Set {
        /// Under which key.
        key: String,
        /// What.
        value: Value,
    },
    /// It is to end.
    End(Ending),
    /// The user has said enough: what was gathered so far is the result (C-08).
    Finish,
}

/// An answer as it arrives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The answer.
    pub value: Value,
    /// When the client says it was given.
    pub timestamp: Option<Timestamp>,
    /// What the client wants kept with it.
    pub metadata: Map<String, Value>,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, ..Self::default() }
    }
}

/// How much a session may take. The defaults suit a server that is open to strangers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most questions, those answered from the start included.
    pub prompts: u32,
    /// The most answers to one question.
    pub attempts: u32,
    /// The most events.
    pub events: usize,
    /// The most bytes of events.
    pub bytes: usize,
    /// How long the end of a session is remembered.
    pub remembered: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            prompts: 100,
            attempts: 10,
            events: 10_000,
            bytes: 16 * 1024 * 1024,
            remembered: Duration::from_secs(5 * 60),
        }
    }
}

/// Why a command causes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The session stands where this cannot happen. Look at its state first.
    #[error("a session that is {from} cannot become {to}")]
    Transition {
        /// Where it stands.
        from: State,
        /// Where the command would have taken it.
        to: State,
    },
    /// It has been cancelled before. Start another.
    #[error("the session was cancelled")]
    AlreadyCancelled,
    /// It has run out of time. Start another.
    #[error("the session has expired")]
    Expired(Limit),
}

impl Session {
    /// Decides what a command causes, without causing it.
    ///
    /// An answer can cause its rejection, and both an answer and a question can cause the end of
    /// the session where a bound is passed.
    pub fn decide(
        &self,
        command: Command,
        at: Timestamp,
        bounds: &Bounds,
    ) -> Result<Event, Refusal> {
        let at = not_before(at, self);
        self.permits_command(&command)?;
        let event = match command {
            Command::Begin => Event::Began { at },
            Command::Ask { key, prompt, progress } => self.ask(key, prompt, progress, at, bounds),
            Command::Answer(answer) => self.answer(answer, at, bounds),
            Command::Record { key, outcome } => Event::StepDone { key, outcome, at },
            Command::Set { key, value } => Event::DataSet { key, value, at },
            Command::End(ending) => self.end(ending, at, bounds),
            Command::Finish => {
                let data = Value::Object(self.data.clone());
                let ending = Ending::Completed { success: true, data, summary: None };
                let ended = self.ended_by(ending, at, bounds);
                Event::Ended(Ended { finished_early: true, ..ended })
            }
        };
        // Questions and answers have bounds of their own; what a flow does of itself has none.
        let added = match &event {
            Event::Ended(_) => return Ok(event),
            Event::StepDone { .. } | Event::DataSet { .. } => size::of(&event),
            _ => 0,
        };
        if self.length >= bounds.events || self.size.saturating_add(added) > bounds.bytes {
            let fault = Fault::new(FaultName::TooMuchData, "the session holds too much");
            return Ok(self.end(Ending::Failed(fault), at, bounds));
        }
        Ok(event)
    }

    /// The end of this session, with all that is to be remembered of it.
    pub fn end(&self, ending: Ending, at: Timestamp, bounds: &Bounds) -> Event {
        Event::Ended(self.ended_by(ending, at, bounds))
    }

    fn ended_by(&self, ending: Ending, at: Timestamp, bounds: &Bounds) -> Ended {
        let at = not_before(at, self);
        Ended {
            flow: self.started.flow.clone(),
            owner: self.started.owner.clone(),
            created: self.started.at,
            turns: u32::try_from(self.history.len()).unwrap_or(u32::MAX),
            last_answer: None,
            last_by_default: false,
            finished_early: false,
            // To run out of time is no activity.
            last_activity: matches!(ending, Ending::Expired(_)).then_some(self.touched),
            ending,
            kept: Map::new(),
            at,
            until: at.after(bounds.remembered),
        }
    }

    fn ask(
        &self,
        key: String,
        prompt: Arc<Prompt>,
        progress: Option<Progress>,
        at: Timestamp,
        bounds: &Bounds,
    ) -> Event {
        if self.prompts >= bounds.prompts {
            let message = format!("the flow asked more than {} questions", bounds.prompts);
            let fault = Fault::new(FaultName::TooManyPrompts, message).at(key);
            return self.end(Ending::Failed(fault), at, bounds);
        }
        if let Err(bad) = prompt.sound() {
            let message = format!("question `{key}` cannot be asked: {bad}");
            let fault = Fault::new(FaultName::BadPrompt, message).at(key);
            return self.end(Ending::Failed(fault), at, bounds);
        }
        let given = self.started.params.get(&key).filter(|value| !value.is_null());
        // A value counts once: a flow that asks again wants another answer.
        let is_fresh = |_: &&Value| {
            !self.given.contains(&key) && !self.history.iter().any(|turn| turn.asked.key == key)
        };
        let violation = match given.filter(is_fresh).map(|value| prompt.check(value)) {
            Some(Ok(value)) => return Event::Given { key, value, at },
            Some(Err(violation)) => Some(violation),
            None => None,
        };
        Event::Asked(Asked { key, prompt, progress, violation, at })
    }

    fn answer(&self, answer: Answer, at: Timestamp, bounds: &Bounds) -> Event {
        let Answer { value, timestamp, metadata } = answer;
        let checked = match &self.open {
            Some(open) => open.prompt.check(&value),
            None => Err(Violation::new("no question is open")),
        };
        match checked {
            Ok(value) => Event::Answered(Answered { value, timestamp, metadata, at }),
            Err(violation) if self.attempts().saturating_add(1) < bounds.attempts => {
                Event::Rejected { violation, answer: None, at }
            }
            Err(violation) => {
                let message =
                    format!("{} wrong answers are too many: {violation}", bounds.attempts);
                let mut fault = Fault::new(FaultName::TooManyAttempts, message);
                fault.operation = self.open.as_ref().map(|open| open.key.clone());
                self.end(Ending::Failed(fault), at, bounds)
            }
        }
    }

    fn permits_command(&self, command: &Command) -> Result<(), Refusal> {
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
            (false, Some(Ending::Cancelled { .. })) => Err(Refusal::AlreadyCancelled),
            (false, Some(Ending::Expired(limit))) => Err(Refusal::Expired(*limit)),
            (false, _) => Err(Refusal::Transition { from, to }),
        }
    }
}
