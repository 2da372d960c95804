//! WebTransport connections to the target, and a bare QUIC connection.

use std::sync::Arc;

use mcp_flow::webtransport::client::{
    self, ConnectSettings, TransportClient, TransportEvent, Trust,
};
use mcp_flow_proto::webtransport::ClientTransport;
use mcp_flow_proto::{Encoding, Raw};
use mcp_flow_testkit::Peer;
use rustls::version::TLS13;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use web_transport_quinn::quinn::crypto::rustls::QuicClientConfig;
use web_transport_quinn::quinn::{ClientConfig, Connection, ConnectionError, Endpoint};

use crate::attack::target::Target;

/// The connect settings of a valid client.
pub(crate) fn settings(target: &Target, token: Option<&str>) -> ConnectSettings {
    let hash = target.endpoints["certificateHash"].as_str().unwrap();
    let token = token.map(str::to_owned);
    ConnectSettings {
        token,
        datagrams: false,
        ..ConnectSettings::new(Trust::fingerprint(hash).unwrap())
    }
}

/// The UDP address of the target.
pub(crate) fn url(target: &Target) -> &str {
    target.endpoints["webtransport"].as_str().unwrap()
}

/// Connects a peer with this encoding once negotiated. The test sends and sees JSON; other bytes
/// are sent unchanged.
pub(crate) async fn connect(target: &Target, token: Option<&str>, wanted: Encoding) -> Peer {
    let connected = client::connect(url(target), settings(target, token)).await;
    let (client, mut events) = connected.unwrap();
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    let sender = client.clone();
    tokio::spawn(async move {
        while let Some(frame) = incoming.recv().await {
            send(&sender, frame, wanted).await;
        }
        sender.close();
    });
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let TransportEvent::Message { bytes, .. } = event {
                let _ = outgoing.send(decode(&bytes));
            }
        }
    });
    Peer::new(frames, messages)
}

async fn send(client: &TransportClient, frame: Vec<u8>, wanted: Encoding) {
    let Ok(mut value) = serde_json::from_slice::<Value>(&frame) else {
        // A server that has ended takes no more; the test fails on the missing response.
        return drop(client.send_untracked(&frame).await);
    };
    if value["method"] == "initialize" && value["params"].is_object() {
        value["params"]["transport"] = json!(ClientTransport::new(&[wanted]));
        let hello = client.encoding().encode(&value).unwrap();
        return drop(client.send(&hello).await);
    }
    // JSON is sent unchanged, because it may be invalid on purpose.
    let frame = match client.encoding() {
        Encoding::Json => frame,
        Encoding::Cbor => Encoding::Cbor.encode(&value).unwrap(),
    };
    drop(client.send_untracked(&frame).await);
}

fn decode(message: &[u8]) -> Value {
    match message.first() {
        Some(b'{' | b'[') => serde_json::from_slice(message).unwrap(),
        _ => Raw::Cbor(message).decode().unwrap(),
    }
}

/// Opens a QUIC connection with the ALPN of HTTP/3, without a WebTransport session.
pub(crate) async fn dial(
    target: &Target,
    protocol: &str,
) -> Result<(Endpoint, Connection), ConnectionError> {
    let tls = settings(target, None).trust.client_config(&[&TLS13], &[protocol]).unwrap();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config, target.address, "localhost").unwrap();
    Ok((endpoint, connecting.await?))
}
