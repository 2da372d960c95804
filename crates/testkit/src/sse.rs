//! A peer over the transport of 2024-11-05: frames are posted, messages come on one stream.

use std::net::SocketAddr;

use tokio::sync::mpsc;

use crate::http::Request;
use crate::peer::Peer;

/// Connects a peer to a server at an address. `end` is what the end of input means, which has no
/// likeness of its own here.
pub async fn connect(address: SocketAddr, end: impl Future<Output = ()> + Send + 'static) -> Peer {
    connect_as(address, None, end).await
}

/// The same with a token that says who is calling.
pub async fn connect_as(
    address: SocketAddr,
    token: Option<&str>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Peer {
    let token = token.map(|token| format!("Bearer {token}"));
    let by = move |request: Request| match &token {
        Some(token) => request.header("authorization", token),
        None => request,
    };
    let mut events = by(Request::get("/sse")).send(address).await;
    let endpoint = events.event().await.expect("a stream begins with an event");
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    let refusals = outgoing.downgrade();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                message = events.message() => match message {
                    Some(message) => drop(outgoing.send(message)),
                    None => break,
                },
                // Whoever listens no more hangs up.
                () = outgoing.closed() => break,
            }
        }
    });
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            let request = by(Request::post(&endpoint.data, "").body(frame));
            let mut answer = request.send(address).await;
            if [400, 413].contains(&answer.status)
                && let Some(refusals) = refusals.upgrade()
            {
                let _ = refusals.send(answer.json().await);
            }
        }
        end.await;
    });
    Peer::new(frames, messages)
}
