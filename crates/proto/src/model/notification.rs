//! Progress, cancellation and log notifications.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::RequestId;
use crate::raw::{Params, Raw};

/// The params of `notifications/progress`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressParams<'a> {
    /// The token from the request.
    pub progress_token: &'a RequestId,
    /// Progress so far; increases with every notification.
    pub progress: f64,
    /// Total amount of work, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

/// The params of `notifications/cancelled` and `$/cancel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelParams {
    /// The request to cancel.
    pub request_id: RequestId,
    /// The reason, if given.
    pub reason: Option<String>,
}

impl CancelParams {
    /// Reads the params; `None` if they name no request.
    pub fn from_params(params: Params<'_>) -> Option<Self> {
        let [id, reason] = params.members(["requestId", "reason"]).ok()?;
        Some(Self {
            request_id: id.and_then(RequestId::from_raw)?,
            reason: reason.and_then(Raw::as_text).map(Into::into),
        })
    }
}

/// Severity of a log message, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// Something may be wrong.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    /// Returns the name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is not a log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log level is one of debug, info, notice, warning, error, critical, alert, emergency")]
pub struct UnknownLevel;

/// The params of `logging/setLevel`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SetLevelParams {
    /// The minimum level.
    pub level: LogLevel,
}

/// The params of `notifications/message`.
#[derive(Clone, Debug, Serialize)]
pub struct LogMessage<'a> {
    /// Severity.
    pub level: LogLevel,
    /// Name of the logger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<&'a str>,
    /// The message.
    pub data: &'a Value,
}
