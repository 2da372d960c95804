//! WebSocket at `/ws`: one JSON text per message, both ways (PAT-003). This is the handshake;
//! `conversation` is what follows.

mod conversation;
mod counted;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming as RequestBody;
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use mcp_flow_proto::RpcError;
use mcp_flow_server::Principal;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::answer::{Answer, empty, refusal};
use crate::metrics::Connected;
use crate::service::Service;
use conversation::Conversation;

/// Answers the request that asks for a WebSocket, and goes on with it in a task of its own.
pub(crate) fn answer(
    service: &Arc<Service>,
    mut request: Request<RequestBody>,
    principal: Principal,
    connected: Arc<Connected>,
) -> Answer {
    let headers = request.headers();
    let Some(key) = handshake_key(headers) else {
        let error = RpcError::invalid_request("this address speaks WebSocket; ask for an upgrade");
        let mut answer = refusal(StatusCode::UPGRADE_REQUIRED, &error);
        answer.headers_mut().insert(UPGRADE, WEBSOCKET);
        return answer;
    };
    let accept = derive_accept_key(key.as_bytes());
    let speaks_mcp = has(headers, SEC_WEBSOCKET_PROTOCOL, "mcp");
    let connection = match service.connect("websocket", principal, headers) {
        Ok(connection) => connection,
        Err(refusal) => return refusal,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let served = service.clone();
    service.spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let stream = TokioIo::new(upgraded);
                Conversation::begin(stream, connection).await.hold(&served).await;
            }
            Err(error) => tracing::debug!(%error, "a WebSocket could not be opened"),
        }
        // It counts as a connection until here.
        drop(connected);
    });
    let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, WEBSOCKET);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if speaks_mcp {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"));
    }
    answer
}

/// The key of a good handshake.
fn handshake_key(headers: &HeaderMap) -> Option<&str> {
    let good = has(headers, CONNECTION, "upgrade")
        && has(headers, UPGRADE, "websocket")
        && has(headers, SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY)?.to_str().ok()?;
    (good && STANDARD.decode(key).is_ok_and(|key| key.len() == 16)).then_some(key)
}

/// Whether a header lists a word.
fn has(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(wanted))
}

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
