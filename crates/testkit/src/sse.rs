//! Peer over HTTP+SSE (2024-11-05): frames are posted, messages arrive on one stream.

use std::net::SocketAddr;

use tokio::sync::mpsc;

use crate::http::Request;
use crate::peer::Peer;

/// Connects a peer. `end` is what to do at the end of input, which this transport cannot signal.
pub async fn connect(address: SocketAddr, end: impl Future<Output = ()> + Send + 'static) -> Peer {
    connect_as(address, None, end).await
}

/// Connects a peer with a bearer token.
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
                // A dropped peer closes the stream.
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
