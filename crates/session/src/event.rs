//! What the journal of a session is made of.
//!
//! The journal is the state: everything else about a session is folded from it. Events are only
//! ever added, in the order they happened. Their JSON form is what stores keep.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::prompt::{Progress, Prompt};
use crate::{Owner, Timestamp, Violation};

/// One thing that happened in a session.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The session came to be.
    Started(Started),
    /// The flow began to run.
    Began {
        /// When.
        at: Timestamp,
    },
    /// The flow asked, and waits.
    Asked(Asked),
    /// The flow wanted to ask what it had been told at the start.
    Given {
        /// The key of the question.
        key: String,
        /// The value that answers it.
        value: Value,
        /// When.
        at: Timestamp,
    },
    /// The open question was answered.
    Answered(Answered),
    /// The open question was answered with something its rules do not allow.
    Rejected {
        /// What was wrong.
        violation: Violation,
        /// What the answer can be recognised by, so that its repetition is not another attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// A step of the flow is over.
    StepDone {
        /// The key of the step.
        key: String,
        /// How it ended.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
    /// The flow noted something for those who look at the session.
    DataSet {
        /// Under which key.
        key: String,
        /// What.
        value: Value,
        /// When.
        at: Timestamp,
    },
    /// The session is over. This event says all that may be known of it from now on (C-11).
    Ended(Ended),
}

impl Event {
    /// When it happened.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Started(started) => started.at,
            Self::Asked(asked) => asked.at,
            Self::Answered(answered) => answered.at,
            Self::Ended(ended) => ended.at,
            Self::Began { at }
            | Self::Given { at, .. }
            | Self::Rejected { at, .. }
            | Self::StepDone { at, .. }
            | Self::DataSet { at, .. } => *at,
        }
    }
}

/// How a session came to be.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Started {
    /// The flow it runs.
    pub flow: String,
    /// Whom it belongs to.
    pub owner: Owner,
    /// What the flow was told at the start; a value here answers the question of the same key.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// What else it was told.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// How many milliseconds it may wait for an answer; for ever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactivity: Option<u64>,
    /// When it ends at the latest, whatever happens; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Timestamp>,
    /// When.
    pub at: Timestamp,
}

/// A question that was asked.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Asked {
    /// The key of the question.
    pub key: String,
    /// The question. Shared: the journal, the session and those who look at it all have it.
    #[serde(with = "shared")]
    pub prompt: Arc<Prompt>,
    /// How far the flow had come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What was wrong with the value given for it at the start, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<Violation>,
    /// When.
    pub at: Timestamp,
}

/// An answer that was taken.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Answered {
    /// The answer, or the default it stands for.
    pub value: Value,
    /// When the client says it was given (INT-037).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// What the client wants kept with it (INT-038).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it arrived.
    pub at: Timestamp,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a value.
    Ok(Value),
    /// With an error, in words.
    Failed(String),
}

/// The end of a session, and all that is remembered of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Ended {
    /// The flow it ran.
    pub flow: String,
    /// Whom it belonged to.
    pub owner: Owner,
    /// When it started.
    pub created: Timestamp,
    /// How many questions were answered.
    pub turns: u32,
    /// What the last answer can be recognised by, so that its repetition gets the same result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// Whether an empty answer means the last one too: its default is what was answered, or nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_by_default: bool,
    /// How it ended.
    pub ending: Ending,
    /// Whether the client finished it before the flow did, and so knows the result (C-08).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished_early: bool,
    /// The last activity before it expired; otherwise its end was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<Timestamp>,
    /// What was gathered, where the flow keeps that beyond its end.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub kept: Map<String, Value>,
    /// When.
    pub at: Timestamp,
    /// Until when this is remembered.
    pub until: Timestamp,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The flow came to its end.
    Completed {
        /// Whether it did what it was started for (INT-050).
        success: bool,
        /// Its result.
        data: Value,
        /// Its result in a sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// Someone wanted it to end.
    Cancelled {
        /// Why, if they said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody answered in time, or it took too long altogether.
    Expired(Limit),
    /// Something went wrong.
    Failed(Fault),
}

/// The limit of time that ended a session (C-41).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Nobody answered for too long.
    Inactivity,
    /// The session as a whole took too long.
    Duration,
}

/// What went wrong in a session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Which kind of thing.
    pub name: FaultName,
    /// In a sentence that may be shown to the owner.
    pub message: String,
    /// Where in the flow: the key of a question or step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

impl Fault {
    /// A fault with no particular place in the flow.
    pub fn new(name: FaultName, message: impl Into<String>) -> Self {
        Self { name, message: message.into(), operation: None }
    }

    /// Says at which question or step it happened.
    #[must_use]
    pub fn at(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultName {
    /// The flow ended with an error of its own.
    Failed,
    /// The flow panicked.
    Panicked,
    /// The flow asked something other than it had asked before.
    Diverged,
    /// The flow asked what cannot be asked.
    BadPrompt,
    /// The flow asked too often.
    TooManyPrompts,
    /// An answer was wrong once too often.
    TooManyAttempts,
    /// The flow noted or did more than a session may hold.
    TooMuchData,
    /// An operation of the flow took too long.
    Timeout,
}

/// What is shared in memory is written like what is not.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}
