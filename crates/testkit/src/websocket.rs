//! Peer over a WebSocket.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::peer::Peer;
use crate::wait::within;

/// Connects a peer. `end` is what to do at the end of input, which this transport cannot signal.
pub async fn connect(address: SocketAddr, end: impl Future<Output = ()> + Send + 'static) -> Peer {
    try_connect(address, end).await.expect("the server listens and upgrades")
}

/// Connects a peer with a bearer token.
pub async fn connect_as(
    address: SocketAddr,
    token: Option<&str>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Peer {
    open(address, token, end).await.expect("the server listens and upgrades")
}

/// Like [`connect`]; `None` if no server is listening.
pub async fn try_connect(
    address: SocketAddr,
    end: impl Future<Output = ()> + Send + 'static,
) -> Option<Peer> {
    open(address, None, end).await
}

async fn open(
    address: SocketAddr,
    token: Option<&str>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Option<Peer> {
    let stream = TcpStream::connect(address).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let mut request = "ws://localhost/ws".into_client_request().ok()?;
    if let Some(token) = token {
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().ok()?);
    }
    let (socket, _) = within("an upgrade", client_async(request, stream)).await.ok()?;
    let (mut sink, mut stream) = socket.split();
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            // Invalid UTF-8 cannot be sent as text; invalid JSON can.
            let text = String::from_utf8_lossy(&frame).into_owned();
            let _ = sink.send(Message::text(text)).await;
        }
        end.await;
    });
    tokio::spawn(async move {
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(Ok(Message::Text(text))) => {
                        let message = serde_json::from_str(&text).expect("messages are JSON");
                        let _ = outgoing.send(message);
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                },
                // A dropped peer closes the socket.
                () = outgoing.closed() => break,
            }
        }
    });
    Some(Peer::new(frames, messages))
}
