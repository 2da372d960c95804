//! Client events: connection changes and the server's notifications.

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{DetailedTask, LogLevel};
use serde_json::Value;

/// Connection change or notification.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// A connection was opened.
    Connected {
        /// Negotiated revision.
        revision: Revision,
        /// True after a reconnection.
        again: bool,
    },
    /// The connection was lost.
    Disconnected {
        /// Cause.
        reason: String,
    },
    /// An attempt to connect failed; another follows.
    Retrying {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Delay until the next attempt.
        delay: std::time::Duration,
        /// Cause of the failure.
        reason: String,
    },
    /// A log message from the server.
    Log {
        /// Severity.
        level: LogLevel,
        /// Name of the logger.
        logger: Option<String>,
        /// Message, any JSON value.
        data: Value,
    },
    /// The list of tools changed.
    ToolsChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The list of resources changed.
    ResourcesChanged,
    /// A resource changed.
    ResourceUpdated {
        /// URI of the resource.
        uri: String,
    },
    /// The status of a task changed. Only tasks are announced that a
    /// [subscription](crate::ChangeFilter::task) covers.
    TaskChanged(Box<DetailedTask>),
    /// Any other notification.
    Other {
        /// Method.
        method: String,
        /// Params.
        params: Value,
    },
    /// A tolerated protocol violation of the server, or an automatic restart.
    Warning(String),
}

/// Progress of a request. Values increase; reports that do not are dropped (C-45).
#[derive(Clone, Debug, PartialEq)]
pub struct RequestProgress {
    /// Work done so far.
    pub progress: f64,
    /// Total work, if known.
    pub total: Option<f64>,
    /// Description of the current step.
    pub message: Option<String>,
}
