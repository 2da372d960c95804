//! Errors of the client.
//!
//! One type for all operations: [`Error::kind`] groups them, and [`Error::server`] is what the server said.
//! Errors of a transport are sources, not kinds of their own.

use std::fmt;
use std::time::Duration;

use mcp_flow_proto::{DecodeError, Raw, Revision};
use serde_json::{Map, Value};

use crate::calls::tools::ToolOutcome;
use crate::transport::TransportError;

/// Failure of a client operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be reached. Check that it runs, and the address.
    #[error("cannot connect to {target}: {source}")]
    Connect {
        /// Server that was addressed.
        target: String,
        /// Cause.
        #[source]
        source: TransportError,
    },

    /// The connection was lost while the request was pending; the server may have processed it. It
    /// was not retried, because it is not idempotent.
    #[error("the connection was lost during {method}, which may have been processed: {source}")]
    Lost {
        /// Method of the request.
        method: String,
        /// Cause.
        #[source]
        source: TransportError,
    },

    /// The server responded with an error.
    #[error(transparent)]
    Server(#[from] ServerError),

    /// The tool failed; the outcome has its error text.
    #[error("the tool failed: {}", .0.error_text())]
    Tool(Box<ToolOutcome>),

    /// The structured content of a tool violates the output schema that the server lists for it, or
    /// cannot be checked. The tool has run. To accept such results, set
    /// [`validate_output`](crate::ClientOptions::validate_output) to false.
    #[error("the tool {tool} has run, but its result violates its output schema: {reason}")]
    InvalidOutput {
        /// Name of the tool.
        tool: String,
        /// Problem and its location.
        reason: String,
    },

    /// The server violated the protocol.
    #[error("the server violated the protocol: {0}")]
    Protocol(String),

    /// The server does not support the only revision that [`RevisionPolicy`](crate::RevisionPolicy)
    /// allows.
    #[error("only revision {wanted} is allowed, but the server supports {offered}")]
    Revision {
        /// The revision that is allowed.
        wanted: Revision,
        /// The revisions that the server lists.
        offered: String,
    },

    /// The user or a policy of the host denied it.
    #[error("denied: {0}")]
    Denied(String),

    /// No response arrived in time. The request was cancelled.
    #[error("no response to {what} within {}", Seconds(*.limit))]
    Timeout {
        /// The request or operation.
        what: String,
        /// Timeout that elapsed.
        limit: Duration,
    },

    /// The task that the call continued as was cancelled, by somebody else or by the server.
    #[error("task {task} was cancelled{}", .reason.iter().map(|why| format!(": {why}")).collect::<String>())]
    Cancelled {
        /// Id of the task.
        task: String,
        /// Reason that the server gives. Untrusted.
        reason: Option<String>,
    },

    /// The call continues as a task that could not be followed to its end. The task goes on; follow it
    /// with [`Client::follow_task`](crate::Client::follow_task) for its result.
    #[error("the call continues as task {task}, which was not followed to its end: {source}")]
    Unfollowed {
        /// Id of the task.
        task: String,
        /// Cause.
        #[source]
        source: Box<Error>,
    },

    /// Invalid use of the API, such as arguments that violate their schema. Nothing was sent.
    #[error("{0}")]
    Usage(String),

    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// Category of an [`Error`], for branching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server cannot be reached, or the connection was lost.
    Connect,
    /// The server violated the protocol, or responded with an error.
    Protocol,
    /// The user or a policy denied it.
    Denied,
    /// A tool failed, or its task was cancelled.
    Tool,
    /// A timeout elapsed.
    Timeout,
    /// Invalid use of the API.
    Usage,
}

impl Error {
    /// Category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect { .. } | Self::Lost { .. } | Self::Closed => ErrorKind::Connect,
            Self::Server(_)
            | Self::Protocol(_)
            | Self::InvalidOutput { .. }
            | Self::Revision { .. } => ErrorKind::Protocol,
            Self::Tool(_) | Self::Cancelled { .. } => ErrorKind::Tool,
            Self::Denied(_) => ErrorKind::Denied,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Usage(_) => ErrorKind::Usage,
            Self::Unfollowed { source, .. } => source.kind(),
        }
    }

    /// The server's error response, if that is what it is.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            Self::Unfollowed { source, .. } => source.server(),
            _ => None,
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// Error response of a server. Its texts are untrusted: show them through
/// [`sanitize`](crate::sanitize).
#[derive(Clone, Debug, PartialEq)]
pub struct ServerError {
    /// Error code.
    pub code: i64,
    /// Error message.
    pub message: String,
    /// Additional data.
    pub data: Value,
}

impl ServerError {
    /// Name of the error for programs, if the server sends one: `data.name`.
    pub fn name(&self) -> Option<&str> {
        self.data.get("name").and_then(Value::as_str)
    }

    /// Reads an error object, keeping what is valid of a malformed one.
    pub(crate) fn from_raw(raw: Raw<'_>) -> Self {
        Self::from_members(&raw.decode().unwrap_or_default())
    }

    /// Reads the error object of a task.
    pub(crate) fn from_value(value: &Value) -> Self {
        Self::from_members(value.as_object().unwrap_or(&Map::new()))
    }

    fn from_members(members: &Map<String, Value>) -> Self {
        let code = members.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = members.get("message").and_then(Value::as_str);
        Self {
            code,
            message: message.unwrap_or("no error message").to_owned(),
            data: members.get("data").cloned().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the server responded with error {}: {}", self.code, self.message)?;
        match self.data.get("details").and_then(Value::as_str) {
            Some(details) => write!(formatter, " ({details})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ServerError {}

/// Displays a duration in seconds or milliseconds.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            whole if whole.subsec_nanos() == 0 => write!(formatter, "{} s", whole.as_secs()),
            short => write!(formatter, "{} ms", short.as_millis()),
        }
    }
}
