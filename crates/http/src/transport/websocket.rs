//! WebSocket at `/ws`: one JSON text per message, both ways (PAT-003). This module performs the
//! upgrade; `socket` carries the messages.

mod counted_reader;
mod socket;

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

use crate::operator::metrics::HttpConnection;
use crate::response::{HttpResponse, empty, rejection};
use crate::service::Service;
use socket::Socket;

/// Upgrades a request to a WebSocket, which is served in a task of its own.
pub(crate) fn upgrade(
    service: &Arc<Service>,
    mut request: Request<RequestBody>,
    principal: Principal,
    http_connection: Arc<HttpConnection>,
) -> HttpResponse {
    let headers = request.headers();
    let Some(key) = handshake_key(headers) else {
        let error = RpcError::invalid_request("this address speaks WebSocket; ask for an upgrade");
        let mut response = rejection(StatusCode::UPGRADE_REQUIRED, &error);
        response.headers_mut().insert(UPGRADE, WEBSOCKET);
        return response;
    };
    let accept = derive_accept_key(key.as_bytes());
    let offers_mcp = has_token(headers, SEC_WEBSOCKET_PROTOCOL, "mcp");
    let connection = match service.connect("websocket", None, principal, headers) {
        Ok(connection) => connection,
        Err(rejection) => return rejection,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let served = service.clone();
    service.tasks.spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let stream = TokioIo::new(upgraded);
                Socket::open(stream, connection).await.run(&served).await;
            }
            Err(error) => tracing::debug!(%error, "WebSocket upgrade failed"),
        }
        // The WebSocket counts as an open connection until here.
        drop(http_connection);
    });
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(UPGRADE, WEBSOCKET);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if offers_mcp {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"));
    }
    response
}

/// Returns the key of a valid handshake.
fn handshake_key(headers: &HeaderMap) -> Option<&str> {
    let is_valid = has_token(headers, CONNECTION, "upgrade")
        && has_token(headers, UPGRADE, "websocket")
        && has_token(headers, SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY)?.to_str().ok()?;
    (is_valid && STANDARD.decode(key).is_ok_and(|key| key.len() == 16)).then_some(key)
}

/// Returns whether a comma-separated header contains a token.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
