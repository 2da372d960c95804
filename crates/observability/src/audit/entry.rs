//! Entries of the audit log, without the chain.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mcp_flow_proto::RpcError;
use mcp_flow_proto::text::prefix_bytes;
use mcp_flow_server::Observed;
use mcp_flow_server::observe::Denial;
use serde::{Serialize, Serializer};

/// An entry.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Entry {
    /// A server started writing.
    Start { version: &'static str, process: u32 },
    /// A request was completed.
    Call(Box<Call>),
    /// A client was rejected.
    Denied(Denied),
    /// The bytes between the previous line and this one were left by a killed process.
    Mended {
        /// Their length, without the line break added after them.
        bytes: usize,
        /// Its SHA-256.
        torn: String,
    },
    /// This many calls are not recorded, because they arrived too fast.
    Lost { calls: u64 },
    /// The server stopped normally.
    Stop {},
}

/// One request and its outcome.
#[derive(Debug, Serialize)]
pub(super) struct Call {
    #[serde(skip)]
    pub(super) at: SystemTime,
    principal: Box<str>,
    transport: &'static str,
    connection: u64,
    method: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Box<str>>,
    /// Server behind this one that it was forwarded to.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<Box<str>>,
    /// `ok`, `failed` if a tool reports failure, or the name of the error.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(rename = "ms", serialize_with = "milliseconds")]
    time: Duration,
}

impl Call {
    pub(super) fn new(exchange: &Observed<'_>) -> Self {
        Self {
            at: SystemTime::now(),
            principal: prefix_bytes(exchange.principal.name(), MAX_NAME_LENGTH).into(),
            transport: exchange.connection.transport,
            connection: exchange.connection.number,
            method: exchange.method.into(),
            target: exchange.target.map(Into::into),
            upstream: exchange.upstream.map(Into::into),
            outcome: exchange.outcome_name(),
            code: exchange.outcome.err().map(RpcError::code),
            time: exchange.time,
        }
    }
}

/// A rejected client.
#[derive(Debug, Serialize)]
pub(super) struct Denied {
    #[serde(skip)]
    pub(super) at: SystemTime,
    transport: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    reason: Box<str>,
    /// Rejections since the previous entry of this kind.
    others: u64,
}

impl Denied {
    pub(super) fn new(denial: &Denial<'_>) -> Self {
        Self {
            at: SystemTime::now(),
            transport: denial.transport,
            peer: denial.peer.map(|peer| peer.to_string()),
            reason: denial.reason.into(),
            others: denial.others,
        }
    }
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Microseconds are precise enough.
    #[expect(clippy::cast_precision_loss, reason = "nothing takes centuries")]
    let milliseconds = time.as_micros() as f64 / 1000.0;
    serializer.serialize_f64(milliseconds)
}

/// Formats a time in UTC, to the microsecond.
pub(super) fn written(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let time = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
    format!("{time:.6}")
}

/// Longest principal name recorded, in bytes.
const MAX_NAME_LENGTH: usize = 256;
