//! The client against a server that violates the protocol (WT-017, WT-045 to WT-047, WT-055).

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Caller, read, within};
use futures_util::StreamExt;
use mcp_flow_client::Client;
use mcp_flow_proto::webtransport::write_frame;
use mcp_flow_tls::Tls;
use mcp_flow_webtransport::client::{self, ConnectSettings, TransportEvent, Trust};
use rustls::version::TLS13;
use serde_json::{Value, json};
use web_transport_quinn::quinn::crypto::rustls::QuicServerConfig;
use web_transport_quinn::quinn::{Endpoint, ServerConfig};
use web_transport_quinn::{ALPN, RecvStream, Request, SendStream, Session};

/// WT-055, WT-056: streams arrive before or after the result that names them.
#[tokio::test]
async fn streams_may_arrive_in_any_order() {
    let (mut server, mut caller) = pair().await;
    caller.ask(42, "tools/call", json!({})).await;
    server.receive().await;
    server.stream(b"\0\0\0\x2a\0\0\0\x01first").await;
    server.send(&result(42, &[1, 2])).await;
    server.stream(b"\0\0\0\x2a\0\0\0\x02second").await;
    assert_eq!(read(caller.stream(42, 1).await).await, b"first");
    assert_eq!(read(caller.stream(42, 2).await).await, b"second");
}

/// WT-047: a stream of no request in flight is reset and reported, and its data is not delivered.
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
    assert!(!matches!(quiet, Ok(Some(TransportEvent::Stream(_)))), "{quiet:?}");
}

/// WT-046: a stream that is named and does not arrive is reported after the grace period.
#[tokio::test]
async fn a_missing_stream_is_reported() {
    let (mut server, caller) = pair().await;
    caller.ask(1, "tools/call", json!({})).await;
    server.receive().await;
    server.send(&result(1, &[9])).await;
    let told = server.receive().await["params"].clone();
    assert_eq!((&told["requestId"], &told["streamTag"]), (&json!(1), &json!(9)));
    assert_eq!(told["code"], -32001);
}

/// WT-017: a stream that ends within its header is reported, and one that is reset is not.
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

/// A reused request number has no streams of the earlier request.
#[tokio::test]
async fn a_held_stream_does_not_outlive_its_request() {
    let (mut server, mut caller) = pair().await;
    for payload in [&b"old"[..], b"new"] {
        caller.ask(7, "tools/call", json!({})).await;
        server.receive().await;
        server.stream(&[b"\0\0\0\x07\0\0\0\x01", payload].concat()).await;
        // Sent after the stream, which has therefore arrived when this is answered.
        caller.ask(8, "ping", json!({})).await;
        server.receive().await;
        server.stream(b"\0\0\0\x09\0\0\0\x01").await;
        assert_eq!(server.receive().await["params"]["requestId"], 9);
    }
    server.send(&result(7, &[1])).await;
    assert_eq!(read(caller.stream(7, 1).await).await, b"new");
}

/// If only some addresses of a name are served, the client finds one of those.
#[tokio::test]
async fn the_client_tries_all_addresses() {
    let (_server, _caller) = pair_at("localhost").await;
}

/// WT-021, WT-023: invalid and unsolicited datagrams are dropped and counted.
#[tokio::test]
async fn invalid_datagrams_are_counted() {
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

/// WT-049: a stream that the server gives up fails at once with the reason, whether it is left
/// open, reset, or never arrives.
#[tokio::test]
async fn an_abandoned_stream_fails_with_the_reason() {
    let (mut server, mut caller) = pair().await;
    for (id, is_reset) in [(1_u8, false), (2, true)] {
        caller.ask(id, "tools/call", json!({})).await;
        server.receive().await;
        let mut open = server.session.open_uni().await.unwrap();
        open.write_all(&[0, 0, 0, id, 0, 0, 0, 1, b'x']).await.unwrap();
        server.send(&result(id.into(), &[1])).await;
        let mut stream = caller.stream(id.into(), 1).await;
        assert_eq!(within(stream.next()).await.unwrap().unwrap(), "x");
        if is_reset {
            open.reset(1).unwrap();
        }
        server.send(&stream_error(id.into(), 1)).await;
        let failed = within(stream.next()).await.unwrap_err().to_string();
        assert!(failed.contains("the disk is on fire"), "{failed}");
        drop(stream);
        if !is_reset {
            assert!(within(open.stopped()).await.unwrap().is_some(), "it is stopped");
        }
    }
    caller.ask(3, "tools/call", json!({})).await;
    server.receive().await;
    server.send(&result(3, &[1])).await;
    server.send(&stream_error(3, 1)).await;
    loop {
        if let TransportEvent::StreamFailed(failed) = within(caller.events.next()).await.unwrap() {
            assert_eq!((failed.stream.request, failed.stream.tag), (3, 1));
            break;
        }
    }
}

/// WT-003, WT-029, WT-049, WT-058, C-12, C-61: the client begins with `initialize`, offers CBOR,
/// cancels by `$/cancel`, and waits for no stream that has failed or is too short.
#[tokio::test]
async fn a_seed_001_server_is_supported() {
    let (endpoint, url, settings) = listen("127.0.0.1");
    let connecting = Client::builder().connect(client::server(url, settings));
    let connecting = tokio::spawn(async { connecting.await.unwrap() });
    let mut server = Scripted::accept(endpoint).await;
    let hello = server.receive().await;
    assert_eq!(hello["method"], "initialize");
    assert_eq!(hello["params"]["transport"]["encodings"], json!(["cbor", "json"]));
    let agreed = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {},
        "transport": {"type": "mcp-flow", "version": "0.1", "encoding": "json",
            "maxConcurrentStreams": 1, "datagramsSupported": false}});
    server.send(&json!({"jsonrpc": "2.0", "id": hello["id"], "result": agreed})).await;
    assert_eq!(server.receive().await["method"], "notifications/initialized");
    let client = connecting.await.unwrap();

    for (tag, sized, told) in
        [(1, false, "the disk is on fire"), (2, true, "ended after 4 of 5 bytes")]
    {
        let call = tokio::spawn(client.call_tool("read", json!({})).raw().into_future());
        let id = server.receive_call().await;
        let mut reply = result(id, &[tag]);
        if sized {
            let meta = json!({"mcp-flow/download": {"size": 5}});
            reply["result"]["content"][0]["_meta"] = meta;
        }
        server.send(&reply).await;
        match sized {
            true => _ = server.stream(&header(id, tag, b"four")).await,
            false => server.send(&stream_error(id, tag)).await,
        }
        let reply = call.await.unwrap().unwrap();
        let failed = within(async {
            let mut opened =
                client.open_content(&reply["content"][0]).await.map_err(|e| e.to_string())?;
            while let Some(piece) = opened.bytes.next().await {
                piece.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
        let failed = failed.await.unwrap_err();
        assert!(failed.contains(told), "{failed}");
    }

    let call = tokio::spawn(client.call_tool("analyze", json!({})).raw().into_future());
    let id = server.receive_call().await;
    call.abort();
    let cancel = server.receive().await;
    assert_eq!(
        (&cancel["method"], &cancel["params"]["requestId"]),
        (&json!("$/cancel"), &json!(id))
    );
}

/// A server that sends exactly what the test tells it to.
struct Scripted {
    session: Session,
    send: SendStream,
    recv: RecvStream,
    _endpoint: Endpoint,
}

impl Scripted {
    /// Accepts one client, which has a message to send.
    async fn accept(endpoint: Endpoint) -> Self {
        let accepting = async {
            let connection = endpoint.accept().await.unwrap().await.unwrap();
            let session = Request::accept(connection).await.unwrap().ok().await.unwrap();
            let (send, recv) = session.accept_bi().await.unwrap();
            (session, send, recv)
        };
        let (session, send, recv) = within(accepting).await;
        Self { session, send, recv, _endpoint: endpoint }
    }

    /// Waits for a tool call and returns its id.
    async fn receive_call(&mut self) -> u32 {
        let call = self.receive().await;
        assert_eq!(call["method"], "tools/call");
        u32::try_from(call["id"].as_u64().unwrap()).unwrap()
    }

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

fn stream_error(request: u32, tag: u32) -> Value {
    json!({"jsonrpc": "2.0", "method": "$/streamError", "params": {
        "requestId": request, "streamTag": tag, "error": "the disk is on fire"}})
}

fn header(request: u32, tag: u32, payload: &[u8]) -> Vec<u8> {
    [&request.to_be_bytes(), &tag.to_be_bytes(), payload].concat()
}

async fn pair() -> (Scripted, Caller) {
    pair_at("127.0.0.1").await
}

async fn pair_at(host: &str) -> (Scripted, Caller) {
    let (endpoint, url, settings) = listen(host);
    let connecting = async {
        let (client, events) = client::connect(&url, settings).await.unwrap();
        // The peer sees a stream once it carries data.
        client.send_untracked(b"{}").await.unwrap();
        Caller::new(client, events)
    };
    let (mut server, caller) =
        within(async { tokio::join!(Scripted::accept(endpoint), connecting) }).await;
    assert_eq!(server.receive().await, json!({}));
    (server, caller)
}

/// A bound port that is not served yet, and the settings to connect to it.
fn listen(host: &str) -> (Endpoint, String, ConnectSettings) {
    let tls = Arc::new(Tls::self_signed(&[]).unwrap());
    let crypto = tls.server_config(&[&TLS13], &[ALPN]).unwrap();
    let crypto = QuicServerConfig::try_from(crypto).unwrap();
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("https://{host}:{}/mcp-flow", endpoint.local_addr().unwrap().port());
    let mut settings = ConnectSettings::new(Trust::fingerprint(&tls.fingerprint()).unwrap());
    settings.grace_period = Duration::from_millis(100);
    (endpoint, url, settings)
}
