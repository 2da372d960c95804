//! Why the engine did not do what was asked.

use std::time::Duration;

use mcp_flow_session::event::{Fault, Limit};
use mcp_flow_session::session::{Refusal, State};
use mcp_flow_session::{StoreError, Violation};

/// Why the engine did not do what was asked. Nothing has changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no such session, or none of this owner; which of the two is nobody's business
    /// (C-53).
    #[error("session not found")]
    NotFound,
    /// It ran out of time (C-41). Start another.
    #[error("the session has expired")]
    Expired(Limit),
    /// The session stands where this cannot happen (INT-068).
    #[error("a session that is {from} cannot become {to}")]
    Transition {
        /// Where it stands.
        from: State,
        /// Where this would have taken it.
        to: State,
    },
    /// It has been cancelled before (INT-054).
    #[error("the session was cancelled")]
    AlreadyCancelled,
    /// There is no flow of this name.
    #[error("there is no flow `{0}`")]
    UnknownFlow(String),
    /// The flow cannot be started with these parameters (INT-020).
    #[error("parameter `{key}`: {violation}")]
    InvalidParams {
        /// Which parameter; empty if all of them together.
        key: String,
        /// What is wrong with it.
        violation: Violation,
    },
    /// What was sent is too large.
    #[error("{what} may have at most {most} bytes")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How many bytes it may have.
        most: usize,
    },
    /// This owner has too many live sessions. End one, or wait (INT-108).
    #[error("there may be at most {most} live sessions")]
    TooManySessions {
        /// How many there may be.
        most: usize,
    },
    /// Too much was asked of this session. Wait (INT-107).
    #[error("too many requests; try again in {} ms", retry_after.as_millis())]
    RateLimited {
        /// How long to wait.
        retry_after: Duration,
    },
    /// As many flows are at work as may be. Try again later.
    #[error("too many flows are at work; try again later")]
    Busy,
    /// What should be a token is none of ours (INT-132).
    #[error(transparent)]
    BadToken(#[from] crate::BadToken),
    /// The token is of an earlier turn (INT-133). Use the one that came with the last reply.
    #[error("the session has moved on since this token")]
    Outdated,
    /// The flow did not come to its next question in time (C-41). Nothing has changed, so the same
    /// request may be sent again.
    #[error("`{operation}` took too long")]
    Timeout {
        /// The step the flow was at, or `flow`.
        operation: String,
    },
    /// The session ended because something in it took too long (C-41). Start another.
    #[error("the session has ended: {0}")]
    TimedOut(Fault),
    /// The flow does not allow to be finished early (C-08).
    #[error("this flow cannot be finished early")]
    NotEarly,
    /// The engine is being shut down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The journal cannot be used. What was not acknowledged may be lost.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Transition { from, to } => Self::Transition { from, to },
            Refusal::AlreadyCancelled => Self::AlreadyCancelled,
            Refusal::Expired(limit) => Self::Expired(limit),
            // A refusal to come is still one: the session stands where this cannot happen.
            _ => Self::Transition { from: State::Error, to: State::Error },
        }
    }
}
