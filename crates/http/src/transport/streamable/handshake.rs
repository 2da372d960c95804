//! Streamable HTTP with sessions, which begin with `initialize` (2025-03-26 to 2025-11-25).

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue};
use mcp_flow_proto::error::NOT_INITIALIZED;
use mcp_flow_proto::{Incoming, Message, RpcError};
use mcp_flow_server::{Connection, OpenedFrame, Principal};

use super::bad_request;
use super::headers::{LAST_EVENT, SESSION, check_accepts_events, text};
use crate::response::{HttpResponse, busy, empty, events, json, rejection, reply, reply_then};
use crate::service::Service;
use crate::transport::event_log::parse_id;
use crate::transport::session::HttpSession;
use crate::transport::sessions::{TransportSession, new_id};

/// Handles a POST.
pub(super) async fn handle_post(
    service: &Arc<Service>,
    headers: &HeaderMap,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: Principal,
) -> HttpResponse {
    match (text(headers, SESSION), &incoming) {
        (Some(id), _) => match service.sessions.find(id, &principal) {
            Some(session) => exchange(service, session, incoming, opened, &principal).await,
            None => unknown_session(),
        },
        (None, Incoming::Message(Message::Notification(_) | Message::Response(_))) => {
            let details = "send Mcp-Session-Id, or begin a session with initialize";
            let error = RpcError::new(NOT_INITIALIZED).details(details);
            rejection(StatusCode::BAD_REQUEST, &error)
        }
        (None, _) => open(service, headers, incoming, opened, principal).await,
    }
}

/// Handles a POST without a session id: `initialize` opens a session, other requests are rejected by
/// the connection.
async fn open(
    service: &Arc<Service>,
    headers: &HeaderMap,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: Principal,
) -> HttpResponse {
    let connection = match service.connect("http", principal, headers) {
        Ok(connection) => connection,
        Err(rejection) => return rejection,
    };
    if let Err(error) = connection.join(opened) {
        return rejection(StatusCode::FORBIDDEN, &error);
    }
    connection.receive_decoded(incoming, opened);
    let Some(segment) = connection.output().await else { return empty(StatusCode::ACCEPTED) };
    let status = match segment.error_code() {
        Some(-32600) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let mut response = reply(status, segment);
    if connection.revision().is_none() {
        return response;
    }
    let Some(session) = start_session(service, connection) else {
        return busy(&RpcError::invalid_request("too many sessions are open; try again later"));
    };
    let id = HeaderValue::from_str(session.id()).expect("an id is plain text");
    response.headers_mut().insert(SESSION, id);
    response
}

/// Adds a session and drives it until it ends. Returns `None` if the session limit is reached.
fn start_session(service: &Arc<Service>, connection: Connection) -> Option<Arc<HttpSession>> {
    let session = HttpSession::new(new_id(), connection, service.options.replay_bytes);
    if !service.sessions.add(session.id(), session.clone()) {
        return None;
    }
    // Draining may have ended all sessions before this one was added.
    if service.tasks.draining().is_cancelled() {
        session.end();
    }
    let (driven, kept) = (session.clone(), service.clone());
    service.tasks.spawn(async move {
        driven.drive().await;
        kept.sessions.remove(driven.id());
    });
    Some(session)
}

/// Passes messages to a session's connection. The response is one JSON message if the reply comes
/// first, and an event stream otherwise.
async fn exchange(
    service: &Arc<Service>,
    session: Arc<HttpSession>,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: &Principal,
) -> HttpResponse {
    if let Err(error) = session.connection.join(opened) {
        return rejection(StatusCode::FORBIDDEN, &error);
    }
    session.touch();
    if !session.connection.accepts_input() {
        return busy(&RpcError::invalid_request("too many calls wait already; try again later"));
    }
    let keep_alive = service.options.keep_alive;
    let is_batch = matches!(incoming, Incoming::Batch(_));
    let exchange = session.connection.exchange(incoming, opened, principal);
    let primes = session.primes();
    let first = match exchange.take_output() {
        // Most replies are ready at once and need no timer.
        Some(segment) => Ok(Some(segment)),
        None => tokio::select! {
            biased;
            first = tokio::time::timeout(keep_alive, exchange.output()) => first,
            () = exchange.close_requested(), if primes => {
                let log = session.new_log();
                let response = events(log.read_after(0, primes, keep_alive));
                log.disconnect_reader();
                service.tasks.spawn(async move { session.record(&log, exchange, None).await });
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
    let log = session.new_log();
    let response = events(log.read_after(0, primes, keep_alive));
    service.tasks.spawn(async move { session.record(&log, exchange, first).await });
    response
}

/// Handles a GET: opens the stream of unsolicited messages, or resumes one after `Last-Event-ID`.
pub(super) fn listen(
    service: &Arc<Service>,
    headers: &HeaderMap,
    principal: &Principal,
) -> HttpResponse {
    if let Err(rejection) = check_accepts_events(headers) {
        return rejection;
    }
    let session = match find(service, headers, principal) {
        Ok(session) => session,
        Err(rejection) => return rejection,
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
pub(super) fn end(
    service: &Arc<Service>,
    headers: &HeaderMap,
    principal: &Principal,
) -> HttpResponse {
    match find(service, headers, principal) {
        Ok(session) => {
            service.sessions.remove(session.id());
            // Calls that are still running are answered with an error.
            session.connection.close_now();
            empty(StatusCode::NO_CONTENT)
        }
        Err(rejection) => rejection,
    }
}

fn find(
    service: &Arc<Service>,
    headers: &HeaderMap,
    principal: &Principal,
) -> Result<Arc<HttpSession>, HttpResponse> {
    let Some(id) = text(headers, SESSION) else {
        return Err(bad_request("send Mcp-Session-Id"));
    };
    service.sessions.find(id, principal).ok_or_else(unknown_session)
}

fn unknown_session() -> HttpResponse {
    let error = RpcError::invalid_request("no such session; begin one with initialize");
    rejection(StatusCode::NOT_FOUND, &error)
}
