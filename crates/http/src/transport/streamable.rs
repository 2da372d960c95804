//! Streamable HTTP at `/mcp`: decodes requests and selects the era.
//!
//! `handshake` serves the sessions of 2025-03-26 to 2025-11-25, `stateless` the self-contained
//! requests of 2026-07-28. `headers` checks the headers of both, `mirrored_headers` those that must
//! repeat the body. `location` finds sessions among the nodes of a cluster.

mod handshake;
mod headers;
mod location;
mod mirrored_headers;
mod stateless;

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming as RequestBody;
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use mcp_flow_proto::{Incoming, Message, Revision, RpcError};
use mcp_flow_server::Principal;
use mcp_flow_server::connection::{DecodedFrame, FrameArrival};

use super::posted;
use crate::cluster::credential::ForwardedRequest;
use crate::limits::request_body::{self, discard};
use crate::response::{HttpResponse, method_not_allowed, rejection, rejection_of};
use crate::service::Service;

/// Handles a request to `/mcp`.
pub(crate) async fn handle(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> HttpResponse {
    if request.method() == Method::POST {
        return post(service, request, principal).await;
    }
    let version = headers::version(request.headers());
    let response = match (request.method(), version) {
        (&Method::GET | &Method::DELETE, Some(Err(name))) => {
            unsupported_version(service, None, &name)
        }
        // Stateless revisions have neither event streams by GET nor sessions.
        (&Method::GET | &Method::DELETE, Some(Ok(version))) if version.is_stateless() => {
            method_not_allowed("POST")
        }
        (&Method::GET | &Method::DELETE, _) => {
            let (head, body) = request.into_parts();
            discard(service, body);
            return match head.method {
                Method::GET => handshake::listen(service, &head, &principal).await,
                _ => handshake::end(service, &head, &principal).await,
            };
        }
        _ => method_not_allowed("GET, POST, DELETE"),
    };
    discard(service, request.into_body());
    response
}

/// A POST that was read.
struct Posted<'a> {
    head: &'a Parts,
    /// The body, as it was sent.
    body: &'a Bytes,
    /// The arrival of the head.
    arrival: FrameArrival,
}

async fn post(
    service: &Arc<Service>,
    request: Request<RequestBody>,
    principal: Principal,
) -> HttpResponse {
    let arrival = FrameArrival::now();
    let (head, body) = request.into_parts();
    if let Err(rejection) = headers::check_media(&head.headers) {
        discard(service, body);
        return rejection;
    }
    let (frame, _held) = match request_body::read(service, body).await {
        Ok(frame) => frame,
        Err(rejection) => return rejection,
    };
    if let Some(forwarded) = head.extensions.get::<ForwardedRequest>()
        && let Some(rejection) = forwarded.reject_other_body(&frame)
    {
        return rejection;
    }
    let decoded = match posted::decode(&service.server, &head.headers, &frame) {
        Ok(decoded) => decoded,
        Err(rejection) => return rejection,
    };
    let signer = decoded.signer();
    let posted = Posted { head: &head, body: &frame, arrival };
    let response = dispatch(service, &posted, decoded, principal).await;
    // Connections sign their own output; rejections before there is one are signed here.
    posted::sign(response, signer.as_ref())
}

/// Passes a decoded POST to the era it belongs to.
async fn dispatch(
    service: &Arc<Service>,
    posted: &Posted<'_>,
    frame: DecodedFrame<'_>,
    principal: Principal,
) -> HttpResponse {
    let headers = &posted.head.headers;
    let incoming = frame.incoming();
    let serves_stateless = service.server.versions().serves_statelessly();
    let version = match headers::version(headers) {
        Some(Err(name)) => return unsupported_version(service, Some(incoming), &name),
        Some(Ok(version)) if version.is_stateless() && !serves_stateless => {
            return unsupported_version(service, Some(incoming), version.name());
        }
        Some(Ok(version)) => Some(version),
        None => None,
    };
    let is_stateless = match incoming {
        Incoming::Message(Message::Request(request)) => {
            version.is_some_and(Revision::is_stateless)
                || request.is_stateless() && serves_stateless
        }
        Incoming::Message(_) => version.is_some_and(Revision::is_stateless),
        Incoming::Batch(_) => false,
    };
    if is_stateless {
        stateless::handle_post(service, posted, frame, principal).await
    } else {
        handshake::handle_post(service, posted, frame, principal).await
    }
}

/// Rejects a request whose version header names an unsupported revision.
fn unsupported_version(
    service: &Service,
    incoming: Option<&Incoming<'_>>,
    name: &str,
) -> HttpResponse {
    let id = match incoming {
        Some(Incoming::Message(Message::Request(request))) => Some(&request.id),
        _ => None,
    };
    let supported = service.server.versions().supported_statelessly();
    let error = RpcError::unsupported_version(&name.into(), &supported);
    rejection_of(StatusCode::BAD_REQUEST, id, &error, Revision::V2026_07_28)
}

/// Builds a 400 response for an invalid envelope.
fn bad_request(details: &str) -> HttpResponse {
    rejection(StatusCode::BAD_REQUEST, &RpcError::invalid_request(details))
}
