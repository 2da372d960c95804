//! Invalid WebSocket frames and handshakes.

use mcp_flow_testkit::http::Request;

use crate::attack::raw_http::{Socket, frame, upgrade};
use crate::attack::report::TableReport;
use crate::attack::target::Target;

/// INT-106, PAT-024: frames that violate the protocol close the connection with a close code that
/// says why.
#[tokio::test]
async fn invalid_frames_close_the_connection() {
    let target = Target::open("[limits]\nframe_bytes = 65536\n", &[]).await;
    let mut report = TableReport::default();
    for (name, bytes, expected) in frames() {
        let mut socket = Socket::open(&target).await;
        socket.write(&bytes).await;
        report.compare(name, socket.close_code().await, Some(expected));
    }
    report.finish(25);
    target.assert_recovered(64).await;
}

/// Invalid handshakes are rejected, and nothing is upgraded.
#[tokio::test]
async fn invalid_handshakes_are_rejected() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    let get = |name: &str, value: &str| upgrade().header(name, value);
    for (name, request, status) in [
        ("no key", upgrade().without("sec-websocket-key"), 426),
        ("a short key", get("sec-websocket-key", "AAAA"), 426),
        ("a key that is none", get("sec-websocket-key", "!"), 426),
        ("a long key", get("sec-websocket-key", &"A".repeat(1000)), 426),
        ("no version", upgrade().without("sec-websocket-version"), 426),
        ("an old version", get("sec-websocket-version", "8"), 426),
        ("another upgrade", get("upgrade", "h2c"), 426),
        ("no upgrade", upgrade().without("upgrade"), 426),
        ("no connection", upgrade().without("connection"), 426),
        ("another connection", get("connection", "close"), 426),
        ("another method", Request::new("POST", "/ws").header("upgrade", "websocket"), 405),
        ("another page", get("origin", "http://evil.example"), 403),
    ] {
        report.compare(name, request.send(target.address).await.status, status);
    }
    report.finish(12);
    target.assert_recovered(64).await;
}

fn frames() -> Vec<(&'static str, Vec<u8>, u16)> {
    const TEXT: u8 = 0x81;
    let two = |one: Vec<u8>, other: Vec<u8>| [one, other].concat();
    let long = |first: u8, length: u64| {
        [&[first, 0xff][..], &length.to_be_bytes(), &[0; 4], b"{"].concat()
    };
    vec![
        ("not masked", b"\x81\x02{}".to_vec(), 1002),
        ("reserved bit 1", frame(0xc1, b"{}"), 1002),
        ("reserved bit 2", frame(0xa1, b"{}"), 1002),
        ("reserved bit 3", frame(0x91, b"{}"), 1002),
        ("reserved data", frame(0x83, b"{}"), 1002),
        ("reserved data 7", frame(0x87, b"{}"), 1002),
        ("reserved control", frame(0x8b, b""), 1002),
        ("reserved control f", frame(0x8f, b""), 1002),
        ("continues nothing", frame(0x80, b"{}"), 1002),
        ("continues nothing, unfinished", frame(0x00, b"{}"), 1002),
        ("a text inside a text", two(frame(0x01, b"{"), frame(TEXT, b"}")), 1002),
        ("bytes inside a text", two(frame(0x01, b"{"), frame(0x82, b"}")), 1002),
        ("a long ping", frame(0x89, &[0; 126]), 1002),
        ("a long pong", frame(0x8a, &[0; 126]), 1002),
        ("a long close_code", frame(0x88, &[3; 126]), 1002),
        ("a ping in pieces", frame(0x09, b"x"), 1002),
        ("a close_code in pieces", frame(0x08, b"\x03\xe8"), 1002),
        ("bytes", frame(0x82, b"{}"), 1003),
        ("not UTF-8", frame(TEXT, b"\"\xff\""), 1007),
        ("overlong", frame(TEXT, b"\"\xc0\xaf\""), 1007),
        ("half a surrogate", frame(TEXT, b"\"\xed\xa0\x80\""), 1007),
        ("cut off", frame(TEXT, b"\"\xe2\x82"), 1007),
        ("not UTF-8 in pieces", two(frame(0x01, b"\""), frame(0x80, b"\xff\"")), 1007),
        ("too long", frame(TEXT, &[b' '; 65_537]), 1009),
        ("too long, announced", long(TEXT, 1 << 40), 1009),
        (
            "too long, in pieces",
            two(frame(0x01, &[b' '; 65_000]), frame(0x80, &[b' '; 65_000])),
            1009,
        ),
        ("longer than can be", long(TEXT, u64::MAX), 1009),
    ]
}
