//! The trace of a request: its span, and the context that its `_meta` carries to the server.

use std::borrow::Cow;

use mcp_flow_proto::method;
use mcp_flow_proto::model::TraceContext;
use mcp_flow_telemetry::{Span, SpanKind, current};
use serde_json::{Map, Value};

use crate::connection::Connection;
use crate::error::{Error, ErrorKind};

/// Starts the span of a request, if what sends it is traced.
pub(super) fn start(request: &str, name: Option<&str>, connection: &Connection) -> Span {
    let target = name.filter(|_| [method::TOOLS_CALL, method::PROMPTS_GET].contains(&request));
    let mut span = Span::start(SpanKind::Client, || match target {
        Some(target) => format!("{request} {target}").into(),
        None => request.to_owned().into(),
    });
    span.set("mcp.method.name", || request.to_owned());
    if let Some(target) = target {
        let is_tool = request == method::TOOLS_CALL;
        let name = if is_tool { "gen_ai.tool.name" } else { "gen_ai.prompt.name" };
        span.set(name, || target.to_owned());
        if is_tool {
            span.set("gen_ai.operation.name", || "execute_tool");
        }
    }
    span.set("mcp.protocol.version", || connection.revision().name());
    if let Some(transport) = connection.transport() {
        span.set("network.transport", || match transport.name() {
            "stdio" => "pipe",
            "unix" => "unix",
            "webtransport" => "quic",
            _ => "tcp",
        });
    }
    span
}

/// Records the failure of the request of a span, and returns it.
pub(super) fn fail(span: &mut Span, error: Error) -> Error {
    let kind: Cow<'static, str> = match (error.server(), error.kind()) {
        (Some(server), _) => server.code.to_string().into(),
        (None, ErrorKind::Connect) => "connection".into(),
        (None, ErrorKind::Timeout) => "timeout".into(),
        (None, ErrorKind::Denied) => "denied".into(),
        (None, _) => "_OTHER".into(),
    };
    if error.server().is_some() {
        span.set("rpc.response.status_code", || kind.clone());
    }
    span.fail(kind, || error.to_string());
    error
}

/// The members of `_meta` without braces: those of the caller, and the trace context of the span or,
/// without one, of what runs now.
pub(super) fn members(own: &Map<String, Value>, span: &Span) -> String {
    let context = span.context().or_else(current);
    let context = context.filter(|_| !own.contains_key("traceparent"));
    match context {
        None => without_braces(own),
        Some(context) => without_braces(&with_context(own, &context)),
    }
}

fn with_context(own: &Map<String, Value>, context: &TraceContext) -> Map<String, Value> {
    let mut all = Map::new();
    context.add_to(&mut all);
    all.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

fn without_braces(members: &Map<String, Value>) -> String {
    if members.is_empty() {
        return String::new();
    }
    let text = serde_json::to_string(members).unwrap_or_default();
    text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned()
}
