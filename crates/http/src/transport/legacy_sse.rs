//! HTTP+SSE, the transport of 2024-11-05: an event stream at `/sse`, messages posted to `/messages`
//! (MCP-041 to MCP-049, C-35).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Incoming as RequestBody;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use mcp_flow_proto::RpcError;
use mcp_flow_server::connection::FrameArrival;
use mcp_flow_server::{Connection, Principal};

use super::sessions::TransportSession;
use super::{posted, sse};
use crate::cluster::credential::ForwardedRequest;
use crate::cluster::new_node_id;
use crate::cluster::relay::{self, RelayedRequest};
use crate::limits::request_body;
use crate::response::{HttpResponse, busy, empty, events, method_not_allowed, rejection};
use crate::service::{Service, not_found};

/// A session, which lives as long as its event stream.
#[derive(Debug)]
pub(crate) struct LegacySession {
    connection: Connection,
    /// Path prefix it was opened under, as the server and as the client sees it.
    prefixes: [String; 2],
}

impl LegacySession {
    /// Returns whether messages may be posted to it under this prefix.
    fn is_under(&self, prefix: &str) -> bool {
        self.prefixes.iter().any(|known| known == prefix)
    }
}

impl TransportSession for LegacySession {
    fn principal(&self) -> &Principal {
        self.connection.principal()
    }

    /// Never idle: its stream is open, or it would have been removed (C-47).
    fn idle(&self) -> Option<Duration> {
        None
    }

    fn end(&self) {
        self.connection.end_of_input();
    }
}

/// Returns whether a path is an endpoint of this transport, under any prefix: behind a proxy it
/// announces the client's prefix. Messages are accepted under announced prefixes only (MCP-023).
pub(crate) fn is_endpoint(path: &str) -> bool {
    let prefix = path.strip_suffix(STREAM).or_else(|| path.strip_suffix(MESSAGES));
    prefix.is_some_and(|prefix| prefix.is_empty() || is_plain(prefix))
}

/// Handles a request to `/sse` or `/messages`.
pub(crate) async fn handle(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> HttpResponse {
    let is_stream = request.uri().path().ends_with(STREAM);
    match (is_stream, request.method()) {
        (true, &Method::GET) => open(service, &request, principal),
        (true, _) => method_not_allowed("GET"),
        (false, &Method::POST) => post(service, request, &principal).await,
        (false, _) => method_not_allowed("POST"),
    }
}

/// Opens a session, whose first event names the URL to post to.
fn open(
    service: &Arc<Service>,
    request: &Request<RequestBody>,
    principal: Principal,
) -> HttpResponse {
    let connection = match service.connect("sse", None, principal, request.headers()) {
        Ok(connection) => connection,
        Err(rejection) => return rejection,
    };
    let id = new_node_id(service.cluster.as_deref());
    let own = request.uri().path().strip_suffix(STREAM).unwrap_or_default();
    let seen = format!("{}{own}", forwarded_prefix(request.headers()));
    let endpoint = format!("{seen}{MESSAGES}?sessionId={id}");
    let session = Arc::new(LegacySession { connection, prefixes: [own.to_owned(), seen] });
    if !service.legacy_sessions.add(&id, session.clone()) {
        return busy(&RpcError::invalid_request("too many sessions are open; try again later"));
    }
    let first = sse::event(Some("endpoint"), None, endpoint.as_bytes());
    let open = OpenStream { service: service.clone(), id, session };
    events(event_stream(open, first, service.options.keep_alive))
}

/// Returns the path prefix that a proxy has stripped, from `X-Forwarded-Prefix`.
fn forwarded_prefix(headers: &HeaderMap) -> &str {
    let prefix = headers.get("x-forwarded-prefix").and_then(|prefix| prefix.to_str().ok());
    let prefix = prefix.map(|prefix| prefix.trim_end_matches('/'));
    prefix.filter(|prefix| is_plain(prefix)).unwrap_or_default()
}

/// Returns whether a path needs no escaping and cannot name another host.
fn is_plain(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
    let is_whole = path.starts_with('/') && !path.ends_with('/') && !path.contains("//");
    is_whole && path.bytes().all(plain)
}

/// Removes the session when its stream is dropped, which is how a client disconnects (MCP-009).
struct OpenStream {
    service: Arc<Service>,
    id: String,
    session: Arc<LegacySession>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.service.legacy_sessions.remove(&self.id);
        self.session.connection.stop();
    }
}

fn event_stream(
    open: OpenStream,
    first: Bytes,
    keep_alive: Duration,
) -> impl Stream<Item = Bytes> + Send + 'static {
    futures_util::stream::unfold((Some(first), open), move |(first, open)| async move {
        if let Some(first) = first {
            return Some((first, (None, open)));
        }
        let connection = &open.session.connection;
        let event = match tokio::time::timeout(keep_alive, connection.output()).await {
            Ok(Some(segment)) => {
                let text = sse::messages(segment.messages());
                connection.recycle(segment);
                text
            }
            Ok(None) => return None,
            Err(_) => sse::KEEP_ALIVE,
        };
        Some((event, (None, open)))
    })
}

/// Passes a message to the session and returns 202; the reply arrives on the event stream.
async fn post(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: &Principal,
) -> HttpResponse {
    let arrival = FrameArrival::now();
    if let Some(id) = session_id(request.uri())
        && let Some((cluster, node)) = service.node_of(id, request.headers())
    {
        let (head, body) = request.into_parts();
        let (frame, _held) = match request_body::read(service, body).await {
            Ok(frame) => frame,
            Err(rejection) => return rejection,
        };
        let forwarded = RelayedRequest::new(&head, &frame, principal);
        let forwarded = relay::forward(cluster, node, forwarded).await;
        return forwarded.unwrap_or_else(|_| unknown_session());
    }
    let session = match find(service, request.uri(), principal) {
        Ok(session) => session,
        Err(rejection) => {
            request_body::discard(service, request.into_body());
            return rejection;
        }
    };
    let forwarded = request.extensions().get::<ForwardedRequest>().cloned();
    let (head, body) = request.into_parts();
    let (frame, _held) = match request_body::read(service, body).await {
        Ok(frame) => frame,
        Err(rejection) => return rejection,
    };
    if let Some(rejection) = forwarded.and_then(|forwarded| forwarded.reject_other_body(&frame)) {
        return rejection;
    }
    let frame = match posted::decode(&service.server, &head.headers, &frame) {
        Ok(frame) => frame,
        Err(rejection) => return rejection,
    };
    if !session.connection.accepts_input() {
        return busy(&RpcError::invalid_request("replies are not being read; read the stream"));
    }
    match session.connection.receive_decoded(frame, arrival) {
        Ok(()) => empty(StatusCode::ACCEPTED),
        Err(error) => rejection(StatusCode::FORBIDDEN, &error),
    }
}

/// Returns the session that the URL names.
fn find(
    service: &Service,
    uri: &Uri,
    principal: &Principal,
) -> Result<Arc<LegacySession>, HttpResponse> {
    let prefix = uri.path().strip_suffix(MESSAGES).unwrap_or_default();
    let id = session_id(uri);
    let session = id.and_then(|id| service.legacy_sessions.find(id, principal));
    match session {
        Some(session) if session.is_under(prefix) => Ok(session),
        _ if !prefix.is_empty() => Err(not_found(uri.path())),
        _ if id.is_none() => {
            let error = "the address lacks ?sessionId=; post to the one the endpoint event gave";
            Err(rejection(StatusCode::BAD_REQUEST, &RpcError::invalid_request(error)))
        }
        _ => Err(unknown_session()),
    }
}

/// Returns the id of the session that the URL names.
fn session_id(uri: &Uri) -> Option<&str> {
    let query = uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    id.filter(|id| !id.is_empty())
}

fn unknown_session() -> HttpResponse {
    let error = RpcError::invalid_request("no such session; open /sse to begin one");
    rejection(StatusCode::NOT_FOUND, &error)
}

const STREAM: &str = "/sse";
const MESSAGES: &str = "/messages";
