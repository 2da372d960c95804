//! PAT-003, MCP-005, WT-036: the scenario suite over WebTransport in either encoding, with the same
//! handlers as the memory transport.

use mcp_flow_proto::Encoding;
use mcp_flow_proto::webtransport::ClientTransport;
use mcp_flow_server::Server;
use mcp_flow_testkit::Peer;
use mcp_flow_webtransport::client::TransportEvent;
use serde_json::{Value, json};
use tokio::sync::mpsc;

mod json {
    mcp_flow_testkit_scenarios::suite!(|server| async move {
        super::connect(&server, mcp_flow_proto::Encoding::Json).await
    });
}

mod cbor {
    mcp_flow_testkit_scenarios::suite!(|server| async move {
        super::connect(&server, mcp_flow_proto::Encoding::Cbor).await
    });
}

/// Connects a peer whose messages are transcoded to this encoding once negotiated; the peer itself
/// sends and receives JSON. Without datagrams everything arrives in order.
async fn connect(server: &Server, encoding: Encoding) -> Peer {
    let running = crate::support::start(server);
    let mut settings = running.settings();
    settings.datagrams = false;
    let crate::support::Caller { client, mut events, .. } = running.connect_with(settings).await;
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    let sender = client.clone();
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            let frame = encode(frame, sender.encoding(), encoding);
            // A closed session is noticed by the test when no response arrives.
            let _ = sender.send(&frame).await;
        }
        sender.finish().await;
    });
    tokio::spawn(async move {
        // The server runs as long as its client.
        let _running = running;
        while let Some(event) = events.next().await {
            match event {
                TransportEvent::Message { bytes, .. } => {
                    let mut message = crate::support::decode(&bytes);
                    // Members added by the transport are not part of the scenarios.
                    if let Some(result) = message.get_mut("result").and_then(Value::as_object_mut) {
                        result.remove("transport");
                    }
                    let _ = outgoing.send(message);
                }
                TransportEvent::Stream(stream) => {
                    tokio::spawn(crate::support::read(stream));
                }
                event => panic!("nothing else comes: {event:?}"),
            }
        }
    });
    Peer::new(frames, messages)
}

/// Transcodes JSON to the current encoding and passes anything else unchanged. The handshake
/// requests the wanted encoding.
fn encode(frame: Vec<u8>, now: Encoding, wanted: Encoding) -> Vec<u8> {
    const BREAK_OUTSIDE_ANYTHING: u8 = 0xff;
    let Ok(mut value) = serde_json::from_slice::<Value>(&frame) else {
        return match now {
            Encoding::Json => frame,
            Encoding::Cbor => vec![BREAK_OUTSIDE_ANYTHING],
        };
    };
    if value["method"] == "initialize" && value["params"].is_object() {
        value["params"]["transport"] = json!(ClientTransport::new(&[wanted]));
        return now.encode(&value).unwrap();
    }
    match now {
        Encoding::Json => frame,
        Encoding::Cbor => now.encode(&value).unwrap(),
    }
}
