//! Oversized, deeply nested and numerous messages (INT-106, PAT-024).

use mcp_flow::webtransport::client;
use serde_json::{Value, json};

use crate::attack::connection::{TestConnection, Transport};
use crate::attack::raw_http::first_status;
use crate::attack::report::TableReport;
use crate::attack::target::Target;
use crate::attack::webtransport::{settings, url};

const SMALL: &str = "[limits]\nframe_bytes = 65536\nbatch = 10\n";

/// PAT-024, INT-106: messages above the size limit are rejected with the limit, over every
/// transport that has it, and do not affect other clients.
#[tokio::test]
async fn oversized_messages_are_rejected() {
    let target = Target::open(SMALL, &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        // A stdio process has its own limits.
        if transport == Transport::Stdio {
            continue;
        }
        let mut connection = TestConnection::open(&target, transport).await;
        for length in [65_537, 100_000, 1_000_000, 5_000_000] {
            let text = "x".repeat(length);
            for message in [
                connection.request(
                    1,
                    "tools/call",
                    json!({"name": "echo", "arguments": {"text": text}}),
                ),
                connection.request(1, "tools/call", json!({"name": text})),
                connection.request(1, "ping", json!({"_meta": {"x": text}})),
                json!({"jsonrpc": "2.0", "method": "x", "params": {"x": text}}),
                json!({"jsonrpc": "2.0", "id": text, "method": "ping"}),
                json!(text),
            ] {
                let received = connection.send_frame(message.to_string().as_bytes()).await;
                let error = received.messages.iter().find(|message| !message["error"].is_null());
                let name = error.and_then(|error| error["error"]["data"]["name"].as_str());
                let row = format!("{transport:?} {length}");
                // Its stateless headers are too long as well.
                let is_told =
                    name == Some("PAYLOAD_TOO_LARGE") || matches!(received.status, Some(413 | 431));
                report.check(row, is_told, format_args!("{name:?} {}", received.is_closed));
            }
        }
        connection.finish().await;
    }
    report.finish(180);
    target.assert_recovered(128).await;
}

/// INT-106: deep nesting is rejected anywhere in a message, without a stack overflow.
#[tokio::test]
async fn deeply_nested_messages_are_rejected() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        // CBOR has additional rows below.
        if transport == Transport::WebTransportCbor {
            continue;
        }
        let mut connection = TestConnection::open(&target, transport).await;
        for depth in [200, 5_000, 100_000] {
            let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
            for deep in [&arrays, &objects] {
                for (method, params) in [
                    ("tools/call", json!({"name": "echo", "arguments": {"text": "DEEP"}})),
                    ("tools/call", json!({"name": "echo", "arguments": "DEEP"})),
                    ("tools/call", json!({"name": "DEEP"})),
                    ("resources/read", json!({"uri": "DEEP"})),
                    ("prompts/get", json!({"name": "x", "arguments": "DEEP"})),
                    ("interaction.start", json!({"toolName": "ledger", "initialParams": "DEEP"})),
                    ("tools/list", json!({"cursor": "DEEP"})),
                ] {
                    let request = connection.request(7, method, params.clone()).to_string();
                    let received =
                        connection.call_raw(&request.replace("\"DEEP\"", deep), &json!(7)).await;
                    let is_failed = received.messages.iter().any(|message| {
                        message["result"]["isError"] == true || message["error"].is_object()
                    });
                    let row = format!("{transport:?} {depth} {method} {params}");
                    report.check(
                        row,
                        is_failed && !received.is_closed,
                        format_args!("{received:?}"),
                    );
                }
                let id = format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"ping"}}"#);
                let received = connection.send_frame(id.as_bytes()).await;
                report.compare(format!("{transport:?} {depth} id"), received.code(), Some(-32600));
            }
        }
        connection.finish().await;
    }
    report.finish(350);
    target.assert_recovered(128).await;
}

/// PAT-024: heads that are too long or have too many lines, and bodies with and without a declared
/// length.
#[tokio::test]
async fn oversized_requests_are_rejected() {
    let target = Target::open(SMALL, &[]).await;
    let mut report = TableReport::default();
    let long = "x".repeat(500_000);
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let post = |path: &str, rest: &str| {
        let media = "content-type: application/json\r\nhost: localhost\r\n";
        format!("POST {path} HTTP/1.1\r\n{media}{rest}")
    };
    let chunk = format!("{:x}\r\n{}\r\n", 70_000, "x".repeat(70_000));
    for (name, bytes, status) in [
        ("a long header", format!("GET /mcp HTTP/1.1\r\nx: {long}\r\n\r\n"), 431),
        ("a long name", format!("GET /mcp HTTP/1.1\r\n{long}: x\r\n\r\n"), 431),
        ("many headers", format!("GET /mcp HTTP/1.1\r\n{many}\r\n"), 431),
        (
            "a long address",
            format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", &long[..100_000]),
            414,
        ),
        ("a long method", format!("{long} / HTTP/1.1\r\nhost: localhost\r\n\r\n"), 431),
        ("announced", post("/mcp", "content-length: 99999999999\r\n\r\n{"), 413),
        ("in chunks", post("/mcp", &format!("transfer-encoding: chunked\r\n\r\n{chunk}")), 413),
        (
            "to an unknown session",
            post("/messages?sessionId=x", "content-length: 99999999\r\n\r\n{"),
            404,
        ),
        ("nowhere", post("/nowhere", "content-length: 99999999\r\n\r\n{"), 404),
    ] {
        report.compare(name, first_status(&target, bytes.as_bytes()).await, Some(status));
    }
    report.finish(9);
    target.assert_recovered(64).await;
}

/// WT-069, PAT-024: WebTransport frames whose length is invalid or above the limit.
#[tokio::test]
async fn oversized_frames_close_the_session() {
    let target = Target::open(SMALL, &[]).await;
    let mut report = TableReport::default();
    for (name, bytes) in [
        ("the longest there is", vec![0xff; 8]),
        ("a terabyte", vec![0xff, 0xff, 0xff, 0xff, b'{']),
        ("a mebibyte, in full", [&[0, 0x10, 0, 0][..], &vec![b' '; 1 << 20]].concat()),
    ] {
        let (client, mut events) =
            client::connect(url(&target), settings(&target, None)).await.unwrap();
        let _ = client.send_bytes(&bytes).await;
        let received = async {
            while let Some(event) = events.next().await {
                if let client::TransportEvent::Message { bytes, .. } = event {
                    return serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
                }
            }
            json!({"error": {"data": {"name": "closed"}}})
        };
        let received = tokio::time::timeout(std::time::Duration::from_secs(20), received).await;
        let received = received.unwrap_or_default()["error"]["data"]["name"].clone();
        let is_refused = received == "PAYLOAD_TOO_LARGE" || received == "closed";
        report.check(name, is_refused, received);
    }
    report.finish(3);
    target.assert_recovered(64).await;
}
