//! What a line says, before it is part of the chain.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mcp_flow_proto::RpcError;
use mcp_flow_server::Observed;
use mcp_flow_server::observe::Denial;
use serde::{Serialize, Serializer};

/// What happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Entry {
    /// A server has begun to write here.
    Start { version: &'static str, process: u32 },
    /// Something was asked for, and answered.
    Call(Box<Call>),
    /// Somebody was not let in.
    Denied(Denied),
    /// What is between the line before and this one was left by a process that was killed.
    Mended {
        /// How long it is, without the line break that was put behind it.
        bytes: usize,
        /// Its SHA-256.
        torn: String,
    },
    /// So many calls are not here, because they came faster than they could be written.
    Lost { calls: u64 },
    /// The server has ended as it should.
    Stop {},
}

/// One request and what came of it.
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
    /// `ok`, `failed` if a tool said so itself, or the name of the error.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(rename = "ms", serialize_with = "milliseconds")]
    time: Duration,
}

impl Call {
    pub(super) fn new(exchange: &Observed<'_>) -> Self {
        let name = exchange.principal.name();
        let end = (0..=name.len().min(LONGEST_NAME)).rev().find(|end| name.is_char_boundary(*end));
        Self {
            at: SystemTime::now(),
            principal: name[..end.unwrap_or_default()].into(),
            transport: exchange.connection.transport,
            connection: exchange.connection.number,
            method: exchange.method.into(),
            target: exchange.target.map(Into::into),
            outcome: exchange.outcome_name(),
            code: exchange.outcome.err().map(RpcError::code),
            time: exchange.time,
        }
    }
}

/// Somebody who was not let in.
#[derive(Debug, Serialize)]
pub(super) struct Denied {
    #[serde(skip)]
    pub(super) at: SystemTime,
    transport: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    reason: Box<str>,
    /// How many others were not let in since the line before of this kind.
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
    // Microseconds are as exact as is of use.
    #[expect(clippy::cast_precision_loss, reason = "nothing takes centuries")]
    let milliseconds = time.as_micros() as f64 / 1000.0;
    serializer.serialize_f64(milliseconds)
}

/// A time as it is written: in UTC, to the microsecond.
pub(super) fn written(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let time = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
    format!("{time:.6}")
}

/// How many bytes of a principal's name are kept.
const LONGEST_NAME: usize = 256;
