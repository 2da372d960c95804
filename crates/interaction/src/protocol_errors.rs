//! Protocol errors about sessions (C-01, INT-079 to INT-086).

use std::time::Duration;

use mcp_flow_engine::{EngineError, SessionStatus, View};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::{OVERLOADED, RATE_LIMITED, RpcErrorKind, SHUTTING_DOWN};
use mcp_flow_session::event::{Ending, FaultName, FlowFault, Limit, SessionEnded};
use mcp_flow_session::session::RewindError;
use mcp_flow_session::{State, StoreError};

/// There is no such session, or it belongs to another owner.
pub const SESSION_NOT_FOUND: RpcErrorKind = fault("SESSION_NOT_FOUND", 1, "Session not found");
/// The session has expired.
pub const SESSION_EXPIRED: RpcErrorKind = fault("SESSION_EXPIRED", 2, "Session expired");
/// The state of the session does not allow the request.
pub const INVALID_STATE_TRANSITION: RpcErrorKind =
    fault("INVALID_STATE_TRANSITION", 3, "Invalid state transition");
/// Input is invalid, and there is no question to ask again.
pub const VALIDATION_FAILED: RpcErrorKind = fault("VALIDATION_FAILED", 4, "Validation failed");
/// An operation of the flow timed out.
pub const TIMEOUT: RpcErrorKind = fault("TIMEOUT", 5, "Operation timed out");
/// The session was cancelled before.
pub const ALREADY_CANCELLED: RpcErrorKind =
    fault("ALREADY_CANCELLED", 6, "Session already cancelled");
/// Interaction is disabled, or the tool is no flow.
pub const NOT_INTERACTIVE: RpcErrorKind = fault("NOT_INTERACTIVE", 7, "Not interactive");
/// The code of the flow does not fit the journal of the session, which is set aside.
pub const FLOW_CHANGED: RpcErrorKind = fault("FLOW_CHANGED", 8, "Session is stuck");

const fn fault(name: &'static str, number: i32, message: &'static str) -> RpcErrorKind {
    RpcErrorKind {
        domain: "interaction",
        name,
        code: -32000 - number,
        stateless_code: -31000 - number,
        message,
    }
}

/// Creates an error about a session, with its id in message and data.
pub(crate) fn session_error(fault: RpcErrorKind, session: &str) -> RpcError {
    // Truncated, since an id is never that long.
    let session = mcp_flow_proto::text::prefix(session, NAME_LIMIT);
    if session.is_empty() {
        return RpcError::new(fault).with("sessionId", session);
    }
    RpcError::new(fault).message(format!("{}: {session}", fault.message)).with("sessionId", session)
}

/// Converts an error of the engine about a session.
pub fn engine_error(session: &str, error: &EngineError) -> RpcError {
    match error {
        EngineError::NotFound => session_error(SESSION_NOT_FOUND, session),
        EngineError::Expired(limit) => {
            session_error(SESSION_EXPIRED, session).with("limit", limit_name(*limit))
        }
        EngineError::Transition { from, to } => {
            let error = transition(session, *from, *to);
            // A waiting session rejects only answers to another question.
            match (from, to) {
                (State::WaitingUser, State::Processing) => error.with("reason", "turn").details(
                    "This does not answer the open question, or was sent before that was asked. Get \
                     the state, and name the question by response.turnId.",
                ),
                _ => error,
            }
        }
        EngineError::AlreadyCancelled => session_error(ALREADY_CANCELLED, session),
        EngineError::Stuck(divergence) => {
            let error = session_error(FLOW_CHANGED, session);
            crate::wire::divergence(divergence)
                .into_iter()
                .fold(error, |error, (name, value)| error.with(&name, value))
                .details(
                    "The flow has changed since. Nothing is lost: the session goes on when code that \
                     fits runs, or can be cancelled.",
                )
        }
        EngineError::UnknownFlow(name) => session_error(NOT_INTERACTIVE, session)
            .with("reason", "tool")
            .with("toolName", name.as_str())
            .details(format!(
                "No running server has the flow `{name}`; answer when one that has it is running."
            )),
        EngineError::InvalidParams { key, violation } => invalid(key, violation),
        EngineError::BadToken(_) => session_error(SESSION_NOT_FOUND, session),
        EngineError::NotRewound(refused) => {
            let error = session_error(VALIDATION_FAILED, session).details(refused.to_string());
            match refused {
                RewindError::Effect(step) => {
                    error.with("reason", "effect").with("step", step.as_str())
                }
                _ => error.with("reason", "unanswered"),
            }
        }
        EngineError::BadHistory(bad) => session_error(VALIDATION_FAILED, session)
            .with("position", bad.position)
            .details(bad.to_string()),
        EngineError::SessionExists(id) => session_error(VALIDATION_FAILED, &id.to_string())
            .with("reason", "exists")
            .details(error.to_string()),
        EngineError::Outdated => outdated_token(session, State::Processing),
        // Only client-held sessions: the client still has the token of before.
        EngineError::Timeout { operation } => session_error(TIMEOUT, session)
            .with("operation", operation.as_str())
            .with("sessionState", State::WaitingUser.name())
            .details(format!("`{operation}` took too long. The same request may be sent again.")),
        EngineError::TimedOut(fault) => timed_out(session, fault),
        other => general_error(other),
    }
}

/// Converts an error of the engine at a start.
pub(crate) fn not_started(flow: &str, error: &EngineError) -> RpcError {
    match error {
        EngineError::Timeout { operation } => RpcError::new(TIMEOUT)
            .with("toolName", flow)
            .with("operation", operation.as_str())
            .with("sessionState", State::Error.name())
            .details(format!("`{operation}` took too long, and no session was begun.")),
        other => engine_error(flow, other),
    }
}

/// The error for a token of an earlier turn.
pub(crate) fn outdated_token(session: &str, to: State) -> RpcError {
    transition(session, State::WaitingUser, to)
        .with("reason", "replayed")
        .details("The session has moved on since this token; use the newest one.")
}

/// Fails for a session that was cancelled or has expired (C-11).
pub(crate) fn check_not_aborted(view: View) -> Result<View, EngineError> {
    match &view.status {
        SessionStatus::Ended(SessionEnded { ending: Ending::Cancelled { .. }, .. }) => {
            Err(EngineError::AlreadyCancelled)
        }
        SessionStatus::Ended(SessionEnded { ending: Ending::Expired(limit), .. }) => {
            Err(EngineError::Expired(*limit))
        }
        _ => Ok(view),
    }
}

/// The error for a request that the state does not allow (INT-068).
pub(crate) fn transition(session: &str, from: State, to: State) -> RpcError {
    session_error(INVALID_STATE_TRANSITION, session)
        .with("state", from.name())
        .with("from", from.name())
        .with("to", to.name())
}

/// The error for an invalid parameter of a start (INT-020).
pub(crate) fn invalid(key: &str, violation: &mcp_flow_session::InvalidAnswer) -> RpcError {
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

/// The error for a session that ended because an operation timed out (INT-083, C-41).
pub(crate) fn timed_out(session: &str, fault: &FlowFault) -> RpcError {
    session_error(TIMEOUT, session)
        .with("operation", fault.operation.as_deref().unwrap_or("flow"))
        .with("sessionState", State::Error.name())
        .details(fault.message.as_str())
}

/// Converts errors that do not depend on the session.
fn general_error(error: &EngineError) -> RpcError {
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
            .details("Too many flows are working. Try again later."),
        EngineError::ShuttingDown => {
            RpcError::new(SHUTTING_DOWN).details("The server is shutting down.")
        }
        EngineError::Store(error) => {
            tracing::error!(%error, source = ?std::error::Error::source(error), "a request about a session failed");
            match error {
                StoreError::Full => RpcError::internal().with("reason", "full").details(
                    "There is no room left to write to. Nothing was lost; try again later.",
                ),
                StoreError::Unavailable(_) => RpcError::new(OVERLOADED)
                    .message("The session store cannot be reached")
                    .with("reason", "store")
                    .retry_after(Duration::from_secs(1))
                    .details("Nothing acknowledged was lost. Try again."),
                StoreError::Newer(_) => RpcError::internal().with("reason", "newer").details(
                    "A newer version of the server has this session. Try again, or update this one.",
                ),
                StoreError::Damaged(_) => RpcError::internal()
                    .with("reason", "damaged")
                    .details("This session can no longer be read. Start another."),
                _ => RpcError::internal(),
            }
        }
        error => {
            tracing::error!(%error, "a request about a session failed");
            RpcError::internal()
        }
    }
}

/// Returns the protocol's name of a fault.
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

const NAME_LIMIT: usize = 200;
