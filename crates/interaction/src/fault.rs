//! What can go wrong with a session, as clients are told (C-01, INT-079 to INT-086).

use std::time::Duration;

use mcp_flow_engine::{EngineError, Standing, View};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::{RATE_LIMITED, RpcErrorKind, SHUTTING_DOWN};
use mcp_flow_session::event::{Ended, Ending, Fault as FlowFault, FaultName, Limit};
use mcp_flow_session::{State, StoreError};

/// No session has this name, as far as the caller may know.
pub const SESSION_NOT_FOUND: RpcErrorKind = fault("SESSION_NOT_FOUND", 1, "Session not found");
/// The session ran out of time.
pub const SESSION_EXPIRED: RpcErrorKind = fault("SESSION_EXPIRED", 2, "Session expired");
/// The session stands where this cannot happen.
pub const INVALID_STATE_TRANSITION: RpcErrorKind =
    fault("INVALID_STATE_TRANSITION", 3, "Invalid state transition");
/// Input breaks its rules, and there is no question to go back to.
pub const VALIDATION_FAILED: RpcErrorKind = fault("VALIDATION_FAILED", 4, "Validation failed");
/// An operation within a session took too long.
pub const TIMEOUT: RpcErrorKind = fault("TIMEOUT", 5, "Operation timed out");
/// The session was cancelled before.
pub const ALREADY_CANCELLED: RpcErrorKind =
    fault("ALREADY_CANCELLED", 6, "Session already cancelled");
/// There are no conversations here, or not with this tool.
pub const NOT_INTERACTIVE: RpcErrorKind = fault("NOT_INTERACTIVE", 7, "Not interactive");

const fn fault(name: &'static str, number: i32, message: &'static str) -> RpcErrorKind {
    RpcErrorKind {
        domain: "interaction",
        name,
        code: -32000 - number,
        stateless_code: -31000 - number,
        message,
    }
}

/// An error about one session, which is named in its message and data.
pub(crate) fn about(fault: RpcErrorKind, session: &str) -> RpcError {
    // A text that long names no session, and need not be sent back in full.
    let session = mcp_flow_proto::text::prefix(session, LONGEST_NAME);
    if session.is_empty() {
        return RpcError::new(fault).with("sessionId", session);
    }
    RpcError::new(fault).message(format!("{}: {session}", fault.message)).with("sessionId", session)
}

/// The error of a request about a session.
pub(crate) fn refused(session: &str, error: &EngineError) -> RpcError {
    match error {
        EngineError::NotFound => about(SESSION_NOT_FOUND, session),
        EngineError::Expired(limit) => {
            about(SESSION_EXPIRED, session).with("limit", limit_name(*limit))
        }
        EngineError::Transition { from, to } => {
            let error = transition(session, *from, *to);
            // Where an answer is waited for, only one to another question is refused.
            match (from, to) {
                (State::WaitingUser, State::Processing) => error.with("reason", "turn").details(
                    "This answers a question that was answered before. Look at the open one, and \
                     name it by response.turnId.",
                ),
                _ => error,
            }
        }
        EngineError::AlreadyCancelled => about(ALREADY_CANCELLED, session),
        EngineError::UnknownFlow(name) => {
            about(NOT_INTERACTIVE, session).with("reason", "tool").with("toolName", name.as_str())
        }
        EngineError::InvalidParams { key, violation } => invalid(key, violation),
        EngineError::BadToken(_) => about(SESSION_NOT_FOUND, session),
        EngineError::Outdated => outdated(session, State::Processing),
        // The client carries the session, and so has it as it was before.
        EngineError::Timeout { operation } => about(TIMEOUT, session)
            .with("operation", operation.as_str())
            .with("sessionState", State::WaitingUser.name())
            .details(format!("`{operation}` took too long. The same request may be sent again.")),
        EngineError::TimedOut(fault) => timed_out(session, fault),
        other => unspecific(other),
    }
}

/// The error of a start that led to no session.
pub(crate) fn not_started(flow: &str, error: &EngineError) -> RpcError {
    match error {
        EngineError::Timeout { operation } => RpcError::new(TIMEOUT)
            .with("toolName", flow)
            .with("operation", operation.as_str())
            .with("sessionState", State::Error.name())
            .details(format!("`{operation}` took too long, and no session was begun.")),
        other => refused(flow, other),
    }
}

/// A token of an earlier turn was used again; what it holds is a session that waits for an answer.
pub(crate) fn outdated(session: &str, to: State) -> RpcError {
    transition(session, State::WaitingUser, to)
        .with("reason", "replayed")
        .details("The session has moved on since this token; use the newest one.")
}

/// A session that goes on or has a result; of another, what became of it (C-11).
pub(crate) fn going_on(view: View) -> Result<View, EngineError> {
    match &view.standing {
        Standing::Ended(Ended { ending: Ending::Cancelled { .. }, .. }) => {
            Err(EngineError::AlreadyCancelled)
        }
        Standing::Ended(Ended { ending: Ending::Expired(limit), .. }) => {
            Err(EngineError::Expired(*limit))
        }
        _ => Ok(view),
    }
}

/// The session stands where this cannot happen (INT-068).
pub(crate) fn transition(session: &str, from: State, to: State) -> RpcError {
    about(INVALID_STATE_TRANSITION, session)
        .with("state", from.name())
        .with("from", from.name())
        .with("to", to.name())
}

/// Something that was given at the start breaks the rules of its question (INT-020).
pub(crate) fn invalid(key: &str, violation: &mcp_flow_session::Violation) -> RpcError {
    let message = match key {
        "" => format!("Validation failed: {}", violation.error),
        key => format!("Validation failed: {key}: {}", violation.error),
    };
    let error = RpcError::new(VALIDATION_FAILED)
        .message(message)
        .with("field", key)
        .with("error", violation.error.as_str());
    match &violation.suggestion {
        Some(suggestion) => error.with("suggestion", suggestion.as_str()),
        None => error,
    }
}

/// An operation ran over, and with it the session (INT-083, C-41).
pub(crate) fn timed_out(session: &str, fault: &FlowFault) -> RpcError {
    about(TIMEOUT, session)
        .with("operation", fault.operation.as_deref().unwrap_or("flow"))
        .with("sessionState", State::Error.name())
        .details(fault.message.as_str())
}

/// Errors that say nothing of one session in particular.
fn unspecific(error: &EngineError) -> RpcError {
    match error {
        EngineError::TooLarge { what, most } => RpcError::too_large(*most)
            .message(format!("Too large: {what} may have at most {most} bytes"))
            .with("what", *what),
        EngineError::TooManySessions { most } => RpcError::new(RATE_LIMITED)
            .message(format!("Too many sessions: there may be {most} at once"))
            .with("reason", "sessions")
            .with("limit", *most)
            .details("End a session, or wait until one expires."),
        EngineError::RateLimited { retry_after } => {
            RpcError::new(RATE_LIMITED).with("reason", "rate").retry_after(*retry_after)
        }
        EngineError::Busy => RpcError::new(RATE_LIMITED)
            .with("reason", "busy")
            .retry_after(Duration::from_secs(1))
            .details("As many conversations are at work as may be at once. Try again later."),
        EngineError::ShuttingDown => {
            RpcError::new(SHUTTING_DOWN).details("The server is shutting down.")
        }
        EngineError::Store(error) => {
            tracing::error!(%error, source = ?std::error::Error::source(error), "a session failed");
            match error {
                StoreError::Full => RpcError::internal().with("reason", "full").details(
                    "There is no room left to write to. Nothing was lost; try again later.",
                ),
                StoreError::Damaged(_) => RpcError::internal()
                    .with("reason", "damaged")
                    .details("This session can no longer be read. Start another."),
                _ => RpcError::internal(),
            }
        }
        error => {
            tracing::error!(%error, "a session failed");
            RpcError::internal()
        }
    }
}

/// The name of what went wrong inside a session.
pub(crate) fn fault_name(fault: &FlowFault) -> &'static str {
    match fault.name {
        FaultName::Timeout => "TIMEOUT",
        FaultName::TooManyAttempts => "VALIDATION_FAILED",
        FaultName::Failed => "FLOW_FAILED",
        FaultName::Panicked => "FLOW_PANICKED",
        FaultName::Diverged => "FLOW_CHANGED",
        FaultName::BadPrompt => "BAD_PROMPT",
        FaultName::TooManyPrompts => "TOO_MANY_PROMPTS",
        FaultName::TooMuchData => "TOO_MUCH_DATA",
    }
}

pub(crate) fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Inactivity => "inactivity",
        Limit::Duration => "duration",
    }
}

const LONGEST_NAME: usize = 200;
