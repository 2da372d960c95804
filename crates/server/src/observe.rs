//! Observers of calls: who called what, with which outcome, for logs, metrics and administration.
//!
//! Nothing is recorded of a request unless an observer asks for it at dispatch, and no more than it
//! asks for.

mod counts;
mod denials;
mod prometheus;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mcp_flow_proto::error::TOOL_FAILED;
use mcp_flow_proto::model::TraceContext;
use mcp_flow_proto::text::prefix_bytes;
use mcp_flow_proto::{Encoding, Params, Raw, RequestId, RpcError, method};

pub use counts::{ConnectionCount, ConnectionCounts};
pub use denials::Denial;
pub(crate) use denials::Denials;
pub use prometheus::{MetricType, MetricsText};

use crate::connection::ConnectionInfo;
use crate::handler::Payload;
use crate::identity::{Peer, Principal};
use crate::tool::Tool;

/// Observes every call of a server; see
/// [`ServerBuilder::observer`](crate::ServerBuilder::observer).
///
/// All methods run on the path of every request and must not block.
pub trait Observer: Send + Sync + 'static {
    /// The level of detail to record for a request dispatched now.
    fn detail(&self) -> Detail;

    /// The level of detail to record for a request with this method, if it differs by method.
    fn detail_of(&self, _method: &str) -> Detail {
        self.detail()
    }

    /// Called when a request that was recorded at dispatch has been answered. It may have more
    /// detail than this observer asked for.
    fn observe(&self, exchange: &Observed<'_>);

    /// Called when a transport rejected a client. At most one per second is reported, with the
    /// number of those left out.
    fn denied(&self, _denial: &Denial<'_>) {}

    /// Returns whether another request can be recorded. While it cannot, requests are rejected with
    /// a time to retry after.
    fn has_room(&self) -> bool {
        true
    }
}

/// The level of detail recorded of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Nothing.
    Nothing,
    /// Method, duration and outcome.
    Metrics,
    /// Also the caller and the target by name.
    Outline,
    /// Also the params.
    Full,
}

/// One completed request.
#[derive(Debug)]
pub struct Observed<'a> {
    /// The connection, as its transport describes it.
    pub connection: &'a ConnectionInfo,
    /// The principal it was made for.
    pub principal: &'a Principal,
    /// The client's own description, if known.
    pub peer: Option<&'a Peer>,
    /// The id of the request.
    pub id: &'a RequestId,
    /// The method, as the client wrote it.
    pub method: &'a str,
    /// The method, if the server has it.
    pub known: Option<&'static str>,
    /// The target: the name of a tool or prompt, the URI of a resource, a flow or a session, as the
    /// client wrote it. Truncated if long.
    pub target: Option<&'a str>,
    /// The tool called, or that of the session, if the server has it.
    pub tool: Option<&'a str>,
    /// The server behind this one that the request was forwarded to.
    pub upstream: Option<&'a str>,
    /// The trace context, if the request carries one.
    pub trace: Option<&'a TraceContext>,
    /// The context of the call itself: its span, if telemetry is on.
    pub span: Option<&'a TraceContext>,
    /// The params as JSON, if recorded; truncated if long.
    pub params: &'a str,
    /// The length of the request, in bytes.
    pub request_bytes: usize,
    /// The encoding of the result.
    pub encoding: Encoding,
    /// The result, or the error. A call cancelled without a reply has the error `CANCELLED`.
    pub outcome: Result<&'a [u8], &'a RpcError>,
    /// Set if the result is that of a tool call that reports failure.
    pub failed: bool,
    /// Time from dispatch to completion.
    pub time: Duration,
}

impl Observed<'_> {
    /// The outcome as one word: `ok`, `failed` if a tool reports failure, or the name of the error.
    /// There are a few dozen at most.
    pub fn outcome_name(&self) -> &'static str {
        match self.outcome {
            Ok(_) if self.failed => "failed",
            Ok(_) => "ok",
            // Called as a method, a tool reports its failure by an error.
            Err(error) if error.name() == TOOL_FAILED.name => "failed",
            Err(error) => error.name(),
        }
    }
}

/// The record of a request, taken at dispatch.
#[derive(Debug)]
pub(crate) struct Observation {
    method: Cow<'static, str>,
    target: Option<Box<str>>,
    tool: OnceLock<Arc<Tool>>,
    params: Box<str>,
    trace: Option<TraceContext>,
    span: Option<Arc<TraceContext>>,
    size: usize,
    at: Instant,
}

impl Observation {
    /// Records as much as `detail` asks for; `None` if that is nothing.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a request, most of them made on demand"
    )]
    pub(crate) fn new(
        detail: Detail,
        method: &str,
        known: impl FnOnce() -> Option<&'static str>,
        tool: impl FnOnce(&str) -> Option<Arc<Tool>>,
        params: Params<'_>,
        trace: impl FnOnce() -> Option<TraceContext>,
        span: Option<&Arc<TraceContext>>,
        size: usize,
    ) -> Option<Box<Self>> {
        if detail == Detail::Nothing {
            return None;
        }
        let full = detail == Detail::Full;
        let params_noted = match params.object() {
            _ if !full => Box::default(),
            Raw::Json(text) => prefix_bytes(text, MAX_PARAMS_LENGTH).into(),
            raw @ Raw::Cbor(_) => {
                let value = raw.decode::<serde_json::Value>().unwrap_or_default();
                prefix_bytes(&value.to_string(), MAX_PARAMS_LENGTH).into()
            }
        };
        let named = match detail > Detail::Metrics {
            true => params.members(["name", "uri", "toolName", "sessionId"]).unwrap_or_default(),
            false => [None; 4],
        };
        let known = known();
        let target = match known {
            // A tool called as a method is recorded as `tools/call` records it.
            Some(method::TOOLS_CALL) if method != method::TOOLS_CALL => {
                (detail > Detail::Metrics).then_some(Cow::Borrowed(method))
            }
            _ => named.into_iter().flatten().find_map(Raw::as_text),
        };
        let tool = match known {
            Some(method::TOOLS_CALL | INTERACTION_START) => target.as_deref().and_then(tool),
            _ => None,
        };
        let tool = tool.map_or_else(OnceLock::new, OnceLock::from);
        let target = target.map(|text| prefix_bytes(&text, MAX_NAME_LENGTH).into());
        let method = match known {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(prefix_bytes(method, MAX_NAME_LENGTH).to_owned()),
        };
        let (trace, span, at) = (trace(), span.cloned(), Instant::now());
        Some(Box::new(Self { method, target, tool, params: params_noted, trace, span, size, at }))
    }

    /// Records the tool, if names are recorded and it is not known yet.
    pub(crate) fn record_tool(&self, find: impl FnOnce() -> Option<Arc<Tool>>) {
        if self.target.is_some()
            && let Some(tool) = find()
        {
            let _ = self.tool.set(tool);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an exchange")]
    pub(crate) fn report(
        &self,
        observers: &[Box<dyn Observer>],
        connection: &ConnectionInfo,
        principal: &Principal,
        peer: Option<&Peer>,
        id: &RequestId,
        upstream: Option<&str>,
        outcome: Result<&Payload, &RpcError>,
    ) {
        let observed = Observed {
            connection,
            principal,
            peer,
            id,
            method: &self.method,
            known: match self.method {
                Cow::Borrowed(known) => Some(known),
                Cow::Owned(_) => None,
            },
            target: self.target.as_deref(),
            tool: self.tool.get().map(|tool| tool.definition().name.as_str()),
            upstream,
            trace: self.trace.as_ref(),
            span: self.span.as_deref(),
            params: &self.params,
            request_bytes: self.size,
            encoding: outcome.map_or(Encoding::Json, |payload| payload.encoding),
            outcome: outcome.map(|payload| &payload.bytes[..]),
            failed: outcome.is_ok_and(|payload| payload.failed),
            time: self.at.elapsed(),
        };
        observers.iter().for_each(|observer| observer.observe(&observed));
    }
}

/// Starts an interactive tool; not a method of this crate.
const INTERACTION_START: &str = "interaction.start";

/// Longest params recorded, in bytes.
const MAX_PARAMS_LENGTH: usize = 4096;

/// Longest name recorded, in bytes.
const MAX_NAME_LENGTH: usize = 256;
