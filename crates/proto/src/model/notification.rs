//! Messages without a reply: progress, cancellation, logging.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::RequestId;
use crate::raw::{Params, Raw};

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressParams<'a> {
    /// The token the request carried.
    pub progress_token: &'a RequestId,
    /// Rises with every notification.
    pub progress: f64,
    /// Where it will end, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

/// Which request to stop, by either of the two notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelParams {
    /// The request to stop.
    pub request_id: RequestId,
    /// Why.
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

/// How severe a log message is, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Detail for debugging.
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
    /// Someone must act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// The name on the wire.
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

/// A name that is no log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log level is one of debug, info, notice, warning, error, critical, alert, emergency")]
pub struct UnknownLevel;

/// The params of `logging/setLevel`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SetLevelParams {
    /// The least severe level wanted.
    pub level: LogLevel,
}

/// One log message.
#[derive(Clone, Debug, Serialize)]
pub struct LogMessage<'a> {
    /// How severe.
    pub level: LogLevel,
    /// Which part of the server speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<&'a str>,
    /// What it says.
    pub data: &'a Value,
}
