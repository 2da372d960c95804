//! State of a session: the fold of its journal.

mod apply;
mod closing;
mod decide;
mod link;
mod queue;
mod rewind;
mod signal;
mod size;
#[cfg(test)]
mod tests;
mod timer;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::{Ending, Limit, QuestionAnswered, QuestionAsked, SessionEnded, SessionStarted};
use crate::replay::Divergence;
use crate::store::Summary;
use crate::{InvalidAnswer, Timestamp};

pub use apply::Damaged;
pub use closing::{Compensation, compensation_key};
pub use decide::{Answer, Bounds, Command, CommandError};
pub use link::{Link, LinkState, MAX_LINKS};
pub use queue::{MAX_QUEUED, QueuedQuestion};
pub use rewind::{RewindError, effective};
pub use signal::{KeptSignal, MAX_SIGNALS, SignalWait};
pub use timer::{LATEST_TIMER, MAX_TIMERS, PendingTimer};

/// State of a session.
///
/// It changes only by [`apply`](Session::apply) of an event; [`decide`](Session::decide) returns
/// the event that a command causes. The journal therefore contains the whole state.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its creation; without parameters and context once it has ended.
    pub started: SessionStarted,
    /// State in the protocol's terms.
    pub state: State,
    /// Time of the last event.
    pub touched: Timestamp,
    /// Answered questions.
    pub history: Vec<AnsweredTurn>,
    /// The open question.
    pub open: Option<QuestionAsked>,
    /// Number of the open question, counted from 0 among all questions of the session.
    pub number: u32,
    /// Violation by the last answer to the open question.
    pub violation: Option<InvalidAnswer>,
    /// Digests of the invalid answers to the open question, where recorded.
    pub wrong: Vec<Option<String>>,
    /// Questions behind the open one, in the order they were asked.
    pub queued: VecDeque<QueuedQuestion>,
    /// Number of questions that the flow dropped after clients had seen them.
    pub skipped: u32,
    /// Timers that have not fired, in the order they were set.
    pub timers: Vec<PendingTimer>,
    /// Number of timers set so far.
    pub timers_set: u32,
    /// Signals that the flow has not taken, in the order they arrived.
    pub signals: Vec<KeptSignal>,
    /// Number of signals so far.
    pub signals_received: u32,
    /// Links that the flow made, in that order.
    pub links: Vec<Link>,
    /// Waits of the flow for signals, in the order they began.
    pub signal_waits: Vec<SignalWait>,
    /// Number of waits for signals so far.
    pub signal_waits_made: u32,
    /// Milliseconds for which the flow slept with no question open. They do not count towards the
    /// duration of the session.
    pub slept: u64,
    /// Difference between the journal and the flow, if the session was set aside for it. It has no
    /// deadline then: it waits for code that fits, or to be cancelled.
    pub stuck: Option<Divergence>,
    /// Ending of the session, once it is decided: compensations run before it ends.
    pub closing: Option<Ending>,
    /// Compensations that have yet to run, in the order of their steps.
    pub compensations: Vec<Compensation>,
    /// Data gathered: answers by key, and entries set by the flow.
    pub data: Map<String, Value>,
    /// Labels set by the flow, by which the session can be found.
    pub labels: BTreeMap<String, String>,
    /// Keys of the questions that parameters answered.
    pub given: Vec<String>,
    /// Keys of the questions that the session was rewound to. No parameter answers them.
    pub reopened: Vec<String>,
    /// Number of questions asked or answered by parameters.
    pub prompts: u32,
    /// Number of events.
    pub length: usize,
    /// Approximate bytes of the events.
    pub size: usize,
    /// Its end.
    pub ended: Option<SessionEnded>,
}

impl Session {
    /// Returns the time at which this session expires, or its tombstone is erased.
    pub fn deadline(&self) -> Option<Timestamp> {
        if let Some(ended) = &self.ended {
            return Some(ended.until);
        }
        if self.stuck.is_some() || self.closing.is_some() || self.is_asleep() {
            return None;
        }
        let ends = self.started.ends.map(|ends| ends.after(Duration::from_millis(self.slept)));
        let inactive = match self.state {
            // A working flow is not inactive; the engine limits its operations.
            State::Active | State::Processing => None,
            _ => self.inactive(),
        };
        match (inactive, ends) {
            (Some(inactive), Some(ends)) => Some(inactive.min(ends)),
            (inactive, ends) => inactive.or(ends),
        }
    }

    /// Returns the time at which its inactivity timeout is over. One that nobody chose does not end a
    /// session whose flow waits for a timer or a signal beside the question, as a timeout of its own.
    fn inactive(&self) -> Option<Timestamp> {
        let inactivity = Duration::from_millis(self.started.inactivity?);
        if self.started.inactivity_is_default && !self.signal_waits.is_empty() {
            return None;
        }
        let inactive = self.touched.after(inactivity);
        let wakes = self.wakes().filter(|_| self.started.inactivity_is_default);
        Some(wakes.map_or(inactive, |wakes| inactive.max(wakes.after(inactivity))))
    }

    /// Returns the time limit that a live session has exceeded at `now`.
    pub fn overdue(&self, now: Timestamp) -> Option<Limit> {
        if self.ended.is_some() || self.deadline()? > now {
            return None;
        }
        let slept = Duration::from_millis(self.slept);
        let by_duration = self.started.ends.is_some_and(|ends| ends.after(slept) <= now);
        Some(if by_duration { Limit::Duration } else { Limit::Inactivity })
    }

    /// Returns the summary that stores index, to list sessions without reading journals.
    pub fn summary(&self) -> Summary {
        Summary {
            flow: self.started.flow.clone(),
            owner: self.started.owner.clone(),
            state: self.state,
            created: self.started.at,
            touched: self.touched,
            deadline: self.deadline(),
            wakes: self.wakes(),
            is_asleep: self.is_asleep(),
            labels: self.labels.clone(),
            stuck: self.stuck.clone(),
        }
    }

    /// Returns the number of the current turn, counted from 0.
    pub fn turn(&self) -> u32 {
        u32::try_from(self.history.len()).unwrap_or(u32::MAX).saturating_add(self.skipped)
    }

    /// Returns the number of invalid answers to the open question.
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.wrong.len()).unwrap_or(u32::MAX)
    }

    /// Returns the ending, if the session has ended.
    pub fn ending(&self) -> Option<&Ending> {
        self.ended.as_ref().map(|ended| &ended.ending)
    }
}

/// State of a session in the protocol's terms (INT-012).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Created; the flow has not begun.
    Idle,
    /// The flow is running and has not asked yet.
    Active,
    /// A question is open.
    WaitingUser,
    /// The flow is working on an answer.
    Processing,
    /// The flow has completed.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// It failed or expired.
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

    /// Returns whether the session has ended (INT-069, C-42).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Error)
    }

    /// Returns whether the flow has work to do, so that it must be resumed after a crash.
    pub const fn is_working(self) -> bool {
        matches!(self, Self::Idle | Self::Active | Self::Processing)
    }

    /// Returns its name in the protocol.
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

/// A question with its answer (INT-058).
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredTurn {
    /// Number of the turn, counted from 0.
    pub turn: u32,
    /// Number of the question, counted from 0 among all questions of the session.
    pub number: u32,
    /// The question.
    pub asked: QuestionAsked,
    /// The answer.
    pub answered: QuestionAnswered,
}
