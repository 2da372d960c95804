//! The control stream: handshake, encodings, rejections and close (WT-001 to WT-015, WT-029 to
//! WT-044, WT-062 to WT-065).

use crate::support::{Running, start};
use mcp_flow_proto::Encoding;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

/// WT-004, WT-030, WT-031, WT-034, WT-035: the response to `initialize` is JSON and has all five
/// members; everything after it is in the chosen encoding.
#[tokio::test]
async fn the_encoding_is_negotiated() {
    let running = start(&Fixture::new().server);
    for (offered, chosen) in [
        (&[Encoding::Cbor, Encoding::Json][..], Encoding::Cbor),
        (&[Encoding::Json, Encoding::Cbor], Encoding::Json),
    ] {
        let mut caller = running.connect().await;
        let reply = caller.initialize(offered).await;
        assert_eq!(
            reply["result"]["transport"],
            json!({"type": "mcp-flow", "version": "0.1", "encoding": chosen.name(),
                "maxConcurrentStreams": 32, "datagramsSupported": true})
        );
        assert_eq!(caller.client.encoding(), chosen);
        let reply = caller.call(2, "tools/list", json!({})).await;
        assert_eq!(reply["result"]["tools"][0]["name"], "math.add");
        let reply = caller.call(3, "nope", json!({})).await;
        assert_eq!(reply["error"]["code"], -32601);
    }
}

/// WT-032: without a list of encodings the client speaks JSON.
#[tokio::test]
async fn json_is_the_default() {
    let running = start(&Fixture::new().server);
    for transport in [json!(null), json!({"type": "mcp-flow", "version": "9.9"})] {
        let mut caller = running.connect().await;
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "transport": transport});
        let reply = caller.call(1, "initialize", params).await;
        assert_eq!(reply["result"]["transport"]["encoding"], "json");
        assert_eq!(reply["result"]["transport"]["version"], "0.1");
    }
}

/// WT-007, WT-008, WT-038, WT-039: before the handshake only `initialize` and `ping` are served,
/// and a failed handshake can be retried.
#[tokio::test]
async fn a_failed_handshake_can_be_retried() {
    let running = start(&Fixture::new().server);
    let mut caller = running.connect().await;
    assert_eq!(error(&caller.call(1, "tools/list", json!({})).await), (-32600, "NOT_INITIALIZED"));
    assert_eq!(caller.call(2, "ping", json!({})).await["result"], json!({}));
    let params =
        |transport: Value| json!({"protocolVersion": "2025-11-25", "transport": transport});
    for (transport, code) in [
        (json!({"type": "other"}), -32600),
        (json!({"type": "mcp-flow", "encodings": ["xml"]}), -32602),
        (json!([]), -32602),
    ] {
        let reply = caller.call(3, "initialize", params(transport)).await;
        assert_eq!(reply["error"]["code"], code, "{reply}");
    }
    let reply = caller.call(3, "initialize", json!({"protocolVersion": 7})).await;
    assert_eq!(reply["error"]["code"], -32602);
    let reply = caller.initialize(&[Encoding::Cbor]).await;
    assert_eq!(reply["result"]["transport"]["encoding"], "cbor");
    assert!(caller.call(4, "tools/list", json!({})).await["result"]["tools"].is_array());
}

/// WT-033, WT-037, WT-040, WT-041, WT-015: bodies that are in the wrong encoding, malformed or
/// empty get an error in the right encoding, and the next valid message is served.
#[tokio::test]
async fn invalid_bodies_get_an_error() {
    let running = start(&Fixture::new().server);
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    let (as_json, as_cbor) =
        (Encoding::Json.encode(&ping).unwrap(), Encoding::Cbor.encode(&ping).unwrap());
    // Maps of indefinite length, with a tag, with invalid numbers, and bytes that are not UTF-8.
    let hostile: [&[u8]; 6] = [
        b"",
        b"\xff\xff",
        b"\xbf\x62id",
        b"\xa1\x62id\xf9\x7e\x00\x00",
        b"\x9f\x9f\x9f",
        b"\xa1\x61\xff\x01",
    ];
    for encoding in Encoding::ALL {
        let mut caller = running.connect().await;
        caller.initialize(&[encoding]).await;
        let wrong = if encoding == Encoding::Json { &as_cbor } else { &as_json };
        caller.client.send_untracked(wrong).await.unwrap();
        let reply = caller.reply_to(9).await;
        assert_eq!(error(&reply), (-32003, "ENCODING_MISMATCH"), "{encoding:?}");
        assert_eq!(reply["error"]["data"]["encoding"], encoding.name());
        // An invalid message in the other encoding is an encoding mismatch first of all.
        let lacking = encoding.other().encode(&json!({"id": 10})).unwrap();
        caller.client.send_untracked(&lacking).await.unwrap();
        assert_eq!(error(&caller.reply_to(10).await), (-32003, "ENCODING_MISMATCH"));
        for body in hostile {
            caller.client.send_untracked(body).await.unwrap();
            let reply = caller.reply_to(Value::Null).await;
            assert_eq!(reply["error"]["code"], -32700, "{encoding:?} {body:x?}");
        }
        let odd = encoding.encode(&json!({"id": 1})).unwrap();
        caller.client.send_untracked(&odd).await.unwrap();
        let reply = caller.message(|message| message.get("error").is_some()).await;
        assert_eq!(reply["error"]["code"], -32600);
        assert_eq!(caller.call(10, "ping", json!({})).await["result"], json!({}));
    }
    let mut early = running.connect().await;
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let body = Encoding::Cbor.encode(&initialize).unwrap();
    early.client.send_untracked(&body).await.unwrap();
    assert_eq!(error(&early.reply_to(1).await), (-32003, "ENCODING_MISMATCH"));
    // By its first byte this is a CBOR text of fourteen bytes, but it is invalid.
    early.client.send_untracked(b"not json at all").await.unwrap();
    assert_eq!(early.reply_to(Value::Null).await["error"]["code"], -32700);
    early.initialize(&[Encoding::Cbor]).await;
}

/// Indefinite lengths are valid CBOR.
#[tokio::test]
async fn indefinite_length_cbor_is_accepted() {
    let running = start(&Fixture::new().server);
    let mut caller = running.connect().await;
    caller.initialize(&[Encoding::Cbor]).await;
    let body = b"\xbf\x67jsonrpc\x632.0\x62id\x07\x66method\x64ping\x66params\xbf\xff\xff";
    caller.client.send_untracked(body).await.unwrap();
    assert_eq!(caller.reply_to(7).await["result"], json!({}));
}

/// WT-014, C-03: an oversized frame is rejected by its announced length, the error names the limit,
/// and the session ends; so does the seed's sample with its wrong length.
#[tokio::test]
async fn an_oversized_frame_ends_the_session() {
    let running = start(&Fixture::new().server);
    let sample = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"test","version":"1.0"},"transport":{"type":"mcp-flow","version":"0.1","encodings":["cbor","json"]}}}"#;
    let wrong = [b"\0\0\0\xda", sample.as_bytes()].concat();
    for bytes in [&b"\xff\xff\xff\xff"[..], b"\x01\x00\x00\x01{", &wrong] {
        let mut caller = running.connect().await;
        caller.client.send_bytes(bytes).await.unwrap();
        let reply =
            caller.message(|message| message["error"]["data"]["name"] == "PAYLOAD_TOO_LARGE").await;
        assert_eq!(reply["error"]["data"]["limit"], 16 * 1024 * 1024);
        let end = caller.end().await;
        assert!(end.contains("a message may have"), "{end}");
    }
    let mut right = running.connect().await;
    right.client.send(sample.as_bytes()).await.unwrap();
    assert_eq!(right.reply_to(1).await["result"]["transport"]["encoding"], "cbor");
}

/// WT-015: a stream that ends within a frame ends the session, and nothing hangs.
#[tokio::test]
async fn an_incomplete_frame_ends_the_session() {
    let running = start(&Fixture::new().server);
    for bytes in [&b"\0\0"[..], b"\0\0\0\x10{\"json"] {
        let mut caller = running.connect().await;
        caller.client.send_bytes(bytes).await.unwrap();
        caller.client.finish().await;
        caller.end().await;
    }
}

/// WT-013: frames are assembled from any pieces.
#[tokio::test]
async fn frames_may_arrive_in_pieces() {
    let running = start(&Fixture::new().server);
    let mut caller = running.connect().await;
    let frame = b"\0\0\0\x28{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}";
    for byte in frame {
        caller.client.send_bytes(&[*byte]).await.unwrap();
    }
    caller.reply_to(5).await;
    caller.client.send_bytes(&frame.repeat(3)).await.unwrap();
    for _ in 0..3 {
        caller.reply_to(5).await;
    }
}

/// WT-005, WT-062, WT-065, C-20: either side may shut down; running calls finish, new ones are
/// rejected, and the session is closed.
#[tokio::test]
async fn either_side_may_shut_down() {
    let fixture = Fixture::new();
    let running = start(&fixture.server);
    let mut caller = running.connect().await;
    caller.initialize(&[Encoding::Cbor]).await;
    caller.ask(2, "tools/call", json!({"name": "wait", "arguments": {}})).await;
    fixture.gate.until_waiting(1).await;
    caller.send(json!({"jsonrpc": "2.0", "method": "$/shutdown"})).await;
    let late = caller.call(3, "tools/list", json!({})).await;
    assert_eq!(error(&late), (-32600, "SHUTTING_DOWN"));
    fixture.gate.release_one();
    assert_eq!(caller.reply_to(2).await["result"]["content"][0]["text"], "done");
    let end = caller.end().await;
    assert!(end.contains("code=0"), "{end}");

    let mut caller = running.connect().await;
    caller.initialize(&[Encoding::Json]).await;
    let stopping = tokio::spawn(running.stop());
    let goodbye = caller.message(|message| message["method"] == "$/shutdown").await;
    assert_eq!(goodbye, json!({"jsonrpc": "2.0", "method": "$/shutdown"}));
    let end = caller.end().await;
    assert!(end.contains("code=0"), "{end}");
    stopping.await.unwrap();
}

/// WT-058, WT-059, WT-060, C-02: the error of a cancelled call differs from that of a busy server;
/// cancelling an unknown request does nothing.
#[tokio::test]
async fn a_cancelled_call_gets_its_own_error() {
    let fixture = Fixture::new();
    let running: Running = start(&fixture.server);
    let mut caller = running.connect().await;
    caller.initialize(&[Encoding::Cbor]).await;
    caller.notify("$/cancel", json!({"requestId": 99, "reason": "nothing"})).await;
    caller.ask(99, "tools/call", json!({"name": "wait", "arguments": {}})).await;
    fixture.gate.until_waiting(1).await;
    let reason = json!({"requestId": 99, "reason": "User pressed Escape"});
    caller.notify("$/cancel", reason).await;
    let reply = caller.reply_to(99).await;
    assert_eq!(error(&reply), (-32000, "CANCELLED"));
    assert_eq!(reply["error"]["message"], "Cancelled");
    assert_eq!(reply["error"]["data"]["reason"], "User pressed Escape");
    fixture.gate.until_waiting(0).await;
    assert!(caller.settle().await.is_empty());
}

fn error(reply: &Value) -> (i64, &str) {
    let error = &reply["error"];
    (error["code"].as_i64().unwrap_or_default(), error["data"]["name"].as_str().unwrap_or_default())
}
