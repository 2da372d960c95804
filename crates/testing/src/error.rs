//! Errors of a test.

use std::fmt;
use std::path::PathBuf;

use mcp_flow_engine::{BadHistory, EngineError, HistoryError};

/// Reason a test of a flow cannot go on. A test that returns it shows its text.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FlowTestError {
    /// The engine rejected a request.
    #[error("the engine refused: {0}")]
    Engine(#[from] EngineError),
    /// The server could not be built.
    #[error("the server cannot be built: {0}")]
    Build(String),
    /// The client could not connect.
    #[error("the client cannot connect: {0}")]
    Client(#[from] mcp_flow_client::Error),
    /// The parameters of a start are no object.
    #[error("the parameters of a flow are a JSON object, not {0}")]
    BadParams(serde_json::Value),
    /// A text is no duration.
    #[error("`{0}` is no duration; write one such as \"3 days\" or \"1 h 30 min\"")]
    BadDuration(String),
    /// The flow does not ask what the test answers.
    #[error("no question has the key {}; the session {state}", list(keys))]
    NotAsked {
        /// Keys of the answers that are left.
        keys: Vec<String>,
        /// State of the session.
        state: String,
    },
    /// The flow asks what the script has no answer to, or waits for a signal that it does not have.
    #[error("the script has no answer to {}", list(keys))]
    NoAnswer {
        /// Keys of the open questions, and names of the signals.
        keys: Vec<String>,
    },
    /// An answer is invalid.
    #[error("the answer to `{key}` was rejected: {reason}")]
    Rejected {
        /// Key of the question.
        key: String,
        /// Violation by the answer.
        reason: String,
    },
    /// The session has no result.
    #[error("there is no result: the session {0}")]
    NoResult(String),
    /// The flow works for too long.
    #[error("flow `{flow}` did not ask, sleep or end within {seconds} s of real time")]
    Stalled {
        /// Name of the flow.
        flow: String,
        /// Seconds waited.
        seconds: u64,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {cause}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        cause: std::io::Error,
    },
    /// A history was edited.
    #[error(transparent)]
    BadHistory(#[from] BadHistory),
    /// A history does not fit the code of its flow.
    #[error("the flow has changed: {0}")]
    Changed(#[from] HistoryError),
    /// A crash changed the end of a flow.
    #[error("after a crash at append {append}, {detail}")]
    Crash {
        /// Number of the append that failed, counted from 0.
        append: usize,
        /// Difference to the run without a crash.
        detail: String,
    },
}

impl fmt::Debug for FlowTestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Programs and tests show the errors of `main` in this form.
        fmt::Display::fmt(self, formatter)
    }
}

fn list(keys: &[String]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}
