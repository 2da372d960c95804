//! The control stream: handshake, encodings, refusals and the end (WT-001 to WT-015, WT-029 to
//! WT-044, WT-062 to WT-065).

use crate::support::{Running, start};
use mcp_flow_proto::Encoding;
use mcp_flow_testkit::fixture::Fixture;
use serde_json::{Value, json};

/// WT-004, WT-030, WT-031, WT-034, WT-035: the answer to `initialize` is JSON and says all five
/// things; everything after it is in the encoding chosen.
#[tokio::test]
async fn the_encoding_is_agreed_on() {
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

/// WT-032: who names no encoding speaks JSON.
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

/// WT-007, WT-008, WT-038, WT-039: before the handshake only it and ping are served, and one that
/// fails can be tried again.
#[tokio::test]
async fn a_handshake_may_fail_and_be_tried_again() {
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

/// WT-033, WT-037, WT-040, WT-041, WT-015: what is in the wrong encoding, in none, or empty is
/// answered in the right one, and the next good message is served.
#[tokio::test]
async fn wrong_bodies_are_answered() {
    let running = start(&Fixture::new().server);
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    let (as_json, as_cbor) =
        (Encoding::Json.encode(&ping).unwrap(), Encoding::Cbor.encode(&ping).unwrap());
    // Maps without an end, with a tag, with what is no number, and bytes that are no text.
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
        caller.client.send_unseen(wrong).await.unwrap();
        let reply = caller.reply_to(9).await;
        assert_eq!(error(&reply), (-32003, "ENCODING_MISMATCH"), "{encoding:?}");
        assert_eq!(reply["error"]["data"]["encoding"], encoding.name());
        // What is no message in the other encoding either is in the wrong one first of all.
        let lacking = encoding.other().encode(&json!({"id": 10})).unwrap();
        caller.client.send_unseen(&lacking).await.unwrap();
        assert_eq!(error(&caller.reply_to(10).await), (-32003, "ENCODING_MISMATCH"));
        for body in hostile {
            caller.client.send_unseen(body).await.unwrap();
            let reply = caller.reply_to(Value::Null).await;
            assert_eq!(reply["error"]["code"], -32700, "{encoding:?} {body:x?}");
        }
        let odd = encoding.encode(&json!({"id": 1})).unwrap();
        caller.client.send_unseen(&odd).await.unwrap();
        let reply = caller.message(|message| message.get("error").is_some()).await;
        assert_eq!(reply["error"]["code"], -32600);
        assert_eq!(caller.call(10, "ping", json!({})).await["result"], json!({}));
    }
    let mut early = running.connect().await;
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let body = Encoding::Cbor.encode(&initialize).unwrap();
    early.client.send_unseen(&body).await.unwrap();
    assert_eq!(error(&early.reply_to(1).await), (-32003, "ENCODING_MISMATCH"));
    // By its first letter this is a text of CBOR, fourteen bytes long; it is nothing all the same.
    early.client.send_unseen(b"not json at all").await.unwrap();
    assert_eq!(early.reply_to(Value::Null).await["error"]["code"], -32700);
    early.initialize(&[Encoding::Cbor]).await;
}

/// Lengths left open are good CBOR, and mean what they hold.
#[tokio::test]
async fn unusual_cbor_is_understood() {
    let running = start(&Fixture::new().server);
    let mut caller = running.connect().await;
    caller.initialize(&[Encoding::Cbor]).await;
    let body = b"\xbf\x67jsonrpc\x632.0\x62id\x07\x66method\x64ping\x66params\xbf\xff\xff";
    caller.client.send_unseen(body).await.unwrap();
    assert_eq!(caller.reply_to(7).await["result"], json!({}));
}

/// WT-014, C-03: a frame past the limit is refused before it comes, with the limit, and the session
/// ends; so does the seed's sample with its wrong length.
#[tokio::test]
async fn a_frame_too_long_ends_the_session() {
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
async fn half_a_frame_is_the_end() {
    let running = start(&Fixture::new().server);
    for bytes in [&b"\0\0"[..], b"\0\0\0\x10{\"json"] {
        let mut caller = running.connect().await;
        caller.client.send_bytes(bytes).await.unwrap();
        caller.client.finish().await;
        caller.end().await;
    }
}

/// WT-013: frames are put together from any pieces.
#[tokio::test]
async fn frames_come_in_any_pieces() {
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

/// WT-005, WT-062, WT-065, C-20: either side may say goodbye; calls finish, new ones are refused,
/// and the session is closed.
#[tokio::test]
async fn either_side_says_goodbye() {
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

/// WT-058, WT-059, WT-060, C-02: a cancelled call is answered so that it is not taken for a
/// server that is too busy; cancelling nothing does nothing.
#[tokio::test]
async fn a_cancelled_call_says_so() {
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
