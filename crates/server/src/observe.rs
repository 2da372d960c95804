//! Watching exchanges go by, for those who look after a server: one place where it is known who
//! asked for what, and what came of it.
//!
//! Nothing is noted of a request unless somebody watches when it is taken up, and no more than they
//! want to see.

mod counts;
mod denials;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_flow_proto::error::TOOL_FAILED;
use mcp_flow_proto::model::TraceContext;
use mcp_flow_proto::{Encoding, Params, Raw, RequestId, RpcError, method};

pub use counts::{ConnectionCounts, Count};
pub use denials::Denial;
pub(crate) use denials::Denials;

use crate::connection::ConnectionInfo;
use crate::handler::Payload;
use crate::identity::{Peer, Principal};
use crate::tool::Tool;

/// Sees every exchange of a server; see
/// [`ServerBuilder::observer`](crate::ServerBuilder::observer).
///
/// All methods run on the path of every request, and must not wait for anything.
pub trait Observer: Send + Sync + 'static {
    /// How much is to be noted of a request that is taken up now.
    fn detail(&self) -> Detail;

    /// A request that was taken up while somebody watched has been answered. It may be told in more
    /// detail than this observer has asked for.
    fn observe(&self, exchange: &Observed<'_>);

    /// Somebody was not let in. Of many in a second one is told of, with the number of the others.
    fn denied(&self, _denial: &Denial<'_>) {}

    /// Whether more can be observed at the moment. While it cannot, requests are refused and told
    /// when to come again.
    fn has_room(&self) -> bool {
        true
    }
}

/// How much is noted of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Nothing: nobody watches.
    Nothing,
    /// By which method, how long it took and whether it went well.
    Figures,
    /// Who asked for what by name, and what came of it.
    Outline,
    /// Also what was sent.
    Full,
}

/// One request and its answer.
#[derive(Debug)]
pub struct Observed<'a> {
    /// What the transport knows of its connection.
    pub connection: &'a ConnectionInfo,
    /// Whom it was made for.
    pub principal: &'a Principal,
    /// What the client says of itself, if that is known.
    pub peer: Option<&'a Peer>,
    /// The id of the request.
    pub id: &'a RequestId,
    /// What was asked for.
    pub method: &'a str,
    /// The same, if it is a method of the server and not something a client has made up.
    pub known: Option<&'static str>,
    /// What it was about: the name of a tool or prompt, the URI of a resource, a flow or a session,
    /// as the client wrote it. Of what is long only the beginning.
    pub target: Option<&'a str>,
    /// The tool that was called, if the server has it.
    pub tool: Option<&'a str>,
    /// The trace it belongs to, if it says so.
    pub trace: Option<&'a TraceContext>,
    /// With what, as JSON, if that was to be noted; of what is long only the beginning.
    pub params: &'a str,
    /// The length of the request, in bytes.
    pub request_bytes: usize,
    /// How the result is written.
    pub encoding: Encoding,
    /// The result, or the error. A call that was cancelled without an answer has the error that
    /// would say so.
    pub outcome: Result<&'a [u8], &'a RpcError>,
    /// Whether the result is that of a tool which says that it failed.
    pub failed: bool,
    /// How long it took from being taken up to being answered.
    pub time: Duration,
}

impl Observed<'_> {
    /// What came of it, in a word: `ok`, `failed` if a tool says so of itself, or the name of the
    /// error. There are a few dozen of them at most.
    pub fn outcome_name(&self) -> &'static str {
        match self.outcome {
            Ok(_) if self.failed => "failed",
            Ok(_) => "ok",
            // As a method of its own, a tool tells of its failure by an error.
            Err(error) if error.name() == TOOL_FAILED.name => "failed",
            Err(error) => error.name(),
        }
    }
}

/// What is noted of a request when it is taken up.
#[derive(Debug)]
pub(crate) struct Begun {
    method: Cow<'static, str>,
    target: Option<Box<str>>,
    tool: Option<Arc<Tool>>,
    params: Box<str>,
    trace: Option<TraceContext>,
    size: usize,
    at: Instant,
}

impl Begun {
    /// Notes as much as is wanted, if anything is.
    pub(crate) fn new(
        detail: Detail,
        method: &str,
        known: impl FnOnce() -> Option<&'static str>,
        tool: impl FnOnce(&str) -> Option<Arc<Tool>>,
        params: Params<'_>,
        trace: impl FnOnce() -> Option<TraceContext>,
        size: usize,
    ) -> Option<Box<Self>> {
        if detail == Detail::Nothing {
            return None;
        }
        let full = detail == Detail::Full;
        let params_noted = match params.object() {
            _ if !full => Box::default(),
            Raw::Json(text) => beginning(text, LONGEST_PARAMS).into(),
            raw @ Raw::Cbor(_) => {
                let value = raw.decode::<serde_json::Value>().unwrap_or_default();
                beginning(&value.to_string(), LONGEST_PARAMS).into()
            }
        };
        let named = match detail > Detail::Figures {
            true => params.members(["name", "uri", "toolName", "sessionId"]).unwrap_or_default(),
            false => [None; 4],
        };
        let known = known();
        let target = match known {
            // A tool that is called as a method of its own is noted as it is by `tools/call`.
            Some(method::TOOLS_CALL) if method != method::TOOLS_CALL => {
                (detail > Detail::Figures).then_some(Cow::Borrowed(method))
            }
            _ => named.into_iter().flatten().find_map(Raw::as_text),
        };
        let tool = match known {
            Some(method::TOOLS_CALL | INTERACTION_START) => target.as_deref().and_then(tool),
            _ => None,
        };
        let target = target.map(|text| beginning(&text, LONGEST_NAME).into());
        let method = match known {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(beginning(method, LONGEST_NAME).to_owned()),
        };
        let (trace, at) = (trace(), Instant::now());
        Some(Box::new(Self { method, target, tool, params: params_noted, trace, size, at }))
    }

    pub(crate) fn tell(
        &self,
        observers: &[Box<dyn Observer>],
        connection: &ConnectionInfo,
        principal: &Principal,
        peer: Option<&Peer>,
        id: &RequestId,
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
            tool: self.tool.as_ref().map(|tool| tool.definition().name.as_str()),
            trace: self.trace.as_ref(),
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

fn beginning(text: &str, longest: usize) -> &str {
    let whole = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(longest)).rev().find(whole).unwrap_or_default();
    &text[..end]
}

/// What starts a tool that asks questions; it is not a method of this crate.
const INTERACTION_START: &str = "interaction.start";

/// How many bytes of params are noted.
const LONGEST_PARAMS: usize = 4096;

/// How many bytes of a name are noted.
const LONGEST_NAME: usize = 256;
