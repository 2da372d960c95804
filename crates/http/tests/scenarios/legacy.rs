//! A peer over the transport of 2024-11-05: frames are posted, messages come on one stream.

use mcp_flow_server::Server;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::http::Request;
use tokio::sync::mpsc;

use crate::support::start;

pub(crate) async fn connect(server: &Server) -> Peer {
    let running = start(server).await;
    let address = running.address;
    let mut events = Request::get("/sse").send(address).await;
    let endpoint = events.event().await.unwrap();
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
        // The end of input has no other likeness here: what runs is answered, and all ends.
        running.stop().await;
    });
    Peer::new(frames, messages)
}
