//! A peer over a WebSocket.

use futures_util::{SinkExt, StreamExt};
use mcp_flow_server::Server;
use mcp_flow_testkit::Peer;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::support::start;

pub(crate) async fn connect(server: &Server) -> Peer {
    let running = start(server).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (socket, _) = client_async("ws://localhost/ws", stream).await.unwrap();
    let (mut sink, mut stream) = socket.split();
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            // A text that is not UTF-8 cannot be sent; one that is not JSON can.
            let text = String::from_utf8_lossy(&frame).into_owned();
            let _ = sink.send(Message::text(text)).await;
        }
        // The end of input has no other likeness here: what runs is answered, and all ends.
        running.stop().await;
    });
    tokio::spawn(async move {
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Text(text) = message {
                let _ = outgoing.send(serde_json::from_str(&text).unwrap());
            }
        }
    });
    Peer::new(frames, messages)
}
