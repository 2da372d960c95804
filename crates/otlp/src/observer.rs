//! Spans and metrics of calls, with the attributes of the conventions for MCP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use mcp_flow_proto::text::prefix_bytes;
use mcp_flow_proto::{RequestId, Revision, method};
use mcp_flow_server::{ConnectionEvent, ConnectionInfo, Detail, Observed, Observer, ServerBuilder};
use mcp_flow_telemetry::SpanKind;
use parking_lot::Mutex;

use crate::exporter::Pipeline;
use crate::histograms::{LabelsRef, Metric};
use crate::protobuf::Encode;
use crate::spans::{ATTRIBUTES, SpanHead, encode_error, truncate};

/// Registers spans and metrics of calls with a server.
pub(crate) fn add_to(pipeline: &Arc<Pipeline>, server: ServerBuilder) -> ServerBuilder {
    let sessions = SessionTimes { pipeline: pipeline.clone(), begun: Mutex::default() };
    server.observer(CallObserver(pipeline.clone())).hook(
        move |connection: &ConnectionInfo, event: &ConnectionEvent<'_>| {
            sessions.record(connection, event);
            Ok(())
        },
    )
}

struct CallObserver(Arc<Pipeline>);

impl Observer for CallObserver {
    fn detail(&self) -> Detail {
        Detail::Outline
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let outcome = Outcome::of(exchange);
        let method = exchange.known.unwrap_or(OTHER);
        let prompt = exchange.target.filter(|_| {
            // Clients choose the name; only those that exist are few.
            exchange.known == Some(method::PROMPTS_GET) && exchange.outcome.is_ok()
        });
        let (transport, protocol) = network(exchange.connection.transport);
        let revision = exchange.peer.map(|peer| peer.revision.name());
        if let Some(histograms) = &self.0.histograms {
            let labels = LabelsRef {
                metric: Metric::ServerOperation,
                method,
                tool: exchange.tool,
                prompt,
                error: outcome.error(),
                status: outcome.code,
                transport: Some(transport),
                revision,
            };
            histograms.record(labels, exchange.time);
        }
        let Some(spans) = &self.0.spans else { return };
        let Some(span) = exchange.span else { return };
        let Some(id) = span.parent.as_ref().filter(|id| id.is_sampled()) else { return };
        spans.push(|record| {
            let parent = exchange.trace.and_then(|trace| trace.parent);
            let head = SpanHead {
                id,
                state: span.state.as_deref(),
                parent: parent.map(|parent| parent.span_id()),
                kind: SpanKind::Server,
                start: SystemTime::now() - exchange.time,
                time: exchange.time,
            };
            match exchange.tool.or(prompt) {
                Some(target) => head.encode(record, &[method, target]),
                None => head.encode(record, &[method]),
            }
            let uri = exchange.target.filter(|_| method.starts_with("resources/"));
            let is_call = method == method::TOOLS_CALL;
            for (name, text) in [
                ("mcp.method.name", Some(method)),
                ("gen_ai.operation.name", is_call.then_some("execute_tool")),
                ("gen_ai.tool.name", exchange.tool),
                ("gen_ai.prompt.name", prompt),
                ("mcp.resource.uri", uri.map(without_credentials)),
                ("mcp.protocol.version", revision),
                ("mcp.session.id", exchange.connection.session.as_deref()),
                ("network.transport", Some(transport)),
                ("network.protocol.name", protocol),
                ("error.type", outcome.error()),
                ("rpc.response.status_code", outcome.code.and(outcome.error())),
                ("enduser.id", named_principal(exchange)),
            ] {
                if let Some(text) = text {
                    record.attribute(ATTRIBUTES, name, truncate(text));
                }
            }
            match exchange.id {
                RequestId::String(id) => {
                    record.attribute(ATTRIBUTES, "jsonrpc.request.id", prefix_bytes(id, MAX_ID));
                }
                id => record.attribute(ATTRIBUTES, "jsonrpc.request.id", &id.to_string()),
            }
            if let Some(problem) = outcome.message {
                encode_error(record, problem);
            }
        });
    }
}

/// The outcome of a call, as the conventions describe it.
struct Outcome<'a> {
    code: Option<i32>,
    text: Option<String>,
    is_tool_error: bool,
    message: Option<&'a str>,
}

impl<'a> Outcome<'a> {
    fn of(exchange: &Observed<'a>) -> Self {
        match exchange.outcome {
            Ok(_) if exchange.failed => {
                let message = Some("the tool reported a failure");
                Self { code: None, text: None, is_tool_error: true, message }
            }
            Ok(_) => Self { code: None, text: None, is_tool_error: false, message: None },
            Err(error) => {
                let revision = exchange.peer.map_or(Revision::BASE, |peer| peer.revision);
                let code = error.wire(revision).code();
                let (text, message) = (Some(code.to_string()), Some(error.text()));
                Self { code: Some(code), text, is_tool_error: false, message }
            }
        }
    }

    /// Value of `error.type`.
    fn error(&self) -> Option<&str> {
        self.text.as_deref().or(self.is_tool_error.then_some("tool_error"))
    }
}

/// Principal of a call, unless it is the one of all local clients.
fn named_principal<'a>(exchange: &Observed<'a>) -> Option<&'a str> {
    let is_local = *exchange.principal == mcp_flow_server::Principal::local();
    (!is_local).then(|| exchange.principal.name())
}

/// Network transport and application protocol by the name of our transport.
fn network(transport: &str) -> (&'static str, Option<&'static str>) {
    match transport {
        "stdio" => ("pipe", None),
        "unix" => ("unix", None),
        "webtransport" => ("quic", Some("webtransport")),
        "websocket" => ("tcp", Some("websocket")),
        "http" | "sse" => ("tcp", Some("http")),
        "tcp" => ("tcp", None),
        // The transport of tests.
        _ => ("pipe", None),
    }
}

/// A URI without what may be a secret: user, password, query.
fn without_credentials(uri: &str) -> &str {
    let authority = uri.find("://").map(|start| start + 3);
    let is_plain = authority.is_none_or(|start| {
        let end = uri[start..].find('/').map_or(uri.len(), |length| start + length);
        !uri[start..end].contains('@')
    });
    match is_plain {
        true => uri.split(['?', '#']).next().unwrap_or(uri),
        // The scheme is all that can be told without a copy.
        false => &uri[..authority.unwrap_or(0)],
    }
}

/// Times at which sessions of clients began.
struct SessionTimes {
    pipeline: Arc<Pipeline>,
    begun: Mutex<HashMap<u64, (Instant, &'static str)>>,
}

impl SessionTimes {
    fn record(&self, connection: &ConnectionInfo, event: &ConnectionEvent<'_>) {
        let Some(histograms) = &self.pipeline.histograms else { return };
        match event {
            ConnectionEvent::Initialize(peer) => {
                let begun = (Instant::now(), peer.revision.name());
                self.begun.lock().insert(connection.number, begun);
            }
            ConnectionEvent::Closed(_) => {
                let Some((begun, revision)) = self.begun.lock().remove(&connection.number) else {
                    // A stateless request is no session.
                    return;
                };
                let labels = LabelsRef {
                    metric: Metric::ServerSession,
                    method: "",
                    tool: None,
                    prompt: None,
                    error: None,
                    status: None,
                    transport: Some(network(connection.transport).0),
                    revision: Some(revision),
                };
                histograms.record(labels, begun.elapsed());
            }
            _ => {}
        }
    }
}

/// Method of a request that the server does not know: clients could invent any number.
const OTHER: &str = "_OTHER";

/// Longest id of a request that is recorded, in bytes.
const MAX_ID: usize = 128;

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn uris_lose_what_may_be_secret() {
        for (uri, expected) in [
            ("file:///etc/motd", "file:///etc/motd"),
            ("https://user:secret@host/path", "https://"),
            ("https://host/path?token=secret#x", "https://host/path"),
            ("urn:a@b", "urn:a@b"),
            ("postgres://host/a@b", "postgres://host/a@b"),
        ] {
            assert_eq!(without_credentials(uri), expected);
        }
    }
}
