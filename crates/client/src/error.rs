//! What can go wrong, and what to do about it.

use std::fmt;
use std::time::Duration;

use mcp_flow_proto::{DecodeError, Raw};
use serde_json::{Map, Value};

use crate::tools::ToolOutcome;
use crate::transport::TransportError;

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be reached. Check that it runs, and the address.
    #[error("cannot connect to {target}: {source}")]
    Connect {
        /// The server.
        target: String,
        /// Why not.
        #[source]
        source: TransportError,
    },

    /// The connection broke while the request was under way; it may have been carried out. It was
    /// not repeated because that could do it twice.
    #[error("the connection was lost during {method}, which may have been carried out: {source}")]
    Lost {
        /// What was asked.
        method: String,
        /// What happened.
        #[source]
        source: TransportError,
    },

    /// The server answered with an error.
    #[error(transparent)]
    Server(#[from] ServerError),

    /// A tool ran and failed; its outcome says how.
    #[error("the tool failed: {}", .0.error_text())]
    Tool(Box<ToolOutcome>),

    /// The server said something that no server of this protocol says.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),

    /// A person or a policy on this side did not allow it.
    #[error("denied: {0}")]
    Denied(String),

    /// No answer came in time. The server was told to stop.
    #[error("no answer to {what} within {}", Seconds(*.limit))]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },

    /// What was to be sent does not fit: arguments that break their schema, params that are no
    /// object. Nothing was sent.
    #[error("{0}")]
    Usage(String),

    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// What kind of thing went wrong, for those who only branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server cannot be reached, or was lost.
    Connect,
    /// The server broke the protocol, or answered with an error.
    Protocol,
    /// A person or a policy said no.
    Denied,
    /// A tool failed.
    Tool,
    /// Time ran out.
    Timeout,
    /// The request makes no sense.
    Usage,
}

impl Error {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect { .. } | Self::Lost { .. } | Self::Closed => ErrorKind::Connect,
            Self::Server(_) | Self::Protocol(_) => ErrorKind::Protocol,
            Self::Tool(_) => ErrorKind::Tool,
            Self::Denied(_) => ErrorKind::Denied,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Usage(_) => ErrorKind::Usage,
        }
    }

    /// The error the server answered with, if it did.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// An error response, as the server wrote it. Its texts are the server's: show them through
/// [`neutral`](crate::neutral).
#[derive(Clone, Debug, PartialEq)]
pub struct ServerError {
    /// The number.
    pub code: i64,
    /// The sentence.
    pub message: String,
    /// Whatever else it says.
    pub data: Value,
}

impl ServerError {
    /// The name a program can branch on, if the server gives one: `data.name`.
    pub fn name(&self) -> Option<&str> {
        self.data.get("name").and_then(Value::as_str)
    }

    /// Reads an error object; one that is malformed still says what it can.
    pub(crate) fn from_raw(raw: Raw<'_>) -> Self {
        let members: Map<String, Value> = raw.decode().unwrap_or_default();
        let code = members.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = members.get("message").and_then(Value::as_str);
        Self {
            code,
            message: message.unwrap_or("the server gave no message").to_owned(),
            data: members.get("data").cloned().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the server answered with error {}: {}", self.code, self.message)?;
        match self.data.get("details").and_then(Value::as_str) {
            Some(details) => write!(formatter, " ({details})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ServerError {}

/// A duration as a person reads it.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            whole if whole.subsec_nanos() == 0 => write!(formatter, "{} s", whole.as_secs()),
            short => write!(formatter, "{} ms", short.as_millis()),
        }
    }
}
