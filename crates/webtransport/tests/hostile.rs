//! Clients that violate the protocol, or disappear (WT-006, WT-069).

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Running, options, start, start_with, within};
use futures_util::FutureExt;
use mcp_flow_proto::Encoding;
use mcp_flow_proto::webtransport::{FrameDecoder, write_frame};
use mcp_flow_server::Limits;
use mcp_flow_testkit::relay::{Quality, Relay};
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_webtransport::client;
use rustls::version::TLS13;
use serde_json::{Value, json};
use web_transport_quinn::Session;
use web_transport_quinn::proto::{ConnectError, ConnectRequest, ConnectResponse};
use web_transport_quinn::quinn::crypto::rustls::QuicClientConfig;
use web_transport_quinn::quinn::{
    self, ClientConfig, Connection, Endpoint, TransportConfig, VarInt,
};

/// A connection without a CONNECT request is closed.
#[tokio::test]
async fn a_connection_without_a_session_is_closed() {
    let short = options(|options| options.handshake_timeout = Duration::from_millis(300));
    let running = start_with(&Fixture::new().server, short);
    let (_endpoint, connection) = dial(&running, "h3").await.unwrap();
    within(connection.closed()).await;
    running.connect().await.initialize(&[]).await;
}

/// WT-009: a plain HTTP/3 client gets a response to every request, and is not kept for long.
#[tokio::test]
async fn plain_http_3_requests_get_a_response() {
    let short = options(|options| options.handshake_timeout = Duration::from_millis(500));
    let running = start_with(&Fixture::new().server, short);
    let (_endpoint, connection) = dial(&running, "h3").await.unwrap();
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(NO_SETTINGS).await.unwrap();
    for _ in 0..3 {
        assert_eq!(status_of(&connection, GET).await, 404);
    }
    let mut without_settings = Vec::new();
    let url: url::Url = running.url.parse().unwrap();
    ConnectRequest::new(url).encode(&mut without_settings).unwrap();
    assert_eq!(status_of(&connection, &without_settings).await, 400, "no WebTransport is offered");
    within(connection.closed()).await;
}

/// WT-009: a connection has one session. Other requests are rejected with a status, and the session
/// stays usable.
#[tokio::test]
async fn a_second_session_is_rejected() {
    let running = start(&Fixture::new().server);
    let mut caller = running.connect().await;
    caller.initialize(&[]).await;
    let connection: Connection = (**caller.client.session()).clone();
    let mut connect = Vec::new();
    ConnectRequest::new(running.url.parse::<url::Url>().unwrap()).encode(&mut connect).unwrap();
    for (request, status) in [
        (&*connect, 429),
        (GET, 404),
        // Two field sections that are no request, one that is too long, and a malformed one.
        (b"\x01\x04\0\0\xd1\xd7", 400),
        (b"\x01\x80\x01\0\0", 431),
        (b"\x01\x02\xff\xff", 400),
    ] {
        assert_eq!(status_of(&connection, request).await, status, "{request:x?}");
    }
    assert_eq!(caller.call(2, "ping", json!({})).await["result"], json!({}));
}

/// Returns the status of the response to a request.
async fn status_of(connection: &Connection, request: &[u8]) -> u16 {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(request).await.unwrap();
    send.finish().unwrap();
    match within(ConnectResponse::read(&mut recv)).await {
        Ok(response) => response.status.as_u16(),
        Err(ConnectError::WrongStatus(Some(status))) => status.as_u16(),
        Err(error) => panic!("{error}"),
    }
}

/// An HTTP/3 control stream with empty SETTINGS.
const NO_SETTINGS: &[u8] = b"\x00\x04\x00";

/// `GET https://localhost/`, as a HEADERS frame.
const GET: &[u8] = b"\x01\x10\0\0\xd1\xd7\xc1\x50\x09localhost";

/// WT-006, WT-015: an incomplete message is not kept for a client that has sent no request, and
/// pings do not help; after the handshake a client may take its time.
#[tokio::test]
async fn an_incomplete_first_request_times_out() {
    let short = options(|options| options.handshake_timeout = Duration::from_millis(500));
    let running = start_with(&Fixture::new().server, short);
    let mut ready = running.connect().await;
    ready.initialize(&[]).await;
    let half = b"\0\0\x01\0{\"jsonrpc\"";
    ready.client.send_bytes(half).await.unwrap();
    for pings in [0, 1] {
        let mut caller = running.connect().await;
        for id in 0..pings {
            assert_eq!(caller.call(id, "ping", json!({})).await["result"], json!({}));
        }
        caller.client.send_bytes(half).await.unwrap();
        let end = caller.end().await;
        assert!(end.contains("no request arrived in time"), "{end}");
    }
    let rest = r#":"2.0","id":9,"method":"ping"}"#;
    let rest = format!("{rest:width$}", width = 256 - "{\"jsonrpc\"".len());
    ready.client.send_bytes(rest.as_bytes()).await.unwrap();
    assert_eq!(ready.reply_to(9).await["result"], json!({}));
}

/// WT-001: only the ALPN of HTTP/3 is accepted.
#[tokio::test]
async fn only_http_3_is_accepted() {
    let running = start(&Fixture::new().server);
    for protocol in ["h2", "hq-interop", "mcp-flow"] {
        let refused = dial(&running, protocol).await.map(|_| ()).unwrap_err().to_string();
        assert!(
            refused.contains("no application protocol") || refused.contains("120"),
            "{refused}"
        );
    }
    running.connect().await.initialize(&[]).await;
}

/// The connection of a client that disappeared is freed for the next.
#[tokio::test]
async fn connections_of_vanished_clients_are_freed() {
    let one = options(|options| {
        (options.max_connections, options.idle_timeout) = (1, Duration::from_millis(500));
    });
    let mut running = start_with(&Fixture::new().server, one);
    let direct = running.url.clone();
    let server = ([127, 0, 0, 1], running.port).into();
    let relay = Relay::start(server, Quality { delay: Duration::ZERO, loss: 0.0 }).await;
    running.url = format!("https://{}/mcp-flow", relay.address());
    let mut caller = running.connect().await;
    caller.initialize(&[]).await;
    assert!(client::connect(&direct, running.settings()).await.is_err(), "there is room for one");
    drop(relay);
    let room = async {
        while client::connect(&direct, running.settings()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    within(room).await;
}

/// WT-069: the number of streams a client can have open at once is small.
#[tokio::test]
async fn open_client_streams_are_limited() {
    let running = start(&Fixture::new().server);
    let mut caller = running.connect().await;
    caller.initialize(&[]).await;
    let connection: &Connection = caller.client.session();
    let connection = connection.clone();
    let (mut one_way, mut both_ways) = (Vec::new(), Vec::new());
    while let Some(stream) = connection.open_uni().now_or_never() {
        one_way.push(stream.unwrap());
        assert!(one_way.len() <= 16);
    }
    while let Some(stream) = connection.open_bi().now_or_never() {
        both_ways.push(stream.unwrap());
        assert!(both_ways.len() <= 8);
    }
    // The data they hold before it is read is bounded for all of them together.
    let mut taken = 0;
    let chunk = vec![0; 64 * 1024];
    for stream in &mut one_way {
        while let Some(Ok(written)) = stream.write(&chunk).now_or_never() {
            taken += written;
            assert!(taken <= 16 * 1024 * 1024, "it has no end");
        }
    }
    assert_eq!(caller.call(2, "ping", json!({})).await["result"], json!({}));
}

/// WT-040, WT-047, WT-069: garbage on every channel at once affects neither other sessions nor
/// valid requests of its own.
#[tokio::test]
async fn garbage_affects_no_valid_request() {
    let running = start(&Fixture::new().server);
    let mut other = running.connect().await;
    other.initialize(&[Encoding::Cbor]).await;
    let mut caller = running.connect().await;
    caller.initialize(&[]).await;
    let session = caller.client.session().clone();
    let garbage = |round: u8| -> Vec<u8> { (0..=255).map(|byte: u8| byte ^ round).collect() };
    for round in 0..20_u8 {
        caller.client.send_untracked(&garbage(round)).await.unwrap();
        let _ = session.send_datagram(garbage(round).into());
        let mut stream = session.open_uni().await.unwrap();
        // The stream may be stopped before all of it is sent.
        let _ = stream.write_all(&garbage(round)).await;
        let _ = stream.finish();
        if let Some(Ok((mut send, _))) = session.open_bi().now_or_never() {
            let _ = send.write_all(&garbage(round)).await;
        }
        let pong = other.call(u32::from(round) + 2, "ping", json!({})).await;
        assert_eq!(pong["result"], json!({}), "{round}");
    }
    let told = caller.message(|message| message["error"]["code"] == -32700).await;
    assert_eq!(told["id"], json!(null));
    assert_eq!(caller.call(2, "ping", json!({})).await["result"], json!({}));
}

/// WT-052: a client that lets unread streams fill its flow control window, as browsers do, gets
/// responses once the streams are given up.
#[tokio::test]
async fn stalled_streams_are_given_up_under_load() {
    let short = options(|options| options.stall_timeout = Duration::from_millis(500));
    let running = start_with(&crate::support::bulky::server(Limits::default()), short);
    let mut small = TransportConfig::default();
    small.receive_window(VarInt::from_u32(64 * 1024));
    let (_endpoint, connection) = dial_with(&running, "h3", small).await.unwrap();
    let url: url::Url = running.url.parse().unwrap();
    let session = Session::connect(connection, ConnectRequest::new(url)).await.unwrap();
    let (mut send, mut recv) = session.open_bi().await.unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1.0"}});
    let endless = json!({"name": "endless", "arguments": {}});
    for (id, method, params) in [(1, "initialize", hello), (2, "tools/call", endless)] {
        send.write_all(&frame(id, method, &params)).await.unwrap();
    }
    let asking = async {
        for id in 3.. {
            send.write_all(&frame(id, "ping", &json!({}))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = async {
        let mut decoder = FrameDecoder::new(1 << 20);
        loop {
            while let Some(frame) = decoder.next_frame().unwrap() {
                let message: Value = serde_json::from_slice(frame).unwrap();
                if message["method"] == "$/streamError" {
                    return message["params"].clone();
                }
            }
            let chunk = recv.read_chunk(1024, true).await.unwrap().unwrap();
            decoder.buffer().extend_from_slice(&chunk.bytes);
        }
    };
    let told = within(async {
        tokio::select! {
            told = told => told,
            () = asking => unreachable!("it goes on without end"),
        }
    });
    let told = told.await;
    assert_eq!(told["requestId"], 2);
    assert!(told["error"].as_str().unwrap().contains("blocked messages"), "{told}");
}

fn frame(id: u32, method: &str, params: &Value) -> Vec<u8> {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let mut frame = Vec::new();
    write_frame(&mut frame, message.to_string().as_bytes()).unwrap();
    frame
}

/// A bare QUIC connection with the ALPN of this protocol.
async fn dial(
    running: &Running,
    protocol: &str,
) -> Result<(Endpoint, Connection), quinn::ConnectionError> {
    dial_with(running, protocol, TransportConfig::default()).await
}

async fn dial_with(
    running: &Running,
    protocol: &str,
    transport: TransportConfig,
) -> Result<(Endpoint, Connection), quinn::ConnectionError> {
    let tls = running.settings().trust.client_config(&[&TLS13], &[protocol]).unwrap();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let server = ([127, 0, 0, 1], running.port).into();
    let connecting = endpoint.connect_with(config, server, "localhost").unwrap();
    let connection = connecting.await?;
    Ok((endpoint, connection))
}
