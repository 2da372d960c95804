//! Reads request bodies within limits of size, memory and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use mcp_flow_proto::RpcError;
use mcp_flow_server::load::CountedBytes;
use tokio::time::Instant;

use crate::response::{HttpResponse, busy, rejection};
use crate::service::Service;

/// Reads a whole body, or builds the rejection: 413 as soon as it is known to be too long, 503 if
/// the memory limit is reached, 408 on a timeout, 400 if the client disconnects.
///
/// The bytes count against the memory limit until the second value is dropped.
pub(crate) async fn read(
    service: &Service,
    mut body: Incoming,
) -> Result<(Bytes, CountedBytes), HttpResponse> {
    let limits = service.server.limits();
    let (limit, chunk_timeout) = (limits.frame, service.options.body_timeout);
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(service, body));
    }
    let load = service.server.load();
    let mut held = load.count(0);
    let start = Instant::now();
    // Most bodies are one chunk, which is not copied.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    loop {
        // A minimum rate bounds the whole body, or a client could trickle one forever.
        let allowed = Duration::from_secs(held.bytes() as u64 / MINIMUM_RATE);
        let deadline = (start + chunk_timeout + allowed).min(Instant::now() + chunk_timeout);
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok((if all.is_empty() { first } else { all.freeze() }, held)),
            Ok(Some(Err(error))) => {
                let details = format!("the body could not be read: {error}");
                let error = RpcError::invalid_request(&details);
                return Err(rejection(StatusCode::BAD_REQUEST, &error));
            }
            Err(_) => {
                let error = RpcError::invalid_request("the rest of the body did not come in time");
                return Err(rejection(StatusCode::REQUEST_TIMEOUT, &error));
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

fn too_large(service: &Service, body: Incoming) -> HttpResponse {
    discard(service, body);
    rejection(StatusCode::PAYLOAD_TOO_LARGE, &RpcError::too_large(service.server.limits().frame))
}

/// Drains the rest of a body that is not needed, in the background and within limits.
///
/// Many clients read the response only after they have sent the whole body; closing the connection
/// before would lose the response.
pub(crate) fn discard(service: &Service, mut body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    let (mut left, limit) = (4 * service.server.limits().frame, service.options.body_timeout);
    let draining = service.tasks.draining().clone();
    service.tasks.spawn(async move {
        let discarding = async {
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    break;
                }
            }
        };
        let _ = draining.run_until_cancelled(tokio::time::timeout(limit, discarding)).await;
    });
}

/// Bytes per second that a body must arrive at, after the timeout of its first chunk.
const MINIMUM_RATE: u64 = 1024;
