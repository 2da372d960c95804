//! Outcomes of steps.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// Value of a step that succeeded.
    Ok(Value),
    /// Failure of a step.
    Failed(StepFailure),
}

/// Failure of a step. One without causes is written as its message alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "RecordedFailure", into = "RecordedFailure")]
pub struct StepFailure {
    /// Message of the error.
    pub message: String,
    /// Messages of its causes, the nearest first.
    pub causes: Vec<String>,
}

impl From<String> for StepFailure {
    fn from(message: String) -> Self {
        Self { message, causes: Vec::new() }
    }
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum RecordedFailure {
    Message(String),
    Caused { message: String, causes: Vec<String> },
}

impl From<RecordedFailure> for StepFailure {
    fn from(recorded: RecordedFailure) -> Self {
        match recorded {
            RecordedFailure::Message(message) => message.into(),
            RecordedFailure::Caused { message, causes } => Self { message, causes },
        }
    }
}

impl From<StepFailure> for RecordedFailure {
    fn from(StepFailure { message, causes }: StepFailure) -> Self {
        match causes.is_empty() {
            true => Self::Message(message),
            false => Self::Caused { message, causes },
        }
    }
}
