//! Why a question has no answer.

use mcp_flow_proto::model::{BadForm, Unsayable};

use super::Capability;
use crate::context::ClientError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client did not declare that it can do this. Do without, or fail.
    #[error("the client did not declare the capability {0}")]
    Missing(Capability),
    /// The client, or the person behind it, would not answer (C-33).
    #[error("the client refused: {message}")]
    Refused {
        /// The number it gave; -1 is what the official text has for a person who says no.
        code: Option<i64>,
        /// The reason it gave.
        message: String,
    },
    /// The client's answer is not what was asked for.
    #[error("the client's answer cannot be used: {0}")]
    Unusable(String),
    /// What was answered is not what is asked now. Questions must read the same each time.
    #[error(
        "the question {0:?} is not the one that was answered; it must read the same each time the \
         function runs. Call again"
    )]
    Changed(String),
    /// The type asked for is no form.
    #[error(transparent)]
    Form(#[from] BadForm),
    /// The client's revision has no words for the form.
    #[error(transparent)]
    Unsayable(#[from] Unsayable),
    /// There is nowhere to send the person to.
    #[error("{0:?} is no URL; it must begin with https:// and have no spaces")]
    NotAUrl(String),
    /// What is to be asked cannot be written as JSON.
    #[error("the question cannot be written: {0}")]
    Unwritable(String),
    /// The method that is served is not one during which a client can be asked.
    #[error("the client cannot be asked anything while this method is served")]
    NotHere,
    /// The client will be asked once the function returns, whatever it returns. Only functions
    /// that block see this.
    #[error("the client will be asked when this call returns")]
    Suspended,
    /// The client was asked and did not answer.
    #[error(transparent)]
    Client(ClientError),
    /// The system has no randomness.
    #[error("the system has no randomness")]
    Randomness(#[source] getrandom::Error),
}

impl From<ClientError> for AskError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(error) => {
                let message = error["message"].as_str().unwrap_or("no reason given");
                let message = message.chars().take(LONGEST_REASON).collect();
                Self::Refused { code: error["code"].as_i64(), message }
            }
            ClientError::Malformed(error) => Self::Unusable(error.to_string()),
            other => Self::Client(other),
        }
    }
}

/// The person was asked and did not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// They said no.
    #[error("the user declined")]
    Declined,
    /// They went away without saying either.
    #[error("the user cancelled")]
    Cancelled,
}

/// How many characters of a client's reason are kept.
const LONGEST_REASON: usize = 1000;
