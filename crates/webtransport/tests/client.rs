//! The client against a server that does not keep to the rules (WT-017, WT-045 to WT-047, WT-055).

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Caller, read, within};
use mcp_flow_proto::webtransport::write_frame;
use mcp_flow_tls::Tls;
use mcp_flow_webtransport::client::{self, Event, Settings, Trust};
use rustls::version::TLS13;
use serde_json::{Value, json};
use web_transport_quinn::quinn::crypto::rustls::QuicServerConfig;
use web_transport_quinn::quinn::{Endpoint, ServerConfig};
use web_transport_quinn::{ALPN, RecvStream, Request, SendStream, Session};

/// WT-055, WT-056: streams come before or after the result that names them.
#[tokio::test]
async fn streams_come_in_any_order() {
    let (mut server, mut caller) = pair().await;
    caller.ask(42, "tools/call", json!({})).await;
    server.receive().await;
    server.stream(b"\0\0\0\x2a\0\0\0\x01first").await;
    server.send(&result(42, &[1, 2])).await;
    server.stream(b"\0\0\0\x2a\0\0\0\x02second").await;
    assert_eq!(read(caller.stream(42, 1).await).await, b"first");
    assert_eq!(read(caller.stream(42, 2).await).await, b"second");
}

/// WT-047: a stream of no request in flight is reset and reported, and nothing of it is read.
#[tokio::test]
async fn injected_streams_are_reported() {
    let (mut server, mut caller) = pair().await;
    caller.ask(1, "ping", json!({})).await;
    server.receive().await;
    let stream = server.stream(b"\0\0\x03\xe7\0\0\0\x01payload").await;
    let told = server.receive().await;
    assert_eq!(told["method"], "$/streamError");
    assert_eq!(
        (&told["params"]["requestId"], &told["params"]["code"]),
        (&json!(999), &json!(-32002))
    );
    assert!(within(stream.stopped()).await.is_ok());
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
    caller.reply_to(1).await;
    server.stream(b"\0\0\0\x01\0\0\0\x01late").await;
    assert_eq!(server.receive().await["params"]["code"], -32002);
    let events = async { caller.events.next().await };
    let quiet = tokio::time::timeout(Duration::from_millis(50), events).await;
    assert!(!matches!(quiet, Ok(Some(Event::Stream(_)))), "{quiet:?}");
}

/// WT-046: a stream that is named and does not come is reported after a time of grace.
#[tokio::test]
async fn a_stream_that_does_not_come_is_reported() {
    let (mut server, caller) = pair().await;
    caller.ask(1, "tools/call", json!({})).await;
    server.receive().await;
    server.send(&result(1, &[9])).await;
    let told = server.receive().await["params"].clone();
    assert_eq!((&told["requestId"], &told["streamTag"]), (&json!(1), &json!(9)));
    assert_eq!(told["code"], -32001);
}

/// WT-017: a stream that ends within its header is reported, and one that is taken back is not.
#[tokio::test]
async fn a_stream_without_a_header_is_reported() {
    let (mut server, mut caller) = pair().await;
    let mut taken_back = server.session.open_uni().await.unwrap();
    taken_back.write_all(b"\0\0").await.unwrap();
    taken_back.reset(1).unwrap();
    server.stream(b"\0\0\0\x01\0").await;
    let told = server.receive().await;
    assert_eq!(told["method"], "$/streamError");
    assert!(told["params"]["error"].as_str().unwrap().contains("within its header"), "{told}");
    caller.ask(1, "ping", json!({})).await;
    assert_eq!(server.receive().await["method"], "ping", "nothing else was reported");
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
    caller.reply_to(1).await;
}

/// A number that is used anew has nothing of the call before it.
#[tokio::test]
async fn a_held_stream_does_not_outlive_its_call() {
    let (mut server, mut caller) = pair().await;
    for payload in [&b"old"[..], b"new"] {
        caller.ask(7, "tools/call", json!({})).await;
        server.receive().await;
        server.stream(&[b"\0\0\0\x07\0\0\0\x01", payload].concat()).await;
        // Behind it, so that it has come when this is answered.
        caller.ask(8, "ping", json!({})).await;
        server.receive().await;
        server.stream(b"\0\0\0\x09\0\0\0\x01").await;
        assert_eq!(server.receive().await["params"]["requestId"], 9);
    }
    server.send(&result(7, &[1])).await;
    assert_eq!(read(caller.stream(7, 1).await).await, b"new");
}

/// A name may have addresses of which only some are served, and those are found.
#[tokio::test]
async fn an_address_that_is_served_is_found() {
    let (_server, _caller) = pair_at("localhost").await;
}

/// WT-021, WT-023: datagrams that are none, or about nothing, are dropped and counted.
#[tokio::test]
async fn bad_datagrams_are_counted() {
    let (mut server, mut caller) = pair().await;
    caller.ask(1, "ping", json!({})).await;
    server.receive().await;
    for bytes in [
        &b"\x00\x00\0\0\0\x01"[..],
        b"\x7f\x00\0\0\0\x01",
        b"\x01\x00\0\0\0",
        b"\x01\x01\0\0\0\x01",
        b"\x01\x00\0\0\x03\xe7{}",
        b"\x03\x00\0\0\0\0{}",
    ] {
        let datagram = bytes::Bytes::copy_from_slice(bytes);
        server.session.send_datagram_wait(datagram).await.unwrap();
    }
    let (_, request, payload) = caller.datagram().await;
    assert_eq!((request, payload), (0, b"{}".to_vec()));
    assert_eq!(caller.client.dropped_datagrams(), 5);
}

/// A server that sends exactly what it is told.
struct Scripted {
    session: Session,
    send: SendStream,
    recv: RecvStream,
    _endpoint: Endpoint,
}

impl Scripted {
    async fn send(&mut self, message: &Value) {
        let mut frame = Vec::new();
        write_frame(&mut frame, message.to_string().as_bytes()).unwrap();
        self.send.write_all(&frame).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut length = [0; 4];
        within(self.recv.read_exact(&mut length)).await.unwrap();
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        within(self.recv.read_exact(&mut body)).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    async fn stream(&self, bytes: &[u8]) -> SendStream {
        let mut stream = self.session.open_uni().await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.finish().unwrap();
        stream
    }
}

fn result(id: u32, tags: &[u32]) -> Value {
    let item =
        |tag: &u32| json!({"type": "ref/stream", "streamTag": tag, "mimeType": "text/plain"});
    let content: Vec<_> = tags.iter().map(item).collect();
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}})
}

async fn pair() -> (Scripted, Caller) {
    pair_at("127.0.0.1").await
}

async fn pair_at(host: &str) -> (Scripted, Caller) {
    let tls = Arc::new(Tls::self_made(&[]).unwrap());
    let crypto = tls.server_config(&[&TLS13], &[ALPN]).unwrap();
    let crypto = QuicServerConfig::try_from(crypto).unwrap();
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("https://{host}:{}/mcp-flow", endpoint.local_addr().unwrap().port());
    let mut settings = Settings::new(Trust::hash(&tls.hash()).unwrap());
    settings.grace = Duration::from_millis(100);
    let accepting = async {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        Request::accept(connection).await.unwrap().ok().await.unwrap()
    };
    let (session, connected) =
        crate::support::within(async { tokio::join!(accepting, client::connect(&url, settings)) })
            .await;
    let (client, events) = connected.unwrap();
    // A stream is there for the other end once something is on it.
    client.send_unseen(b"{}").await.unwrap();
    let (send, recv) = crate::support::within(session.accept_bi()).await.unwrap();
    let mut server = Scripted { session, send, recv, _endpoint: endpoint };
    assert_eq!(server.receive().await, json!({}));
    (server, Caller::new(client, events))
}
