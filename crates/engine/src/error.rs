//! Errors of the engine.

use std::time::Duration;

use mcp_flow_session::event::{FlowFault, Limit};
use mcp_flow_session::session::{CommandError, RewindError, State};
use mcp_flow_session::{Divergence, InvalidAnswer, SessionId, StoreError};

use crate::view::QuestionId;

/// Reason the engine rejected a request. Nothing has changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no such session, or it belongs to another owner (C-53).
    #[error("session not found")]
    NotFound,
    /// The session has expired (C-41). Start another.
    #[error("the session has expired")]
    Expired(Limit),
    /// The session is in a state that does not allow this (INT-068).
    #[error("a session in state {from} cannot change to {to}")]
    Transition {
        /// Current state.
        from: State,
        /// State the request would have led to.
        to: State,
    },
    /// The session was cancelled before (INT-054).
    #[error("the session was cancelled")]
    AlreadyCancelled,
    /// The question is not open, or not at this attempt: it was answered, dropped by the flow, or
    /// never asked. The answer can be ignored; the status has the questions that are open.
    #[error("question {0} is not open")]
    QuestionClosed(QuestionId),
    /// The flow asks for something else than the journal of the session has: its code has changed.
    /// The session is set aside, and goes on when code that fits runs; or cancel it.
    #[error("the session is stuck: {0}")]
    Stuck(Box<Divergence>),
    /// The signal has a bad name, or its value is not of the type that the flow waits for.
    #[error("signal `{name}`: {reason}")]
    BadSignal {
        /// Name of the signal.
        name: String,
        /// Violation by it.
        reason: String,
    },
    /// The session keeps as many signals as it can. Wait until its flow takes some.
    #[error("the session cannot keep any more signals; try again later")]
    TooManySignals,
    /// The link was used before, or its question was answered otherwise.
    #[error("the link was used before")]
    LinkUsed,
    /// The link was revoked.
    #[error("the link was revoked")]
    LinkRevoked,
    /// The question of the link is not open. Try again later.
    #[error("the question of the link is not open")]
    LinkNotAsked,
    /// There is no flow of this name.
    #[error("there is no flow `{0}`")]
    UnknownFlow(String),
    /// The flow cannot be started with these parameters (INT-020).
    #[error("parameter `{key}`: {violation}")]
    InvalidParams {
        /// Name of the parameter; empty for the parameters as a whole.
        key: String,
        /// Violation by its value.
        violation: InvalidAnswer,
    },
    /// A part of the request is too large.
    #[error("{what} may have at most {most} bytes")]
    TooLarge {
        /// Part of the request.
        what: &'static str,
        /// Most bytes of it.
        most: usize,
    },
    /// The owner has too many live sessions. End one, or wait (INT-108).
    #[error("there may be at most {most} live sessions")]
    TooManySessions {
        /// Most live sessions.
        most: usize,
    },
    /// Too many requests to this session. Wait (INT-107).
    #[error("too many requests; try again in {} ms", retry_after.as_millis())]
    RateLimited {
        /// Time to wait.
        retry_after: Duration,
    },
    /// All slots are in use. Try again later.
    #[error("too many flows are working; try again later")]
    Busy,
    /// The token is not one of this server (INT-132).
    #[error(transparent)]
    BadToken(#[from] crate::BadToken),
    /// The token belongs to an earlier turn (INT-133). Use the one of the last reply.
    #[error("a later token of this session was issued; use that one")]
    Outdated,
    /// The flow did not reach its next question in time (C-41). Send the same request again.
    #[error("`{operation}` took too long")]
    Timeout {
        /// Step in progress, or `flow`.
        operation: String,
    },
    /// The session ended because an operation timed out (C-41). Start another.
    #[error("the session has ended: {0}")]
    TimedOut(FlowFault),
    /// A history cannot be imported.
    #[error(transparent)]
    BadHistory(#[from] crate::BadHistory),
    /// There is a session of the id of a history.
    #[error("there is a session {0} already; import it with a new id")]
    SessionExists(SessionId),
    /// The session cannot be rewound.
    #[error(transparent)]
    NotRewound(#[from] RewindError),
    /// The flow does not allow early completion (C-08).
    #[error("this flow cannot be finished early")]
    NotEarly,
    /// The engine is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The store failed. What was not acknowledged may be lost.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CommandError> for EngineError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Transition { from, to } => Self::Transition { from, to },
            CommandError::AlreadyCancelled => Self::AlreadyCancelled,
            CommandError::Expired(limit) => Self::Expired(limit),
            CommandError::TooManySignals => Self::TooManySignals,
            CommandError::LinkUsed => Self::LinkUsed,
            CommandError::LinkRevoked => Self::LinkRevoked,
            // Future variants are refusals by the session's state, too.
            _ => Self::Transition { from: State::Error, to: State::Error },
        }
    }
}
