//! Errors of questions to the client.

use mcp_flow_proto::model::{BadForm, UnsupportedField};

use super::Capability;
use crate::context::ClientError;

/// Error of a question to the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client did not declare the capability. Do without, or fail.
    #[error("the client did not declare the capability {0}")]
    Missing(Capability),
    /// The client, or its user, declined (C-33).
    #[error("the client refused: {message}")]
    Refused {
        /// The error code; the official text has -1 for a user who declines.
        code: Option<i64>,
        /// The reason given.
        message: String,
    },
    /// The client's answer does not match the question.
    #[error("the client's answer cannot be used: {0}")]
    Unusable(String),
    /// The stored answer belongs to another question. Questions must read the same in each run.
    #[error(
        "the question {0:?} is not the one that was answered; it must read the same each time the \
         function runs. Call again"
    )]
    Changed(String),
    /// The type asked for is not a form.
    #[error(transparent)]
    Form(#[from] BadForm),
    /// The client's revision cannot express the form.
    #[error(transparent)]
    UnsupportedField(#[from] UnsupportedField),
    /// The URL is invalid.
    #[error("{0:?} is not a URL; it must begin with https:// and have no spaces")]
    NotAUrl(String),
    /// The params cannot be encoded as JSON.
    #[error("the question cannot be written: {0}")]
    Unwritable(String),
    /// The client cannot be asked during this method.
    #[error("the client cannot be asked anything while this method is served")]
    NotHere,
    /// The client will be asked once the function returns, whatever it returns. Only blocking
    /// functions see this.
    #[error("the client will be asked when this call returns")]
    Suspended,
    /// The request to the client failed.
    #[error(transparent)]
    Client(ClientError),
    /// The system's random number generator failed.
    #[error("the system's random number generator failed")]
    Randomness(#[source] getrandom::Error),
}

impl From<ClientError> for AskError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(error) => {
                let message = error["message"].as_str().unwrap_or("no reason given");
                let message = message.chars().take(MAX_REASON_LENGTH).collect();
                Self::Refused { code: error["code"].as_i64(), message }
            }
            ClientError::Malformed(error) => Self::Unusable(error.to_string()),
            other => Self::Client(other),
        }
    }
}

/// The user did not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// The user declined.
    #[error("the user declined")]
    Declined,
    /// The user dismissed the question.
    #[error("the user cancelled")]
    Cancelled,
}

/// Longest reason kept, in characters.
const MAX_REASON_LENGTH: usize = 1000;
