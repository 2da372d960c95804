//! What a server tells without being asked, and what becomes of the connection to it.

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::LogLevel;
use serde_json::Value;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A connection is open.
    Connected {
        /// What is spoken on it.
        revision: Revision,
        /// Whether there was one before.
        again: bool,
    },
    /// The connection is lost.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// An attempt to connect failed; there will be another.
    Retrying {
        /// Which attempt it was, the first being 1.
        attempt: u32,
        /// How long until the next.
        delay: std::time::Duration,
        /// What went wrong.
        reason: String,
    },
    /// A log message of the server.
    Log {
        /// How severe it is.
        level: LogLevel,
        /// Who says so.
        logger: Option<String>,
        /// What it says.
        data: Value,
    },
    /// There are other tools than before.
    ToolsChanged,
    /// There are other prompts than before.
    PromptsChanged,
    /// There are other resources than before.
    ResourcesChanged,
    /// A resource holds something else than before.
    ResourceUpdated {
        /// Which.
        uri: String,
    },
    /// A notification nobody here knows.
    Other {
        /// What it is called.
        method: String,
        /// What it says.
        params: Value,
    },
    /// The server did something wrong that could be overlooked.
    Warning(String),
}

/// How far a call has come. Values rise; what does not is dropped (C-45).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// Of how much, if known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}
