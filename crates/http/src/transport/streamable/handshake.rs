//! Streamable HTTP with sessions, which begin with `initialize` (2025-03-26 to 2025-11-25).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use mcp_flow_proto::error::{NOT_INITIALIZED, OVERLOADED};
use mcp_flow_proto::{Incoming, Message, RequestId, RpcError};
use mcp_flow_server::connection::{DecodedFrame, Exchange};
use mcp_flow_server::{Connection, Principal, Segment};
use serde_json::Value;

use super::headers::{LAST_EVENT, SESSION, check_accepts_events, text};
use super::location::{Location, locate, wait_for_release};
use super::{Posted, bad_request};
use crate::cluster::relay::{self, RelayedRequest, Unreachable};
use crate::cluster::session_record::SessionRecord;
use crate::cluster::{ClusterNodes, new_node_id};
use crate::response::{HttpResponse, busy, empty, events, json, rejection, reply, reply_then};
use crate::service::Service;
use crate::transport::event_log::{EventLog, parse_id};
use crate::transport::session::HttpSession;
use crate::transport::sessions::TransportSession;

/// Handles a POST.
pub(super) async fn handle_post(
    service: &Arc<Service>,
    posted: &Posted<'_>,
    frame: DecodedFrame<'_>,
    principal: Principal,
) -> HttpResponse {
    let headers = &posted.head.headers;
    match (text(headers, SESSION), frame.incoming()) {
        (Some(_), incoming) => {
            let ids = || request_ids(incoming);
            match find(service, posted.head, posted.body, &principal, ids).await {
                Ok(session) => exchange(service, session, frame, posted, &principal).await,
                Err(response) => response,
            }
        }
        (None, Incoming::Message(Message::Notification(_) | Message::Response(_))) => {
            let details = "send Mcp-Session-Id, or begin a session with initialize";
            let error = RpcError::new(NOT_INITIALIZED).details(details);
            rejection(StatusCode::BAD_REQUEST, &error)
        }
        (None, _) => open(service, posted, frame, principal).await,
    }
}

/// Handles a POST without a session id: `initialize` opens a session, other requests are rejected by
/// the connection.
async fn open(
    service: &Arc<Service>,
    posted: &Posted<'_>,
    frame: DecodedFrame<'_>,
    principal: Principal,
) -> HttpResponse {
    let id = new_node_id(service.cluster.as_deref());
    let connection = match service.connect("http", Some(&id), principal, &posted.head.headers) {
        Ok(connection) => connection,
        Err(rejection) => return rejection,
    };
    if let Err(error) = connection.receive_decoded(frame, posted.arrival) {
        return rejection(StatusCode::FORBIDDEN, &error);
    }
    let Some(segment) = connection.output().await else { return empty(StatusCode::ACCEPTED) };
    let status = match segment.error_code() {
        Some(-32600) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let mut response = reply(status, segment);
    if connection.revision().is_none() {
        return response;
    }
    let Some(session) = start_session(service, id, connection) else {
        return busy(&RpcError::invalid_request("too many sessions are open; try again later"));
    };
    // Signed messages cannot be repeated, so those sessions stay where they are.
    if let Some(cluster) = service.cluster.as_ref().filter(|_| service.server.signing().is_none()) {
        let principal = session.connection.principal().name();
        let record = SessionRecord::new(principal, posted.body);
        session.share(&**cluster, record, service.record_lifetime()).await;
    }
    let id = HeaderValue::from_str(session.id()).expect("an id is plain text");
    response.headers_mut().insert(SESSION, id);
    response
}

/// Adds a session and drives it until it ends. Returns `None` if the session limit is reached.
fn start_session(
    service: &Arc<Service>,
    id: String,
    connection: Connection,
) -> Option<Arc<HttpSession>> {
    let session = HttpSession::new(id, connection, service.options.replay_bytes);
    if !service.sessions.add(session.id(), session.clone()) {
        return None;
    }
    drive_session(service, &session);
    Some(session)
}

/// Drives a session until it ends. If that is because this node drains, others may continue it.
pub(super) fn drive_session(service: &Arc<Service>, session: &Arc<HttpSession>) {
    // Draining may have ended all sessions before this one was added.
    if service.tasks.draining().is_cancelled() {
        session.end();
    }
    let (driven, kept) = (session.clone(), service.clone());
    service.tasks.spawn(async move {
        driven.drive().await;
        kept.sessions.remove(driven.id());
        if let Some(cluster) = &kept.cluster {
            let is_draining = kept.tasks.draining().is_cancelled();
            driven.give_up(&**cluster, is_draining, kept.record_lifetime()).await;
        }
    });
}

/// Passes messages to a session's connection. The response is one JSON message if the reply comes
/// first, and an event stream otherwise.
async fn exchange(
    service: &Arc<Service>,
    session: Arc<HttpSession>,
    frame: DecodedFrame<'_>,
    posted: &Posted<'_>,
    principal: &Principal,
) -> HttpResponse {
    session.touch();
    if !session.connection.accepts_input() {
        return busy(&RpcError::invalid_request("too many calls wait already; try again later"));
    }
    let keep_alive = service.options.keep_alive;
    let is_batch = matches!(frame.incoming(), Incoming::Batch(_));
    let shared = service.cluster.clone().map(|cluster| (cluster, service.record_lifetime()));
    let mut ids = Vec::new();
    if let Some((cluster, lifetime)) = &shared {
        // Records are of sessions without signatures, so that the body is the message.
        if session.observe(frame.incoming(), posted.body) || session.is_record_old(*lifetime) {
            let (session, cluster, lifetime) = (session.clone(), cluster.clone(), *lifetime);
            service.tasks.spawn(async move { session.save(&*cluster, lifetime).await });
        }
        ids = request_ids(frame.incoming());
    }
    let exchange = match session.connection.exchange(frame, principal, posted.arrival) {
        Ok(exchange) => exchange,
        Err(error) => return rejection(StatusCode::FORBIDDEN, &error),
    };
    let primes = session.primes();
    let first = match exchange.take_output() {
        // Most replies are ready at once and need no timer.
        Some(segment) => Ok(Some(segment)),
        None => tokio::select! {
            biased;
            first = tokio::time::timeout(keep_alive, exchange.output()) => first,
            () = exchange.close_requested(), if primes => {
                let log = new_log(&session, &shared, ids).await;
                let response = events(log.read_after(0, primes, keep_alive));
                log.disconnect_reader();
                record(service, session, log, exchange, None, shared);
                return response;
            }
        },
    };
    let first = match first {
        Ok(None) => return empty(StatusCode::ACCEPTED),
        Ok(Some(segment)) if exchange.is_over() && segment.count() == 1 => {
            session.touch();
            // One error for the whole batch: it is empty, or the revision has no batches.
            if is_batch && segment.error_code().is_some() {
                return json(StatusCode::BAD_REQUEST, segment.into_message());
            }
            return reply_then(segment, exchange.take_flush_guards());
        }
        Ok(Some(segment)) => Some(segment),
        // No reply for a while: only an event stream can carry keep-alives.
        Err(_) => None,
    };
    let log = new_log(&session, &shared, ids).await;
    let response = events(log.read_after(0, primes, keep_alive));
    record(service, session, log, exchange, first, shared);
    response
}

type SharedWith = Option<(Arc<dyn ClusterNodes>, Duration)>;

/// Creates the log of calls that are answered by an event stream. If this node dies, another answers
/// them, so their ids are in the store first.
async fn new_log(session: &HttpSession, shared: &SharedWith, ids: Vec<RequestId>) -> Arc<EventLog> {
    let log = session.new_log();
    if let Some((cluster, lifetime)) = shared
        && session.begin_calls(log.number(), ids)
    {
        session.save(&**cluster, *lifetime).await;
    }
    log
}

/// Records the output of an exchange in the background.
fn record(
    service: &Service,
    session: Arc<HttpSession>,
    log: Arc<EventLog>,
    exchange: Exchange,
    first: Option<Segment>,
    shared: SharedWith,
) {
    service.tasks.spawn(async move {
        let shared = shared.as_ref().map(|(cluster, lifetime)| (&**cluster, *lifetime));
        session.record_shared(&log, exchange, first, shared).await;
    });
}

/// Returns the ids of the requests in a message or batch.
fn request_ids(incoming: &Incoming<'_>) -> Vec<RequestId> {
    match incoming {
        Incoming::Message(Message::Request(request)) => vec![request.id.clone()],
        Incoming::Message(_) => Vec::new(),
        Incoming::Batch(batch) => {
            let batch: Vec<Value> = serde_json::from_slice(batch.bytes()).unwrap_or_default();
            let requests = batch.into_iter().filter(|message| message.get("method").is_some());
            let ids = requests.filter_map(|mut message| Some(message.get_mut("id")?.take()));
            ids.filter_map(|id| serde_json::from_value(id).ok()).collect()
        }
    }
}

/// Handles a GET: opens the stream of unsolicited messages, or resumes one after `Last-Event-ID`.
pub(super) async fn listen(
    service: &Arc<Service>,
    head: &Parts,
    principal: &Principal,
) -> HttpResponse {
    let headers = &head.headers;
    if let Err(rejection) = check_accepts_events(headers) {
        return rejection;
    }
    let session = match find(service, head, &Bytes::new(), principal, Vec::new).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    session.touch();
    let keep_alive = service.options.keep_alive;
    let Some(last) = text(headers, LAST_EVENT) else {
        let common = session.common_log();
        return events(common.read_after(common.position(), session.primes(), keep_alive));
    };
    let resumed =
        parse_id(last).and_then(|(number, event)| Some((session.find_log(number)?, event)));
    match resumed {
        Some((log, event)) => events(log.read_after(event, false, keep_alive)),
        None => {
            let error = "the stream of Last-Event-ID is not kept any more; open one without it";
            bad_request(error)
        }
    }
}

/// Handles a DELETE: ends the session.
pub(super) async fn end(
    service: &Arc<Service>,
    head: &Parts,
    principal: &Principal,
) -> HttpResponse {
    match find(service, head, &Bytes::new(), principal, Vec::new).await {
        Ok(session) => {
            service.sessions.remove(session.id());
            if let Some(cluster) = &service.cluster {
                session.give_up(&**cluster, false, service.record_lifetime()).await;
            }
            // Calls that are still running are answered with an error.
            session.connection.close_now();
            empty(StatusCode::NO_CONTENT)
        }
        Err(response) => response,
    }
}

/// Finds the session of a request. If another node holds it, that node answers; if that node is
/// gone, the session is continued here.
async fn find(
    service: &Arc<Service>,
    head: &Parts,
    body: &Bytes,
    principal: &Principal,
    ids: impl Fn() -> Vec<RequestId>,
) -> Result<Arc<HttpSession>, HttpResponse> {
    let Some(id) = text(&head.headers, SESSION) else {
        return Err(bad_request("send Mcp-Session-Id"));
    };
    let mut silent = None;
    for _ in 0..ATTEMPTS {
        let node = match locate(service, &head.headers, id, principal, silent).await {
            Location::Here(session) => return Ok(session),
            Location::There(node) => node,
            Location::Unknown => return Err(unknown_session()),
            Location::Unavailable => return Err(busy(&store_unavailable())),
        };
        let Some(cluster) = &service.cluster else { return Err(unknown_session()) };
        let ids = ids();
        let request = RelayedRequest { ids: &ids, ..RelayedRequest::new(head, body, principal) };
        match relay::forward(cluster, node, request).await {
            Ok(response) => return Err(response),
            Err(Unreachable::NoUrl) => return Err(unknown_session()),
            Err(Unreachable::Silent) => {
                // A node that is alive and does not answer will not answer the next attempt either.
                if !wait_for_release(service, id, node).await {
                    break;
                }
                silent = Some(node);
            }
        }
    }
    Err(busy(&store_unavailable()))
}

fn store_unavailable() -> RpcError {
    RpcError::new(OVERLOADED)
        .retry_after(Duration::from_secs(1))
        .with("reason", "node")
        .details("The node of this session cannot be reached at the moment. Try again.")
}

fn unknown_session() -> HttpResponse {
    let error = RpcError::invalid_request("no such session; begin one with initialize");
    rejection(StatusCode::NOT_FOUND, &error)
}

/// Attempts to reach the node of a session, which may change meanwhile.
const ATTEMPTS: usize = 3;
