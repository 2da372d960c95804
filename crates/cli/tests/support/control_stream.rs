//! A peer over the control stream of WebTransport.

use mcp_flow::webtransport::client::{ConnectSettings, TransportEvent, Trust, connect};
use mcp_flow_testkit::Peer;
use serde_json::Value;
use tokio::sync::mpsc;

/// Default connect settings for a server that has printed its endpoints.
pub(crate) fn settings(endpoints: &Value) -> ConnectSettings {
    ConnectSettings::new(
        Trust::fingerprint(endpoints["certificateHash"].as_str().unwrap()).unwrap(),
    )
}

/// Connects to a server that has printed its endpoints; `None` if it cannot be reached.
pub(crate) async fn peer(endpoints: &Value, settings: ConnectSettings) -> Option<Peer> {
    let url = endpoints["webtransport"].as_str().unwrap();
    let (client, mut events) = connect(url, settings).await.ok()?;
    let (frames, mut to_send) = mpsc::unbounded_channel::<Vec<u8>>();
    let (received, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                frame = to_send.recv() => match frame {
                    Some(frame) if client.send(&frame).await.is_ok() => {}
                    // The test has ended, or the program has.
                    _ => return client.close(),
                },
                event = events.next() => match event {
                    Some(TransportEvent::Message { bytes, .. }) => {
                        let _ = received.send(serde_json::from_slice(&bytes).unwrap());
                    }
                    Some(_) => {}
                    None => return,
                },
            }
        }
    });
    Some(Peer::new(frames, messages))
}
