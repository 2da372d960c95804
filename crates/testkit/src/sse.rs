//! A peer over the transport of 2024-11-05: frames are posted, messages come on one stream.

use std::net::SocketAddr;

use tokio::sync::mpsc;

use crate::http::Request;
use crate::peer::Peer;

/// Connects a peer to a server at an address. `end` is what the end of input means, which has no
/// likeness of its own here.
pub async fn connect(address: SocketAddr, end: impl Future<Output = ()> + Send + 'static) -> Peer {
    let mut events = Request::get("/sse").send(address).await;
    let endpoint = events.event().await.expect("a stream begins with an event");
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    let refusals = outgoing.downgrade();
    tokio::spawn(async move {
        while let Some(message) = events.message().await {
            let _ = outgoing.send(message);
        }
    });
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            let mut answer = Request::post(&endpoint.data, "").body(frame).send(address).await;
            if answer.status == 400
                && let Some(refusals) = refusals.upgrade()
            {
                let _ = refusals.send(answer.json().await);
            }
        }
        end.await;
    });
    Peer::new(frames, messages)
}
