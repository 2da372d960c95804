//! Status of a session as callers see it.

use std::sync::Arc;

use mcp_flow_session::event::SessionEnded;
use mcp_flow_session::prompt::{FlowProgress, Prompt};
use mcp_flow_session::{InvalidAnswer, Session, SessionId, State, Timestamp};

/// Status of a session, with its deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Id of the session.
    pub id: SessionId,
    /// State in the protocol's terms.
    pub state: State,
    /// Status, with the open question or the ending.
    pub status: SessionStatus,
    /// Time at which it expires, or its tombstone is erased.
    pub deadline: Option<Timestamp>,
    /// Inactivity timeout in milliseconds (INT-023).
    pub inactivity: Option<u64>,
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
    /// Number of the turn, counted from 0. Sent back with the answer, it makes a retry safe.
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

impl View {
    pub(crate) fn of(id: SessionId, session: &Session, progress: Option<&FlowProgress>) -> Self {
        let status = match (&session.ended, open_question(session)) {
            (Some(ended), _) => SessionStatus::Ended(ended.clone()),
            (None, Some(open)) => SessionStatus::Waiting(open),
            (None, None) => SessionStatus::Working(progress.cloned()),
        };
        Self {
            id,
            state: session.state,
            status,
            deadline: session.deadline(),
            inactivity: session.started.inactivity,
        }
    }
}

pub(crate) fn open_question(session: &Session) -> Option<OpenQuestion> {
    let open = session.open.as_ref()?;
    Some(OpenQuestion {
        turn: u32::try_from(session.history.len()).unwrap_or(u32::MAX),
        attempt: session.attempts(),
        key: open.key.clone(),
        prompt: open.prompt.clone(),
        progress: open.progress.clone(),
        violation: session.violation.clone(),
    })
}
