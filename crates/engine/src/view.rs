//! Status of a session as callers see it.

use std::fmt;
use std::sync::Arc;

use mcp_flow_session::event::{Ending, SessionEnded};
use mcp_flow_session::prompt::{FlowProgress, Prompt};
use mcp_flow_session::{Divergence, InvalidAnswer, Session, SessionId, State, Timestamp};
use serde::{Deserialize, Serialize};

/// Status of a session, with its deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Id of the session.
    pub id: SessionId,
    /// Name of its flow.
    pub flow: String,
    /// Time of its creation.
    pub created: Timestamp,
    /// Time of the last event.
    pub touched: Timestamp,
    /// State in the protocol's terms.
    pub state: State,
    /// Status, with the open question or the ending.
    pub status: SessionStatus,
    /// Questions behind the open one that wait for an answer, in the order they were asked. A
    /// client that shows them answers each by its [`QuestionId`]; others answer the open one until
    /// there is none.
    pub queued: Vec<OpenQuestion>,
    /// Time at which it expires, or its tombstone is erased.
    pub deadline: Option<Timestamp>,
    /// Time at which the next timer of its flow fires.
    pub wakes: Option<Timestamp>,
    /// Names of the signals that its flow waits for.
    pub awaits: Vec<String>,
    /// Inactivity timeout in milliseconds (INT-023).
    pub inactivity: Option<u64>,
    /// Difference between its journal and its flow, if the session was set aside for it.
    pub stuck: Option<Box<Divergence>>,
    /// Ending of the session, once it is decided: compensations run before it ends.
    pub closing: Option<Box<Ending>>,
    pub(crate) asleep: bool,
}

/// Status of a session, with what is expected next.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionStatus {
    /// A question is open: answer it.
    Waiting(OpenQuestion),
    /// The flow is working: read the status again, or [subscribe](crate::Engine::subscribe).
    Working(Option<FlowProgress>),
    /// The session has ended.
    Ended(SessionEnded),
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// Number of the question, counted from 0 among all questions of the session, including those
    /// that parameters answered. Unlike the turn, it never changes and is never used again.
    pub number: u32,
    /// Number of the turn, counted from 0. Sent back with the answer, it makes a retry safe. Of a
    /// queued question, the turn it will have if the flow drops none before it.
    pub turn: u32,
    /// Number of invalid answers so far. Sent back too, it makes a retry of an invalid answer safe.
    pub attempt: u32,
    /// Key of the question.
    pub key: String,
    /// The question.
    pub prompt: Arc<Prompt>,
    /// Progress of the flow.
    pub progress: Option<FlowProgress>,
    /// Violation by the last answer.
    pub violation: Option<InvalidAnswer>,
}

impl OpenQuestion {
    /// Returns the identity of the question at this attempt.
    pub fn id(&self) -> QuestionId {
        QuestionId { number: self.number, attempt: self.attempt }
    }
}

/// Identity of a question at one attempt: unique in its session and never used again. An invalid
/// answer leads to the next attempt. Displayed as `NUMBER.ATTEMPT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct QuestionId {
    /// Number of the question, from [`OpenQuestion::number`].
    pub number: u32,
    /// Number of invalid answers before, from [`OpenQuestion::attempt`].
    pub attempt: u32,
}

impl fmt::Display for QuestionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.number, self.attempt)
    }
}

impl View {
    /// Returns all questions that wait for an answer: the open one, then those queued behind it.
    pub fn questions(&self) -> impl Iterator<Item = &OpenQuestion> {
        let open = match &self.status {
            SessionStatus::Waiting(open) => Some(open),
            SessionStatus::Working(_) | SessionStatus::Ended(_) => None,
        };
        open.into_iter().chain(&self.queued)
    }

    /// Returns whether its flow sleeps: it waits for nothing but a timer, until [`wakes`](Self::wakes),
    /// or a signal that it [awaits](Self::awaits).
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// Returns whether the flow may go on without an answer to its open question, and withdraw it: it
    /// has a timer, or waits for a signal.
    pub fn may_withdraw(&self) -> bool {
        self.wakes.is_some() || !self.awaits.is_empty()
    }

    pub(crate) fn of(id: SessionId, session: &Session, progress: Option<&FlowProgress>) -> Self {
        let status = match (&session.ended, open_question(session)) {
            (Some(ended), _) => SessionStatus::Ended(ended.clone()),
            (None, Some(open)) => SessionStatus::Waiting(open),
            (None, None) => SessionStatus::Working(progress.cloned()),
        };
        Self {
            id,
            flow: session.started.flow.clone(),
            created: session.started.at,
            touched: session.touched,
            state: session.state,
            status,
            queued: queued_questions(session),
            deadline: session.deadline(),
            wakes: session.wakes(),
            awaits: session.awaits(),
            inactivity: session.started.inactivity,
            stuck: session.stuck.clone().map(Box::new),
            closing: session.closing.clone().map(Box::new),
            asleep: session.is_asleep(),
        }
    }
}

pub(crate) fn open_question(session: &Session) -> Option<OpenQuestion> {
    let open = session.open.as_ref()?;
    Some(OpenQuestion {
        number: session.number,
        turn: session.turn(),
        attempt: session.attempts(),
        key: open.key.clone(),
        prompt: open.prompt.clone(),
        progress: open.progress.clone(),
        violation: session.violation.clone(),
    })
}

fn queued_questions(session: &Session) -> Vec<OpenQuestion> {
    let first = session.turn().saturating_add(1);
    let turns = (first..).zip(&session.queued);
    let unanswered = turns.filter(|(_, queued)| queued.answered.is_none());
    unanswered
        .map(|(turn, queued)| OpenQuestion {
            number: queued.number,
            turn,
            attempt: queued.attempts(),
            key: queued.asked.key.clone(),
            prompt: queued.asked.prompt.clone(),
            progress: queued.asked.progress.clone(),
            violation: queued.violation.clone(),
        })
        .collect()
}
