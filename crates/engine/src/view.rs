//! What is told of a session.

use std::sync::Arc;

use mcp_flow_session::event::Ended;
use mcp_flow_session::prompt::{Progress, Prompt};
use mcp_flow_session::{Session, SessionId, State, Timestamp, Violation};

/// Where a session stands and what comes next.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Which session.
    pub id: SessionId,
    /// Where it stands, in a word.
    pub state: State,
    /// Where it stands.
    pub standing: Standing,
    /// When it will expire, or be forgotten, unless something happens.
    pub deadline: Option<Timestamp>,
    /// How many milliseconds it waits for an answer (INT-023).
    pub inactivity: Option<u64>,
}

/// What comes next in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// A question is open: answer it.
    Waiting(OpenQuestion),
    /// The flow is at work: look again, or [subscribe](crate::Engine::subscribe).
    Working(Option<Progress>),
    /// It is over.
    Ended(Ended),
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// Which turn it is, counted from 0. Sent back with the answer, it makes repeating safe.
    pub turn: u32,
    /// How many answers to it were wrong. Sent back too, it makes repeating a wrong one safe.
    pub attempt: u32,
    /// The key of the question.
    pub key: String,
    /// The question.
    pub prompt: Arc<Prompt>,
    /// How far the flow has come.
    pub progress: Option<Progress>,
    /// What was wrong with the last answer.
    pub violation: Option<Violation>,
}

impl View {
    pub(crate) fn of(id: SessionId, session: &Session, progress: Option<&Progress>) -> Self {
        let standing = match (&session.ended, open_question(session)) {
            (Some(ended), _) => Standing::Ended(ended.clone()),
            (None, Some(open)) => Standing::Waiting(open),
            (None, None) => Standing::Working(progress.cloned()),
        };
        Self {
            id,
            state: session.state,
            standing,
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
