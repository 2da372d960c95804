//! The transport of 2024-11-05: a stream of events at `/sse`, messages posted to `/messages`
//! (MCP-041 to MCP-049, C-35).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Incoming as RequestBody;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use mcp_flow_proto::{Encoding, Incoming, Revision, RpcError};
use mcp_flow_server::{Connection, Principal};

use crate::answer::{Answer, busy, empty, events, refusal, refusal_to, wrong_method};
use crate::service::{Service, nothing_at};
use crate::sessions::{Keepable, new_id};
use crate::streamable::unsigned;
use crate::{body, sse};

/// A session lives as long as its stream of events.
#[derive(Debug)]
pub(crate) struct LegacySession {
    connection: Connection,
    /// The prefix of the address it was opened at, as the server and as the client sees it.
    prefixes: [String; 2],
}

impl LegacySession {
    /// Whether messages may be posted to it under this prefix.
    fn is_under(&self, prefix: &str) -> bool {
        self.prefixes.iter().any(|known| known == prefix)
    }
}

impl Keepable for LegacySession {
    fn principal(&self) -> &Principal {
        self.connection.principal()
    }

    /// Its stream is open, or it would not be here (C-47).
    fn idle(&self) -> Option<Duration> {
        None
    }

    fn end(&self) {
        self.connection.end_of_input();
    }
}

/// Whether this transport is at a path: under any prefix, since behind a proxy it has to announce
/// the one it is seen under. Messages are then taken under announced prefixes only (MCP-023).
pub(crate) fn is_at(path: &str) -> bool {
    let prefix = path.strip_suffix(STREAM).or_else(|| path.strip_suffix(MESSAGES));
    prefix.is_some_and(|prefix| prefix.is_empty() || is_plain(prefix))
}

pub(crate) async fn answer(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> Answer {
    let is_stream = request.uri().path().ends_with(STREAM);
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
    let own = request.uri().path().strip_suffix(STREAM).unwrap_or_default();
    let seen = format!("{}{own}", forwarded_prefix(request.headers()));
    let endpoint = format!("{seen}{MESSAGES}?sessionId={id}");
    let session = Arc::new(LegacySession { connection, prefixes: [own.to_owned(), seen] });
    if !service.legacy_sessions.add(&id, session.clone()) {
        return busy(&RpcError::invalid_request("too many sessions are open; try again later"));
    }
    let first = sse::event(Some("endpoint"), None, endpoint.as_bytes());
    let open = OpenStream { service: service.clone(), id, session };
    events(stream(open, first, service.options.keep_alive))
}

/// What a proxy says it has taken away from the front of the path.
fn forwarded_prefix(headers: &HeaderMap) -> &str {
    let prefix = headers.get("x-forwarded-prefix").and_then(|prefix| prefix.to_str().ok());
    let prefix = prefix.map(|prefix| prefix.trim_end_matches('/'));
    prefix.filter(|prefix| is_plain(prefix)).unwrap_or_default()
}

/// Whether a path can be announced as it is, and means a place on this host.
fn is_plain(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
    let is_whole = path.starts_with('/') && !path.ends_with('/') && !path.contains("//");
    is_whole && path.bytes().all(plain)
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
    let session = match find(service, request.uri(), principal) {
        Ok(session) => session,
        Err(refusal) => {
            body::discard(service, request.into_body());
            return refusal;
        }
    };
    let (frame, _held) = match body::read(service, request.into_body()).await {
        Ok(frame) => frame,
        Err(refusal) => return refusal,
    };
    let opened = match service.server.open_frame(&frame) {
        Ok(opened) => opened,
        Err(error) => return unsigned(&frame, &error),
    };
    if let Err(error) = session.connection.join(&opened) {
        return refusal(StatusCode::FORBIDDEN, &error);
    }
    let incoming = match Incoming::decode(opened.message(), Encoding::Json) {
        Ok(incoming) => incoming,
        Err(unreadable) => {
            let id = unreadable.id.as_ref();
            return refusal_to(StatusCode::BAD_REQUEST, id, &unreadable.error, Revision::BASE);
        }
    };
    if !session.connection.accepts_input() {
        return busy(&RpcError::invalid_request("replies are not being read; read the stream"));
    }
    session.connection.receive_decoded(incoming, &opened);
    empty(StatusCode::ACCEPTED)
}

/// The session an address names.
fn find(
    service: &Service,
    address: &Uri,
    principal: &Principal,
) -> Result<Arc<LegacySession>, Answer> {
    let prefix = address.path().strip_suffix(MESSAGES).unwrap_or_default();
    let query = address.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let id = id.filter(|id| !id.is_empty());
    let session = id.and_then(|id| service.legacy_sessions.find(id, principal));
    let error = match session {
        Some(session) if session.is_under(prefix) => return Ok(session),
        _ if !prefix.is_empty() => return Err(nothing_at(address.path())),
        _ if id.is_none() => {
            let error = "the address lacks ?sessionId=; post to the one the endpoint event gave";
            return Err(refusal(StatusCode::BAD_REQUEST, &RpcError::invalid_request(error)));
        }
        _ => RpcError::invalid_request("no such session; open /sse to begin one"),
    };
    Err(refusal(StatusCode::NOT_FOUND, &error))
}

const STREAM: &str = "/sse";
const MESSAGES: &str = "/messages";
