//! Messages that are too long, too deep or too many (INT-106, PAT-024).

use mcp_flow::webtransport::client;
use serde_json::{Value, json};

use crate::attack::book::Book;
use crate::attack::raw::first_status;
use crate::attack::target::Target;
use crate::attack::way::{Transport, Way};
use crate::attack::webtransport::{settings, url};

const SMALL: &str = "[limits]\nframe_bytes = 65536\nbatch = 10\n";

/// PAT-024, INT-106: what is longer than a message may be is refused by name, over every transport
/// that has this limit, and costs nobody else anything.
#[tokio::test]
async fn oversized_messages_are_rejected() {
    let target = Target::open(SMALL, &[]).await;
    let mut book = Book::default();
    for transport in Transport::EVERY {
        // A process of its own keeps to limits of its own.
        if transport == Transport::Stdio {
            continue;
        }
        let mut way = Way::open(&target, transport).await;
        for length in [65_537, 100_000, 1_000_000, 5_000_000] {
            let text = "x".repeat(length);
            for message in [
                way.request(1, "tools/call", json!({"name": "echo", "arguments": {"text": text}})),
                way.request(1, "tools/call", json!({"name": text})),
                way.request(1, "ping", json!({"_meta": {"x": text}})),
                json!({"jsonrpc": "2.0", "method": "x", "params": {"x": text}}),
                json!({"jsonrpc": "2.0", "id": text, "method": "ping"}),
                json!(text),
            ] {
                let heard = way.say(message.to_string().as_bytes()).await;
                let error = heard.messages.iter().find(|message| !message["error"].is_null());
                let name = error.and_then(|error| error["error"]["data"]["name"].as_str());
                let row = format!("{transport:?} {length}");
                // What the headers repeat of it is too long as well.
                let is_told =
                    name == Some("PAYLOAD_TOO_LARGE") || matches!(heard.status, Some(413 | 431));
                book.check(row, is_told, format_args!("{name:?} {}", heard.is_closed));
            }
        }
        way.finish().await;
    }
    book.close(180);
    target.unharmed(128).await;
}

/// INT-106: what is nested deeper than anyone needs is refused wherever it stands, and no stack
/// overflows.
#[tokio::test]
async fn deeply_nested_messages_are_rejected() {
    let target = Target::open("", &[]).await;
    let mut book = Book::default();
    for transport in Transport::EVERY {
        // CBOR has rows of its own beside these.
        if transport == Transport::FlowCbor {
            continue;
        }
        let mut way = Way::open(&target, transport).await;
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
                    let request = way.request(7, method, params.clone()).to_string();
                    let heard =
                        way.ask_written(&request.replace("\"DEEP\"", deep), &json!(7)).await;
                    let is_failed = heard.messages.iter().any(|message| {
                        message["result"]["isError"] == true || message["error"].is_object()
                    });
                    let row = format!("{transport:?} {depth} {method} {params}");
                    book.check(row, is_failed && !heard.is_closed, format_args!("{heard:?}"));
                }
                let id = format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"ping"}}"#);
                let heard = way.say(id.as_bytes()).await;
                book.note(format!("{transport:?} {depth} id"), heard.code(), Some(-32600));
            }
        }
        way.finish().await;
    }
    book.close(350);
    target.unharmed(128).await;
}

/// PAT-024: heads that are too long or have too many lines, and bodies that say so or do not.
#[tokio::test]
async fn oversized_requests_are_rejected() {
    let target = Target::open(SMALL, &[]).await;
    let mut book = Book::default();
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
        ("to nobody", post("/messages?sessionId=x", "content-length: 99999999\r\n\r\n{"), 404),
        ("nowhere", post("/nowhere", "content-length: 99999999\r\n\r\n{"), 404),
    ] {
        book.note(name, first_status(&target, bytes.as_bytes()).await, Some(status));
    }
    book.close(9);
    target.unharmed(64).await;
}

/// WT-069, PAT-024: frames by WebTransport whose length cannot be, or is more than is taken.
#[tokio::test]
async fn oversized_frames_close_the_session() {
    let target = Target::open(SMALL, &[]).await;
    let mut book = Book::default();
    for (name, bytes) in [
        ("the longest there is", vec![0xff; 8]),
        ("a terabyte", vec![0xff, 0xff, 0xff, 0xff, b'{']),
        ("a mebibyte, in full", [&[0, 0x10, 0, 0][..], &vec![b' '; 1 << 20]].concat()),
    ] {
        let (client, mut events) =
            client::connect(url(&target), settings(&target, None)).await.unwrap();
        let _ = client.send_bytes(&bytes).await;
        let told = async {
            while let Some(event) = events.next().await {
                if let client::TransportEvent::Message { bytes, .. } = event {
                    return serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
                }
            }
            json!({"error": {"data": {"name": "closed"}}})
        };
        let told = tokio::time::timeout(std::time::Duration::from_secs(20), told).await;
        let told = told.unwrap_or_default()["error"]["data"]["name"].clone();
        let is_refused = told == "PAYLOAD_TOO_LARGE" || told == "closed";
        book.check(name, is_refused, told);
    }
    book.close(3);
    target.unharmed(64).await;
}
