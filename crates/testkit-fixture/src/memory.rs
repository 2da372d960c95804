//! Transport without I/O: frames go straight into a connection.

use mcp_flow_proto::{Encoding, Raw};
use mcp_flow_server::{ConnectionInfo, Server};
use serde_json::Value;
use tokio::sync::mpsc;

use mcp_flow_testkit::Peer;

/// Connects a peer with JSON.
pub fn connect(server: &Server) -> Peer {
    connect_with(server, ConnectionInfo::new("memory"))
}

/// Connects a peer with CBOR on the wire; the peer itself still sends and receives JSON.
pub fn connect_cbor(server: &Server) -> Peer {
    connect_with(
        server,
        ConnectionInfo { encoding: Encoding::Cbor, ..ConnectionInfo::new("memory") },
    )
}

/// Connects a peer with this connection information.
pub fn connect_with(server: &Server, info: ConnectionInfo) -> Peer {
    let encoding = info.encoding;
    let connection = server.connect(info).expect("no hook refuses the connection");
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut open = true;
        loop {
            tokio::select! {
                // Everything that has arrived is received before anything is sent.
                biased;
                frame = incoming.recv(), if open && connection.accepts_input() => match frame {
                    Some(frame) => connection.receive(&encode(frame, encoding)),
                    None => {
                        open = false;
                        connection.end_of_input();
                    }
                },
                output = connection.output() => {
                    let Some(segment) = output else { break };
                    for message in segment.messages() {
                        // A dropped peer is ignored.
                        let _ = outgoing.send(decode(message, encoding));
                    }
                    connection.recycle(segment);
                }
            }
        }
    });
    Peer::new(frames, messages)
}

/// Encodes JSON as CBOR, and invalid JSON as invalid CBOR.
pub fn encode(frame: Vec<u8>, encoding: Encoding) -> Vec<u8> {
    const BREAK_OUTSIDE_ANYTHING: u8 = 0xff;
    match (encoding, serde_json::from_slice::<Value>(&frame)) {
        (Encoding::Json, _) => frame,
        (Encoding::Cbor, Ok(value)) => Encoding::Cbor.encode(&value).expect("JSON fits CBOR"),
        (Encoding::Cbor, Err(_)) => vec![BREAK_OUTSIDE_ANYTHING],
    }
}

fn decode(message: &[u8], encoding: Encoding) -> Value {
    let raw = match encoding {
        Encoding::Json => Raw::Json(std::str::from_utf8(message).expect("messages are UTF-8")),
        Encoding::Cbor => Raw::Cbor(message),
    };
    raw.decode().expect("the server sends well-formed messages")
}
