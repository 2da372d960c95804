//! Reading the body of a request: bounded in bytes and in patience.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use mcp_flow_proto::RpcError;
use mcp_flow_server::load::CountedBytes;
use tokio::time::Instant;

use crate::answer::{Answer, busy, refusal};
use crate::service::Service;

/// Reads a whole body, or says why not: 413 as soon as it is known to be too long, 503 when there is
/// no memory for it, 408 when the client falls silent in the middle, 400 when it goes away there.
///
/// What is read counts as held by the server until the second value is dropped.
pub(crate) async fn read(
    service: &Service,
    mut body: Incoming,
) -> Result<(Bytes, CountedBytes), Answer> {
    let limits = service.server.limits();
    let (limit, patience) = (limits.frame, service.options.body_time);
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(service, body));
    }
    let load = service.server.load();
    let mut held = load.count(0);
    let begun = Instant::now();
    // Most bodies come in one piece, which need not be copied.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    loop {
        // A piece now and then keeps nobody waiting forever: all of it comes at some speed.
        let whole = begun + patience + Duration::from_secs(held.bytes() as u64 / SLOWEST);
        let piece = tokio::time::timeout_at(whole.min(Instant::now() + patience), body.frame());
        let frame = match piece.await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok((if all.is_empty() { first } else { all.freeze() }, held)),
            Ok(Some(Err(error))) => {
                let details = format!("the body could not be read: {error}");
                return Err(refusal(StatusCode::BAD_REQUEST, &RpcError::invalid_request(&details)));
            }
            Err(_) => {
                let error = RpcError::invalid_request("the rest of the body did not come in time");
                return Err(refusal(StatusCode::REQUEST_TIMEOUT, &error));
            }
        };
        let Ok(piece) = frame.into_data() else { continue };
        if first.len().max(all.len()) + piece.len() > limit {
            return Err(too_large(service, body));
        }
        held.grow(piece.len());
        if !load.has_room_for(held.bytes(), limits.memory) {
            discard(service, body);
            return Err(busy(&RpcError::overloaded()));
        }
        if first.is_empty() {
            first = piece;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece);
    }
}

fn too_large(service: &Service, body: Incoming) -> Answer {
    discard(service, body);
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &RpcError::too_large(service.server.limits().frame))
}

/// Reads on what is left of a body that nobody wants, within bounds.
///
/// A client reads the answer when it has sent all, or when it likes; a connection that is closed
/// before may take the answer with it.
pub(crate) fn discard(service: &Service, mut body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    let (mut left, patience) = (4 * service.server.limits().frame, service.options.body_time);
    let ending = service.ending.clone();
    service.spawn(async move {
        let discarding = async {
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    break;
                }
            }
        };
        let _ = ending.run_until_cancelled(tokio::time::timeout(patience, discarding)).await;
    });
}

/// Bytes a second that a body must come with, after the time that one piece may take.
const SLOWEST: u64 = 1024;
