//! Sessions that begin with `initialize`.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue};
use mcp_flow_proto::error::NOT_INITIALIZED;
use mcp_flow_proto::{Incoming, Message, RpcError};
use mcp_flow_server::{Connection, OpenedFrame, Principal};

use super::bad_request;
use super::headers::{LAST_EVENT, SESSION, check_accepts_events, text};
use crate::answer::{Answer, busy, empty, events, json, refusal, reply, reply_keeping};
use crate::service::Service;
use crate::session::Session;
use crate::sessions::{Keepable, new_id};
use crate::stream::parse_id;

/// Answers a POST.
pub(super) async fn answer(
    service: &Arc<Service>,
    headers: &HeaderMap,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: Principal,
) -> Answer {
    match (text(headers, SESSION), &incoming) {
        (Some(id), _) => match service.sessions.find(id, &principal) {
            Some(session) => exchange(service, session, incoming, opened, &principal).await,
            None => unknown_session(),
        },
        (None, Incoming::Message(Message::Notification(_) | Message::Response(_))) => {
            let details = "send Mcp-Session-Id, or begin a session with initialize";
            let error = RpcError::new(NOT_INITIALIZED).details(details);
            refusal(StatusCode::BAD_REQUEST, &error)
        }
        (None, _) => open(service, headers, incoming, opened, principal).await,
    }
}

/// Answers what comes without a session: `initialize` begins one, and little else is served.
async fn open(
    service: &Arc<Service>,
    headers: &HeaderMap,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: Principal,
) -> Answer {
    let connection = match service.connect("http", principal, headers) {
        Ok(connection) => connection,
        Err(refusal) => return refusal,
    };
    if let Err(error) = connection.join(opened) {
        return refusal(StatusCode::FORBIDDEN, &error);
    }
    connection.receive_decoded(incoming, opened);
    let Some(segment) = connection.output().await else { return empty(StatusCode::ACCEPTED) };
    let status = match segment.error_code() {
        Some(-32600) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let mut answer = reply(status, segment);
    if connection.revision().is_none() {
        return answer;
    }
    let Some(session) = keep(service, connection) else {
        return busy(&RpcError::invalid_request("too many sessions are open; try again later"));
    };
    let id = HeaderValue::from_str(session.id()).expect("an id is plain text");
    answer.headers_mut().insert(SESSION, id);
    answer
}

fn keep(service: &Arc<Service>, connection: Connection) -> Option<Arc<Session>> {
    let session = Session::new(new_id(), connection, service.options.replay_bytes);
    if !service.sessions.add(session.id(), session.clone()) {
        return None;
    }
    // Whoever ends all sessions may have missed this one.
    if service.ending.is_cancelled() {
        session.end();
    }
    let (driven, kept) = (session.clone(), service.clone());
    service.spawn(async move {
        driven.drive().await;
        kept.sessions.remove(driven.id());
    });
    Some(session)
}

/// Takes a message in. What comes of it is one JSON message if nothing is pushed before, and a
/// stream of events otherwise.
async fn exchange(
    service: &Arc<Service>,
    session: Arc<Session>,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: &Principal,
) -> Answer {
    if let Err(error) = session.connection.join(opened) {
        return refusal(StatusCode::FORBIDDEN, &error);
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
        // Most answers are there already, and need no clock.
        Some(segment) => Ok(Some(segment)),
        None => tokio::select! {
            biased;
            first = tokio::time::timeout(keep_alive, exchange.output()) => first,
            () = exchange.close_requested(), if primes => {
                let stream = session.new_stream();
                let answer = events(stream.read_after(0, primes, keep_alive));
                stream.break_off();
                service.spawn(async move { session.fill(&stream, exchange, None).await });
                return answer;
            }
        },
    };
    let first = match first {
        Ok(None) => return empty(StatusCode::ACCEPTED),
        Ok(Some(segment)) if exchange.is_over() && segment.count() == 1 => {
            session.touch();
            // One error for a whole batch: the revision has none, or nothing was in it.
            if is_batch && segment.error_code().is_some() {
                return json(StatusCode::BAD_REQUEST, segment.into_message());
            }
            return reply_keeping(segment, exchange.take_flush_guards());
        }
        Ok(Some(segment)) => Some(segment),
        // Nothing for a while: a stream can show that it is alive, an answer cannot.
        Err(_) => None,
    };
    let stream = session.new_stream();
    let answer = events(stream.read_after(0, primes, keep_alive));
    service.spawn(async move { session.fill(&stream, exchange, first).await });
    answer
}

/// Answers a GET: the common stream, or one to be read on from where it broke off.
pub(super) fn listen(service: &Arc<Service>, headers: &HeaderMap, principal: &Principal) -> Answer {
    if let Err(refusal) = check_accepts_events(headers) {
        return refusal;
    }
    let session = match find(service, headers, principal) {
        Ok(session) => session,
        Err(refusal) => return refusal,
    };
    session.touch();
    let keep_alive = service.options.keep_alive;
    let Some(last) = text(headers, LAST_EVENT) else {
        let common = session.common_stream();
        return events(common.read_after(common.position(), session.primes(), keep_alive));
    };
    let resumed =
        parse_id(last).and_then(|(number, event)| Some((session.find_stream(number)?, event)));
    match resumed {
        Some((stream, event)) => events(stream.read_after(event, false, keep_alive)),
        None => {
            let error = "the stream of Last-Event-ID is not kept any more; open one without it";
            bad_request(error)
        }
    }
}

/// Answers a DELETE: the client needs its session no more.
pub(super) fn end(service: &Arc<Service>, headers: &HeaderMap, principal: &Principal) -> Answer {
    match find(service, headers, principal) {
        Ok(session) => {
            service.sessions.remove(session.id());
            // Whoever still waits for an answer is told that there will be none.
            session.connection.close_now();
            empty(StatusCode::NO_CONTENT)
        }
        Err(refusal) => refusal,
    }
}

fn find(
    service: &Arc<Service>,
    headers: &HeaderMap,
    principal: &Principal,
) -> Result<Arc<Session>, Answer> {
    let Some(id) = text(headers, SESSION) else {
        return Err(bad_request("send Mcp-Session-Id"));
    };
    service.sessions.find(id, principal).ok_or_else(unknown_session)
}

fn unknown_session() -> Answer {
    let error = RpcError::invalid_request("no such session; begin one with initialize");
    refusal(StatusCode::NOT_FOUND, &error)
}
