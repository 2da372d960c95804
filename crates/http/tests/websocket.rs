//! WebSocket at `/ws` (PAT-003).

use std::time::Duration;

use crate::support::{Running, call, start, start_with_options};
use futures_util::{FutureExt, SinkExt, StreamExt};
use mcp_flow_http::Options;
use mcp_flow_server::{Context, Limits, Tool};
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Pings are answered by both ends, and a client that answers stays connected.
#[tokio::test]
async fn both_ends_answer_pings() {
    // Long enough for a busy machine.
    let options = Options { keep_alive: Duration::from_millis(250), ..Options::default() };
    let running = start_with_options(&Fixture::new().server, options).await;
    let mut socket = open(&running).await;
    socket.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    let mut pings = 0;
    let mut answered = false;
    // Three intervals without a pong would have closed it.
    while pings < 6 || !answered {
        match within("a ping or a pong", socket.next()).await.unwrap().unwrap() {
            Message::Ping(_) => pings += 1,
            Message::Pong(said) => answered = said == b"there?".as_slice(),
            other => panic!("{other:?}"),
        }
    }
}

/// A client that does not answer pings is disconnected.
#[tokio::test]
async fn silent_clients_are_disconnected() {
    let options = Options { keep_alive: Duration::from_millis(20), ..Options::default() };
    let running = start_with_options(&Fixture::new().server, options).await;
    let request = Request::new("GET", "/ws")
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "other, mcp")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let answer = running.send(request).await;
    assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(answer.header("sec-websocket-protocol"), Some("mcp"));
    let mut connection = answer.into_connection();
    let mut seen = Vec::new();
    while let Some(byte) = connection.byte().await {
        seen.push(byte);
        // Nothing is sent until the server closes with 1001.
        if seen.ends_with(b"pings were not answered") {
            break;
        }
    }
    assert_eq!(seen[..4], [0x89, 0, 0x89, 0], "two pings");
    assert_eq!(seen[4..8], [0x88, 25, 3, 233], "then a close frame");
}

/// Oversized, binary and non-UTF-8 messages close the connection with their close code.
#[tokio::test]
async fn invalid_messages_close_the_connection() {
    let limits = Limits { frame: 1000, ..Limits::default() };
    let running = start(&Fixture::with_limits(limits).server).await;
    let mut socket = open(&running).await;
    socket.send(Message::text("x".repeat(100_000))).await.unwrap();
    let refused: Value = serde_json::from_str(&text(&mut socket).await).unwrap();
    assert_eq!(refused["error"]["data"]["name"], "PAYLOAD_TOO_LARGE");
    assert_eq!(closed(&mut socket).await, CloseCode::Size);
    drop(socket);
    let mut socket = open(&running).await;
    socket.send(Message::binary("{}")).await.unwrap();
    assert_eq!(closed(&mut socket).await, CloseCode::Unsupported);
    drop(socket);
    running.until_metric("mcp_flow_http_connections", 1).await;
}

/// For a client that sends and never reads, the server buffers a bounded number of bytes, then stops
/// reading.
#[tokio::test]
async fn output_for_a_client_that_never_reads_is_bounded() {
    let limits = Limits { outbound_bytes: 100_000, parked_calls: 10, ..Limits::default() };
    let big = |_: &Context, _: Value| "x".repeat(50_000);
    let fixture =
        Fixture::with(|builder| builder.limits(limits).tools(Tool::builder("big").quick(big)));
    let running = start(&fixture.server).await;
    let mut socket = open(&running).await;
    handshake(&mut socket).await;
    let mut sent = 0;
    // Once the server stops reading, the socket buffers fill up.
    loop {
        let sending = socket.send(Message::text(call(sent, "big", json!({})).to_string()));
        if tokio::time::timeout(Duration::from_secs(1), sending).await.is_err() {
            break;
        }
        sent += 1;
        assert!(sent < 200_000, "the server reads on and on");
    }
    // Once the client reads, all messages that arrived are answered, in order.
    for expected in 0..100 {
        let reply: Value = serde_json::from_str(&text(&mut socket).await).unwrap();
        assert_eq!(reply["id"], expected);
    }
}

/// Disconnecting cancels running calls.
#[tokio::test]
async fn disconnecting_cancels_running_calls() {
    let fixture = Fixture::new();
    let running = start(&fixture.server).await;
    for politely in [true, false] {
        let mut socket = open(&running).await;
        handshake(&mut socket).await;
        socket.send(Message::text(call(1, "wait", json!({})).to_string())).await.unwrap();
        fixture.gate.until_waiting(1).await;
        if politely {
            socket.close(None).await.unwrap();
        }
        drop(socket);
        fixture.gate.until_waiting(0).await;
    }
    running.until_metric("mcp_flow_http_connections", 1).await;
}

/// Draining closes the connection with 1001.
#[tokio::test]
async fn draining_closes_the_connection() {
    let running = start(&Fixture::new().server).await;
    let mut socket = open(&running).await;
    let stopping = tokio::spawn(running.stop());
    assert_eq!(closed(&mut socket).await, CloseCode::Away);
    // Reading on answers the close frame.
    assert!(socket.next().map(|next| next.is_none_or(|next| next.is_err())).await);
    stopping.await.unwrap();
}

async fn open(running: &Running) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(running.address).await.unwrap();
    client_async("ws://localhost/ws", stream).await.unwrap().0
}

async fn handshake(socket: &mut WebSocketStream<TcpStream>) {
    let begin = json!({"jsonrpc": "2.0", "id": "begin", "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"}});
    socket.send(Message::text(begin.to_string())).await.unwrap();
    text(socket).await;
}

async fn text(socket: &mut WebSocketStream<TcpStream>) -> String {
    match within("a message", socket.next()).await.unwrap().unwrap() {
        Message::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn closed(socket: &mut WebSocketStream<TcpStream>) -> CloseCode {
    match within("the end of the connection", socket.next()).await.unwrap().unwrap() {
        Message::Close(Some(frame)) => frame.code,
        other => panic!("{other:?}"),
    }
}
