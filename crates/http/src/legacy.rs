//! The transport of 2024-11-05: a stream of events at `/sse`, messages posted to `/messages`
//! (MCP-041 to MCP-049, C-35).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Incoming as RequestBody;
use hyper::{HeaderMap, Method, Request, StatusCode};
use mcp_flow_proto::{Encoding, Incoming, Revision, RpcError};
use mcp_flow_server::{Connection, Principal};

use crate::answer::{Answer, busy, empty, events, refusal, refusal_to, wrong_method};
use crate::service::Service;
use crate::sessions::{Keepable, new_id};
use crate::{body, sse};

/// A session lives as long as its stream of events.
#[derive(Debug)]
pub(crate) struct LegacySession {
    connection: Connection,
}

impl Keepable for LegacySession {
    fn belongs_to(&self, principal: &Principal) -> bool {
        self.connection.principal() == principal
    }

    /// Its stream is open, or it would not be here (C-47).
    fn idle(&self) -> Option<Duration> {
        None
    }

    fn end(&self) {
        self.connection.end_of_input();
    }
}

pub(crate) async fn answer(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> Answer {
    let is_stream = request.uri().path().ends_with("/sse");
    match (is_stream, request.method()) {
        (true, &Method::GET) => open(service, &request, principal),
        (true, _) => wrong_method("GET"),
        (false, &Method::POST) => post(service, request, &principal).await,
        (false, _) => wrong_method("POST"),
    }
}

/// Opens a session: its first event says where to post to.
fn open(service: &Arc<Service>, request: &Request<RequestBody>, principal: Principal) -> Answer {
    let connection = match service.connect("sse", principal, request.headers()) {
        Ok(connection) => connection,
        Err(refusal) => return refusal,
    };
    let id = new_id();
    let session = Arc::new(LegacySession { connection });
    if !service.legacy_sessions.add(&id, session.clone()) {
        return busy(&RpcError::invalid_request("too many sessions are open; try again later"));
    }
    let prefix = prefix(request.headers(), request.uri().path());
    let endpoint = format!("{prefix}/messages?sessionId={id}");
    let first = sse::event(Some("endpoint"), None, endpoint.as_bytes());
    let open = OpenStream { service: service.clone(), id, session };
    events(stream(open, first, service.options.keep_alive))
}

/// The path the server is at from the client's point of view.
fn prefix(headers: &HeaderMap, path: &str) -> String {
    let forwarded = headers.get("x-forwarded-prefix").and_then(|prefix| prefix.to_str().ok());
    let forwarded = forwarded.map(|prefix| prefix.trim_end_matches('/'));
    let is_path = |prefix: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
        prefix.starts_with('/') && !prefix.starts_with("//") && prefix.bytes().all(plain)
    };
    let own = path.strip_suffix("/sse").unwrap_or_default();
    format!("{}{own}", forwarded.filter(is_path).unwrap_or_default())
}

/// Removes the session when its stream is dropped, which is how a client leaves (MCP-009).
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

fn stream(
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

/// Takes a message in and answers at once; the reply comes on the stream.
async fn post(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: &Principal,
) -> Answer {
    let bad = |details: &str| refusal(StatusCode::BAD_REQUEST, &RpcError::invalid_request(details));
    let query = request.uri().query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let Some(id) = id.filter(|id| !id.is_empty()).map(str::to_owned) else {
        body::discard(service, request.into_body());
        return bad("the address lacks ?sessionId=; post to the one the endpoint event gave");
    };
    let Some(session) = service.legacy_sessions.find(&id, principal) else {
        let error = RpcError::invalid_request("no such session; open /sse to begin one");
        body::discard(service, request.into_body());
        return refusal(StatusCode::NOT_FOUND, &error);
    };
    let frame = match body::read(service, request.into_body()).await {
        Ok(frame) => frame,
        Err(refusal) => return refusal,
    };
    if let Err(unreadable) = Incoming::decode(&frame, Encoding::Json) {
        let id = unreadable.id.as_ref();
        return refusal_to(StatusCode::BAD_REQUEST, id, &unreadable.error, Revision::BASE);
    }
    if !session.connection.accepts_input() {
        return busy(&RpcError::invalid_request("replies are not being read; read the stream"));
    }
    session.connection.receive(&frame);
    empty(StatusCode::ACCEPTED)
}
