//! A peer over a WebSocket.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::peer::Peer;

/// Connects a peer to a server at an address. `end` is what the end of input means, which has no
/// likeness of its own here.
pub async fn connect(address: SocketAddr, end: impl Future<Output = ()> + Send + 'static) -> Peer {
    try_connect(address, end).await.expect("the server listens and upgrades")
}

/// As [`connect`]; None if the server is not there.
pub async fn try_connect(
    address: SocketAddr,
    end: impl Future<Output = ()> + Send + 'static,
) -> Option<Peer> {
    let stream = TcpStream::connect(address).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let (socket, _) = client_async("ws://localhost/ws", stream).await.ok()?;
    let (mut sink, mut stream) = socket.split();
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            // A text that is not UTF-8 cannot be sent; one that is not JSON can.
            let text = String::from_utf8_lossy(&frame).into_owned();
            let _ = sink.send(Message::text(text)).await;
        }
        end.await;
    });
    tokio::spawn(async move {
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Text(text) = message {
                let _ = outgoing.send(serde_json::from_str(&text).expect("messages are JSON"));
            }
        }
    });
    Some(Peer::new(frames, messages))
}
