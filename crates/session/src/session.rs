//! What a conversation has become: the fold of its journal.

mod apply;
mod decide;
mod size;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::{Answered, Asked, Ended, Ending, Limit, Started};
use crate::store::Summary;
use crate::{Timestamp, Violation};

pub use apply::Damaged;
pub use decide::{Answer, Bounds, Command, Refusal};

/// What a conversation has become.
///
/// It changes only by [`apply`](Session::apply) of an event, and [`decide`](Session::decide) says
/// which event a command causes, so what is written to the journal is all there is to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// How it came to be; of a session that is over, only what may still be known.
    pub started: Started,
    /// Where it stands.
    pub state: State,
    /// When something last happened.
    pub touched: Timestamp,
    /// What was asked and answered so far.
    pub history: Vec<Turn>,
    /// The open question.
    pub open: Option<Asked>,
    /// What was wrong with the last answer to the open question.
    pub violation: Option<Violation>,
    /// The wrong answers to the open question: what each can be recognised by, where that was noted.
    pub wrong: Vec<Option<String>>,
    /// What was gathered: answers by key, and what the flow noted.
    pub data: Map<String, Value>,
    /// Which questions were answered from the start.
    pub given: Vec<String>,
    /// How many questions were asked or answered from the start.
    pub prompts: u32,
    /// How many events there are.
    pub length: usize,
    /// How many bytes they take, about.
    pub size: usize,
    /// How it ended.
    pub ended: Option<Ended>,
}

impl Session {
    /// When this session is due to be ended or forgotten; never, if None.
    pub fn deadline(&self) -> Option<Timestamp> {
        if let Some(ended) = &self.ended {
            return Some(ended.until);
        }
        let inactive = match self.state {
            // A flow that works is not inactive; how long it may work is the engine's affair.
            State::Active | State::Processing => None,
            _ => self
                .started
                .inactivity
                .map(|millis| self.touched.after(Duration::from_millis(millis))),
        };
        match (inactive, self.started.ends) {
            (Some(inactive), Some(ends)) => Some(inactive.min(ends)),
            (inactive, ends) => inactive.or(ends),
        }
    }

    /// Which limit of time a live session has passed at `now`, if any.
    pub fn overdue(&self, now: Timestamp) -> Option<Limit> {
        if self.ended.is_some() || self.deadline()? > now {
            return None;
        }
        let by_duration = self.started.ends.is_some_and(|ends| ends <= now);
        Some(if by_duration { Limit::Duration } else { Limit::Inactivity })
    }

    /// What stores keep beside the journal, to list sessions without reading it.
    pub fn summary(&self) -> Summary {
        Summary {
            flow: self.started.flow.clone(),
            owner: self.started.owner.clone(),
            state: self.state,
            created: self.started.at,
            touched: self.touched,
            deadline: self.deadline(),
        }
    }

    /// How many answers to the open question were wrong.
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.wrong.len()).unwrap_or(u32::MAX)
    }

    /// How it ended, if it did.
    pub fn ending(&self) -> Option<&Ending> {
        self.ended.as_ref().map(|ended| &ended.ending)
    }
}

/// Where a session stands (INT-012).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Created; the flow has not begun.
    Idle,
    /// The flow runs and has not asked yet.
    Active,
    /// A question is open.
    WaitingUser,
    /// The flow works on an answer.
    Processing,
    /// The flow came to its end.
    Completed,
    /// Someone ended it.
    Cancelled,
    /// It went wrong or ran out of time.
    Error,
}

impl State {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Active,
        Self::WaitingUser,
        Self::Processing,
        Self::Completed,
        Self::Cancelled,
        Self::Error,
    ];

    /// Whether nothing can happen any more (INT-069, C-42).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Error)
    }

    /// Whether the flow has something to do that nobody else will remind it of.
    pub const fn is_working(self) -> bool {
        matches!(self, Self::Idle | Self::Active | Self::Processing)
    }

    /// Its name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::WaitingUser => "waiting_user",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One question and its answer (INT-058).
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What was asked.
    pub asked: Asked,
    /// What was answered.
    pub answered: Answered,
}
