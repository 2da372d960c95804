//! Endings of sessions, and the faults that cause them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Owner, Timestamp};

/// End of a session: its tombstone.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SessionEnded {
    /// Name of its flow.
    pub flow: String,
    /// Owner of the session.
    pub owner: Owner,
    /// Time of its creation.
    pub created: Timestamp,
    /// Number of turns: of questions that were answered, or skipped after clients had seen them.
    pub turns: u32,
    /// Digest of the last answer, so that repeating it returns the same result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// Set if an empty answer is equivalent to the last one, by default or because none is
    /// required.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_by_default: bool,
    /// Ending of the session.
    pub ending: Ending,
    /// Set if the client completed it early, and so knows the result (C-08).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished_early: bool,
    /// Last activity before it expired; otherwise its end is the last activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<Timestamp>,
    /// Steps whose compensations did not succeed, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncompensated: Vec<String>,
    /// Data gathered, if the flow retains it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub kept: Map<String, Value>,
    /// Time of the event.
    pub at: Timestamp,
    /// Time at which the tombstone is erased.
    pub until: Timestamp,
}

/// Ending of a session.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The flow has completed.
    Completed {
        /// Set if the flow did its work (INT-050).
        success: bool,
        /// Result of the flow.
        data: Value,
        /// Result in one sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// The owner cancelled it.
    Cancelled {
        /// Reason, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A time limit was exceeded.
    Expired(Limit),
    /// A fault ended it.
    Failed(FlowFault),
}

/// Time limit that ended a session (C-41).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Inactivity timeout.
    Inactivity,
    /// Limit on the duration of the session.
    Duration,
}

/// Fault that ended a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct FlowFault {
    /// Kind of fault.
    pub name: FaultName,
    /// Message that may be shown to the owner.
    pub message: String,
    /// Key of the question or step where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Messages of the errors that caused it, the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl FlowFault {
    /// Creates a fault without an operation.
    pub fn new(name: FaultName, message: impl Into<String>) -> Self {
        Self { name, message: message.into(), operation: None, causes: Vec::new() }
    }

    /// Sets the question or step where it happened.
    #[must_use]
    pub fn at(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultName {
    /// The flow returned an error.
    Failed,
    /// The flow panicked.
    Panicked,
    /// The flow asked another question than its journal has. Older programs ended such sessions.
    Diverged,
    /// The flow asked an invalid prompt.
    BadPrompt,
    /// The flow asked too many questions.
    TooManyPrompts,
    /// Too many invalid answers to one question.
    TooManyAttempts,
    /// The session is too large.
    TooMuchData,
    /// An operation of the flow timed out.
    Timeout,
}
