//! The WebSocket transport: one JSON text per message, both ways.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use hyper_util::rt::TokioIo;
use mcp_flow_client::authorizer::MAX_REPETITIONS;
use mcp_flow_client::transport::{Inbox, Outbox, Transport, TransportError, task_transport};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use crate::dialer::HttpStream;
use crate::exchange;
use crate::pool::{self, Pool};

/// Opens a WebSocket.
pub(crate) async fn open(
    pool: &Pool,
    url: &Url,
    inbox: Inbox,
) -> Result<Arc<dyn Transport>, TransportError> {
    let bad = |error: tungstenite::Error| TransportError::Unsuitable(error.to_string());
    let mut request = url.as_str().into_client_request().map_err(bad)?;
    for (name, value) in &pool.headers {
        request.headers_mut().append(name, value.clone());
    }
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"));
    let socket = upgrade(pool, request, inbox.frame_limit()).await?;
    Ok(task_transport("websocket", CLOSE_TIMEOUT, |outbox| async move {
        let reason = run(socket, &outbox, &inbox).await;
        inbox.closed(reason);
    }))
}

/// Performs the WebSocket handshake, and repeats it with a renewed credential if it is rejected.
async fn upgrade(
    pool: &Pool,
    request: Request,
    limit: usize,
) -> Result<WebSocketStream<TokioIo<HttpStream>>, TransportError> {
    let config =
        WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
    let authorizer = pool.authorizer(request.uri());
    let mut repetitions = 0;
    loop {
        let mut attempt = request.clone();
        let credential = match authorizer {
            Some(authorizer) => authorizer.credential().await?,
            None => None,
        };
        let headers = pool::headers(credential.as_ref(), "GET", request.uri())?;
        attempt.headers_mut().extend(headers);
        let stream = pool.dial(attempt.uri().clone()).await?;
        let error = match client_async_with_config(attempt, stream, Some(config)).await {
            Ok((socket, response)) => {
                pool::take_nonce(credential.as_ref(), request.uri(), response.headers());
                return Ok(socket);
            }
            // A server that ignores the subprotocol is accepted.
            Err(error) => error,
        };
        let (Some(authorizer), tungstenite::Error::Http(response)) = (authorizer, &error) else {
            return Err(convert(error));
        };
        if repetitions == MAX_REPETITIONS || !pool::is_auth_failure(response.status()) {
            return Err(convert(error));
        }
        repetitions += 1;
        pool::take_nonce(credential.as_ref(), request.uri(), response.headers());
        let refusal = pool::auth_failure(credential, response.status(), response.headers());
        if !authorizer.refused(refusal).await? {
            return Err(convert(error));
        }
    }
}

fn convert(error: tungstenite::Error) -> TransportError {
    match error {
        tungstenite::Error::Http(response) => {
            let body = response.body().as_deref().unwrap_or_default().to_vec();
            exchange::rejection(response.status(), response.headers(), &body)
        }
        tungstenite::Error::Io(error) => {
            TransportError::unreachable("cannot open a WebSocket", error)
        }
        other => TransportError::Unsuitable(format!("WebSocket handshake failed: {other}")),
    }
}

/// Carries messages both ways until the connection ends, and returns the reason.
async fn run(
    socket: WebSocketStream<TokioIo<HttpStream>>,
    outbox: &Outbox,
    inbox: &Inbox,
) -> TransportError {
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        while let Some(message) = stream.next().await {
            if let Err(overflow) = outbox.check() {
                return overflow;
            }
            match message {
                Ok(Message::Text(text)) => inbox.receive(text.as_bytes()),
                Ok(Message::Binary(bytes)) => inbox.receive(&bytes),
                Ok(Message::Close(frame)) => {
                    let reason = frame.map_or_else(String::new, |frame| {
                        format!(": {}", mcp_flow_client::sanitize::shorten(&frame.reason, 100))
                    });
                    return TransportError::Lost(format!(
                        "the server closed the connection{reason}"
                    ));
                }
                Ok(_) => {}
                Err(tungstenite::Error::Capacity(error)) => {
                    return TransportError::InvalidMessage(error.to_string());
                }
                Err(error) => return TransportError::Lost(error.to_string()),
            }
        }
        TransportError::Lost("the server closed the connection".to_owned())
    };
    let writing = async {
        while let Some(frames) = outbox.take() {
            if frames.is_empty() {
                outbox.changed().await;
                continue;
            }
            for frame in frames {
                let Ok(text) = Utf8Bytes::try_from(frame) else { continue };
                if let Err(error) = sink.feed(Message::Text(text)).await {
                    return TransportError::Lost(error.to_string());
                }
            }
            if let Err(error) = sink.flush().await {
                return TransportError::Lost(error.to_string());
            }
        }
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, sink.close()).await;
        TransportError::Lost("the client closed the connection".to_owned())
    };
    tokio::select! {
        reason = reading => reason,
        reason = writing => reason,
    }
}

/// Time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
