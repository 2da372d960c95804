//! Requests forwarded to the node that holds what they are for, and its responses.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderName,
    HeaderValue, IF_RANGE, RANGE, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Uri};
use mcp_flow_proto::error::INTERNAL_ERROR;
use mcp_flow_proto::{Encoding, Incoming, Message, RequestId, Revision, RpcError, write};
use mcp_flow_server::Principal;

use super::credential::{self, NODE};
use super::{ClusterNodes, RelayedResponse};
use crate::response::{HttpResponse, ResponseBody, bulk, json};
use crate::transport::sse;

/// A request to forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelayedRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    pub(crate) principal: &'a Principal,
    /// Ids of the requests in the body, each of which is answered, even if the node dies.
    pub(crate) ids: &'a [RequestId],
}

impl<'a> RelayedRequest<'a> {
    /// Creates a request without ids.
    pub(crate) fn new(head: &'a Parts, body: &'a Bytes, principal: &'a Principal) -> Self {
        let Parts { method, uri, headers, .. } = head;
        Self { method, uri, headers, body, principal, ids: &[] }
    }
}

/// A node that cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// It does not answer at its URL, and has received nothing.
    Silent,
    /// It has no URL.
    NoUrl,
}

/// Returns whether another node has forwarded a request. Its header was verified before.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(NODE)
}

/// Forwards a request to a node. If the node dies afterwards, its calls are answered with an error.
pub(crate) async fn forward(
    cluster: &std::sync::Arc<dyn ClusterNodes>,
    node: u64,
    request: RelayedRequest<'_>,
) -> Result<HttpResponse, Unreachable> {
    let url = cluster.find(node).ok_or(Unreachable::Silent)?;
    let Some(url) = url else {
        tracing::warn!(
            node,
            "a session of another node cannot be reached; start it with --node-url"
        );
        return Err(Unreachable::NoUrl);
    };
    let Some(forwarded) = build(&**cluster, node, &url, request) else {
        tracing::warn!(node, url, "the URL of another node cannot be used");
        return Err(Unreachable::NoUrl);
    };
    let sent = tokio::select! {
        sent = cluster.send(forwarded) => sent,
        () = until_gone(&**cluster, node) => return Ok(lost(request.ids)),
    };
    match sent {
        // Another process has the address now.
        Ok(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => {
            Err(Unreachable::Silent)
        }
        Ok(response) => Ok(relay(cluster.clone(), node, response, request.ids)),
        Err(error) if error.is_unsent => {
            tracing::debug!(node, %error, "another node does not answer");
            Err(Unreachable::Silent)
        }
        Err(error) => {
            tracing::debug!(node, %error, "another node has not answered");
            Ok(lost(request.ids))
        }
    }
}

/// Builds the request to a node. None if its URL is invalid.
fn build(
    cluster: &dyn ClusterNodes,
    node: u64,
    url: &str,
    request: RelayedRequest<'_>,
) -> Option<Request<Bytes>> {
    let RelayedRequest { method, uri, headers, body, principal, .. } = request;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut forwarded = Request::new(body.clone());
    *forwarded.method_mut() = method.clone();
    *forwarded.uri_mut() = format!("{}{target}", url.trim_end_matches('/')).parse().ok()?;
    for name in FORWARDED {
        if let Some(value) = headers.get(&name) {
            forwarded.headers_mut().insert(name, value.clone());
        }
    }
    let credential =
        credential::seal(cluster.keys(), node, principal, (method, uri, headers, body))?;
    forwarded.headers_mut().insert(NODE, credential);
    Some(forwarded)
}

/// Waits until a node is not alive any more.
async fn until_gone(cluster: &dyn ClusterNodes, node: u64) {
    while cluster.find(node).is_some() {
        tokio::time::sleep(CHECK).await;
    }
}

/// Passes a response on.
fn relay(
    cluster: std::sync::Arc<dyn ClusterNodes>,
    node: u64,
    response: RelayedResponse,
    ids: &[RequestId],
) -> HttpResponse {
    let (head, body) = response.into_parts();
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_events = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == EVENTS);
    let mut relayed = if is_events {
        let events = Events { cluster, node, body, ids: ids.to_vec(), partial: BytesMut::new() };
        HttpResponse::new(ResponseBody::Events(Box::pin(events.into_stream())))
    } else {
        bulk(body, length)
    };
    *relayed.status_mut() = head.status;
    for (name, value) in &head.headers {
        if ![CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH, DATE].contains(name) {
            relayed.headers_mut().append(name, value.clone());
        }
    }
    relayed
}

/// An event stream of another node.
struct Events {
    cluster: std::sync::Arc<dyn ClusterNodes>,
    node: u64,
    body: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
    /// Requests that were not answered yet.
    ids: Vec<RequestId>,
    /// Bytes of the last event, which is incomplete.
    partial: BytesMut,
}

impl Events {
    /// Passes events on. If the node dies, the open calls are answered here.
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        futures_util::stream::unfold(Some(self), async |events| {
            let mut events = events?;
            let next = tokio::select! {
                next = events.body.next() => next,
                () = until_gone(&*events.cluster, events.node) => Some(Err(io::ErrorKind::TimedOut.into())),
            };
            match next {
                Some(Ok(bytes)) => {
                    events.look_for_replies(&bytes);
                    Some((bytes, Some(events)))
                }
                None => None,
                Some(Err(error)) => {
                    tracing::debug!(%error, node = events.node, "lost an event stream of another node");
                    let errors = events.ids.iter().map(error_message).collect::<Vec<_>>();
                    // An incomplete event must not become part of the next one.
                    let mut last = BytesMut::from(&b"\n\n"[..]);
                    last.extend_from_slice(&sse::messages(errors.iter().map(Vec::as_slice)));
                    Some((last.freeze(), None))
                }
            }
        })
    }

    /// Removes the ids of requests that a response was seen for.
    fn look_for_replies(&mut self, bytes: &[u8]) {
        if self.ids.is_empty() {
            return;
        }
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.windows(2).position(|pair| pair == b"\n\n") {
            let event = self.partial.split_to(end + 2);
            let data = event[..]
                .split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(b"data: "));
            if let Some(Ok(Incoming::Message(Message::Response(response)))) =
                data.map(|data| Incoming::decode(data, Encoding::Json))
            {
                self.ids.retain(|id| Some(id) != response.id.as_ref());
            }
        }
    }
}

/// Answers requests whose node died before it did.
fn lost(ids: &[RequestId]) -> HttpResponse {
    match ids {
        [id] => json(StatusCode::OK, error_message(id)),
        [] => {
            let mut body = Vec::new();
            write::error(&mut body, Encoding::Json, None, &gone(), Revision::BASE);
            json(StatusCode::BAD_GATEWAY, body)
        }
        ids => {
            let messages: Vec<_> = ids.iter().map(error_message).collect();
            let mut body = b"[".to_vec();
            body.extend(messages.join(&b','));
            body.push(b']');
            json(StatusCode::OK, body)
        }
    }
}

/// Encodes the reply to a call of a node that is gone.
pub(crate) fn error_message(id: &RequestId) -> Vec<u8> {
    let mut message = Vec::new();
    write::error(&mut message, Encoding::Json, Some(id), &gone(), Revision::BASE);
    message
}

fn gone() -> RpcError {
    RpcError::new(INTERNAL_ERROR).with("reason", "node").details(
        "The node that ran this call is gone, and its result is lost. The call may have had effects; \
         sessions of flows continue on another node.",
    )
}

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Headers that are forwarded. The host is that of the client, for links.
const FORWARDED: [HeaderName; 9] = [
    ACCEPT,
    CONTENT_TYPE,
    HOST,
    IF_RANGE,
    RANGE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("traceparent"),
];

/// Time between two looks at whether a node is alive.
const CHECK: Duration = Duration::from_millis(250);
