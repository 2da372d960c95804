//! WebSocket: one JSON text per message, both ways.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use hyper_util::rt::TokioIo;
use mcp_flow_client::authorizer::MOST_REPETITIONS;
use mcp_flow_client::transport::{Inbox, Outbox, Transport, TransportError, carried};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use super::wire::{self, Stream, Wire};

pub(super) async fn open(
    wire: &Wire,
    url: &Url,
    inbox: Inbox,
) -> Result<Arc<dyn Transport>, TransportError> {
    let bad = |error: tungstenite::Error| TransportError::Unsuitable(error.to_string());
    let mut request = url.as_str().into_client_request().map_err(bad)?;
    for (name, value) in &wire.headers {
        request.headers_mut().append(name, value.clone());
    }
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"));
    let socket = upgrade(wire, request, inbox.frame_limit()).await?;
    Ok(carried("websocket", FAREWELL, |outbox| async move {
        let why = carry(socket, &outbox, &inbox).await;
        inbox.closed(why);
    }))
}

/// Asks for a WebSocket, with the credential of the server where there is one.
async fn upgrade(
    wire: &Wire,
    request: Request,
    limit: usize,
) -> Result<WebSocketStream<TokioIo<Stream>>, TransportError> {
    let config =
        WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
    let authorizer = wire.authorizer(request.uri());
    let mut repetitions = 0;
    loop {
        let mut attempt = request.clone();
        let shown = match authorizer {
            Some(authorizer) => authorizer.credential().await?,
            None => None,
        };
        if let Some(value) = shown.as_ref().map(wire::header).transpose()? {
            attempt.headers_mut().insert(AUTHORIZATION, value);
        }
        let stream = wire.dial(attempt.uri().clone()).await?;
        let error = match client_async_with_config(attempt, stream, Some(config)).await {
            Ok((socket, _)) => return Ok(socket),
            // It may not know the name we give to what is spoken; then it is not insisted on.
            Err(error) => error,
        };
        let (Some(authorizer), tungstenite::Error::Http(answer)) = (authorizer, &error) else {
            return Err(explain(error));
        };
        if repetitions == MOST_REPETITIONS || !wire::is_refused(answer.status()) {
            return Err(explain(error));
        }
        repetitions += 1;
        let refusal = wire::refusal(shown, answer.status(), answer.headers());
        if !authorizer.refused(refusal).await? {
            return Err(explain(error));
        }
    }
}

fn explain(error: tungstenite::Error) -> TransportError {
    match error {
        tungstenite::Error::Http(answer) => {
            let body = answer.body().as_deref().unwrap_or_default().to_vec();
            super::sending::refusal(answer.status(), answer.headers(), &body)
        }
        tungstenite::Error::Io(error) => TransportError::unreachable("no WebSocket", error),
        other => TransportError::Unsuitable(format!("there is no WebSocket here: {other}")),
    }
}

async fn carry(
    socket: WebSocketStream<TokioIo<Stream>>,
    outbox: &Outbox,
    inbox: &Inbox,
) -> TransportError {
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        while let Some(message) = stream.next().await {
            if let Err(flood) = outbox.check() {
                return flood;
            }
            match message {
                Ok(Message::Text(text)) => inbox.receive(text.as_bytes()),
                Ok(Message::Binary(bytes)) => inbox.receive(&bytes),
                Ok(Message::Close(frame)) => {
                    let why = frame.map_or_else(String::new, |frame| {
                        format!(": {}", mcp_flow_client::neutral::shorten(&frame.reason, 100))
                    });
                    return TransportError::Lost(format!("the server closed the connection{why}"));
                }
                Ok(_) => {}
                Err(tungstenite::Error::Capacity(error)) => {
                    return TransportError::Garbage(error.to_string());
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
        let _ = tokio::time::timeout(FAREWELL, sink.close()).await;
        TransportError::Lost("the client closed the connection".to_owned())
    };
    tokio::select! {
        why = reading => why,
        why = writing => why,
    }
}

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);
