//! Streamable HTTP at `/mcp`, both eras: what all requests have in common, and where they part.
//!
//! `handshake` has the sessions of 2025-03-26 to 2025-11-25, `stateless` the requests of
//! 2026-07-28 that stand alone, `headers` what is asked of both, `mirror` whether headers repeat
//! what the body says.

mod handshake;
mod headers;
mod mirror;
mod stateless;

use std::sync::Arc;

use hyper::body::Incoming as RequestBody;
use hyper::{HeaderMap, Method, Request, StatusCode};
use mcp_flow_proto::{Encoding, Incoming, Message, Revision, RpcError};
use mcp_flow_server::{OpenedFrame, Principal};

use crate::answer::{Answer, AnswerBody, refusal, refusal_to, wrong_method};
use crate::body;
use crate::service::Service;

pub(crate) async fn answer(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> Answer {
    if request.method() == Method::POST {
        return post(service, request, principal).await;
    }
    let version = headers::version(request.headers());
    let answer = match (request.method(), version) {
        (&Method::GET | &Method::DELETE, Some(Err(name))) => unknown_version(service, None, &name),
        // A stateless revision has neither streams nor sessions to ask for.
        (&Method::GET | &Method::DELETE, Some(Ok(version))) if version.is_stateless() => {
            wrong_method("POST")
        }
        (&Method::GET, _) => handshake::listen(service, request.headers(), &principal),
        (&Method::DELETE, _) => handshake::end(service, request.headers(), &principal),
        _ => wrong_method("GET, POST, DELETE"),
    };
    body::discard(service, request.into_body());
    answer
}

async fn post(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> Answer {
    let (head, body) = request.into_parts();
    if let Err(refusal) = headers::check_media(&head.headers) {
        body::discard(service, body);
        return refusal;
    }
    let (frame, _held) = match body::read(service, body).await {
        Ok(frame) => frame,
        Err(refusal) => return refusal,
    };
    let opened = match service.server.open_frame(&frame) {
        Ok(opened) => opened,
        Err(error) => return unsigned(&frame, &error),
    };
    let mut answer = take_up(service, &head.headers, &opened, principal).await;
    // What a connection says it has signed itself; refusals before there is one are signed here.
    if let (Some(_), AnswerBody::Whole(Some(body))) = (service.server.signing(), answer.body_mut())
    {
        let signed = opened.sign(service.server.signing(), std::mem::take(body).into());
        *body = signed.into();
    }
    answer
}

/// Answers what a POST holds, once it is known to be as it was sent.
async fn take_up(
    service: &Arc<Service>,
    headers: &HeaderMap,
    opened: &OpenedFrame<'_>,
    principal: Principal,
) -> Answer {
    let incoming = match Incoming::decode(opened.message(), Encoding::Json) {
        Ok(incoming) => incoming,
        Err(unreadable) => {
            let id = unreadable.id.as_ref();
            return refusal_to(StatusCode::BAD_REQUEST, id, &unreadable.error, Revision::BASE);
        }
    };
    let may_stand_alone = service.server.versions().serves_statelessly();
    let version = match headers::version(headers) {
        Some(Err(name)) => return unknown_version(service, Some(&incoming), &name),
        Some(Ok(version)) if version.is_stateless() && !may_stand_alone => {
            return unknown_version(service, Some(&incoming), version.name());
        }
        Some(Ok(version)) => Some(version),
        None => None,
    };
    let stands_alone = match &incoming {
        Incoming::Message(Message::Request(request)) => {
            version.is_some_and(Revision::is_stateless) || request.is_stateless() && may_stand_alone
        }
        Incoming::Message(_) => version.is_some_and(Revision::is_stateless),
        Incoming::Batch(_) => false,
    };
    if stands_alone {
        stateless::answer(service, headers, incoming, opened, principal).await
    } else {
        handshake::answer(service, headers, incoming, opened, principal).await
    }
}

/// 403, because a message is not signed, or not as it should be (MCP-073). One who does not sign is
/// to learn it as the answer to the request.
pub(crate) fn unsigned(frame: &[u8], error: &RpcError) -> Answer {
    let id = match Incoming::decode(frame, Encoding::Json) {
        Ok(Incoming::Message(Message::Request(request))) => Some(request.id),
        _ => None,
    };
    refusal_to(StatusCode::FORBIDDEN, id.as_ref(), error, Revision::BASE)
}

/// Answers a request whose header names a version nobody here knows.
fn unknown_version(service: &Service, incoming: Option<&Incoming<'_>>, name: &str) -> Answer {
    let id = match incoming {
        Some(Incoming::Message(Message::Request(request))) => Some(&request.id),
        _ => None,
    };
    let supported = service.server.versions().supported_statelessly();
    let error = RpcError::unsupported_version(&name.into(), &supported);
    refusal_to(StatusCode::BAD_REQUEST, id, &error, Revision::V2026_07_28)
}

/// 400, because of the request's envelope rather than what it asks for.
fn bad_request(details: &str) -> Answer {
    refusal(StatusCode::BAD_REQUEST, &RpcError::invalid_request(details))
}
