//! Errors: every one is answered and explained, and the connection stays usable.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit_fixture::Fixture;

/// MCP-003, MCP-022, MCP-029, MCP-055, MCP-062, C-36: every malformed message is answered, and the
/// next one works.
pub(crate) async fn malformed_messages_are_answered_with_an_error(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    for (text, code, id) in [
        ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700, json!(null)),
        ("not json at all", -32700, json!(null)),
        ("7", -32600, json!(null)),
        ("{\"jsonrpc\":\"2.0\"}", -32600, json!(null)),
        ("{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"ping\"}", -32600, json!("x")),
        ("{\"id\":41,\"method\":\"ping\"}", -32600, json!(41)),
        ("{\"jsonrpc\":\"2.0\",\"id\":42,\"method\":[]}", -32600, json!(42)),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, json!(null)),
    ] {
        peer.send(text);
        let reply = peer.next().await;
        assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(code), &id), "{text}");
        assert!(reply["error"]["data"]["name"].is_string(), "{reply}");
        assert_plain(&reply["error"]);
    }
    peer.send_frame(b"\xff\xfe{}".as_slice());
    let reply = peer.next().await;
    assert_eq!(reply["error"]["code"], -32700);
    assert_plain(&reply["error"]);
    assert_eq!(peer.call("ping", json!({})).await["result"], json!({}));
}

/// Rejects the words of a parser in an error.
fn assert_plain(error: &Value) {
    let text = error.to_string();
    for word in [" at line ", "at position", "missing field", "invalid type", "EOF", "usize"] {
        assert!(!text.contains(word), "{text}");
    }
}

/// MCP-017, MCP-029, PAT-032: invalid params of every method are explained.
pub(crate) async fn invalid_params_are_explained(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!(null)),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({"name": "math.add", "arguments": [1, 2]})),
        ("tools/call", json!([])),
        ("tools/list", json!([1])),
        ("tools/list", json!("x")),
        ("tools/list", json!({"cursor": 7})),
        ("tools/list", json!({"cursor": "made-up"})),
        ("ping", json!([])),
        ("logging/setLevel", json!({"level": "loud"})),
        ("logging/setLevel", json!({})),
    ] {
        let error = peer.call(method, params.clone()).await["error"].clone();
        assert_eq!(error["code"], -32602, "{method} {params}");
        assert!(error["data"]["details"].is_string(), "{method} {params}: {error}");
        assert_plain(&error);
    }
    for (id, params) in [
        ("twice", "{\"name\":\"math.add\",\"name\":\"fail\"}"),
        ("twice-meta", "{\"_meta\":{},\"_meta\":{},\"name\":\"fail\"}"),
    ] {
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"tools/call\",\"params\":{params}}}"
        );
        // In CBOR the adapter's JSON parser keeps the last duplicate, so there is nothing to
        // refuse.
        peer.send(text);
        let reply = peer.reply_to(id).await;
        let code = &reply["error"]["code"];
        assert!(*code == -32602 || reply["result"]["isError"] == true, "{id}: {reply}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    peer.send(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"deep\",\"method\":\"tools/call\",\
         \"params\":{{\"name\":\"math.add\",\"arguments\":{{\"a\":{deep}}}}}}}"
    ));
    let refused = peer.find(|message| message.get("error").is_some()).await;
    assert!([-32602, -32700].contains(&refused["error"]["code"].as_i64().unwrap()));
    assert_eq!(peer.call("ping", json!({})).await["result"], json!({}));
}

/// MCP-007, PAT-025, C-31: unknown methods and tools have different errors, with their names.
pub(crate) async fn unknown_methods_and_tools_are_named(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    let error = peer.call("no/such/method", json!({})).await["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["method"]),
        (&json!(-32601), &json!("no/such/method"))
    );
    let error = peer.call_tool("no_such_tool", json!({})).await["error"].clone();
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"]["name"], "UNKNOWN_TOOL");
    assert_eq!(error["data"]["tool"], "no_such_tool");
}

/// MCP-013: no notification is answered.
pub(crate) async fn notifications_are_never_answered(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    peer.notify("no/such/notification", json!({}));
    peer.notify("tools/call", json!({"name": "math.add"}));
    peer.notify("notifications/cancelled", json!([1]));
    peer.notify("notifications/cancelled", json!({"requestId": {}}));
    peer.send("{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":7}");
    peer.send("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}");
    peer.send("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{}}");
    assert_eq!(peer.settle().await, Vec::<Value>::new());
}

/// MCP-004, C-52: batches are served where the revision has them, and refused as a whole elsewhere.
pub(crate) async fn batches_are_served_by_revision(connect: &Connect) {
    let ping = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let add = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "math.add", "arguments": {"a": 1, "b": 2}}});
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    for revision in Revision::handshake() {
        let fixture = Fixture::new();
        let mut peer = connect(fixture.server.clone()).await;
        peer.send(json!([ping(1), ping(2)]));
        assert_eq!(peer.next().await["error"]["code"], -32600, "before the handshake");
        peer.initialize(revision).await;
        let alone = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list",
            "params": {"_meta": mcp_flow_testkit::stateless_meta()}});
        peer.send(json!([ping(1), add, notice, 7, alone]));
        let reply = peer.next().await;
        if !revision.features().batches {
            assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(-32600), &json!(null)));
            continue;
        }
        let replies = reply.as_array().expect("one array answers a batch");
        let codes: Vec<_> = replies.iter().map(|reply| reply["error"]["code"].clone()).collect();
        assert_eq!(codes, [json!(null), json!(null), json!(-32600), json!(-32600)]);
        assert_eq!(replies[1]["result"]["content"][0]["text"], "3");
        peer.send("[]");
        assert_eq!(peer.next().await["error"]["code"], -32600, "an empty batch");
        peer.send(json!([notice]));
        assert_eq!(peer.settle().await, Vec::<Value>::new(), "nothing to answer");
        let handshake = json!({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {}});
        peer.send(json!([handshake]));
        assert_eq!(peer.next().await[0]["error"]["code"], -32600);

        // A slow response delays its batch, and nothing else.
        let wait = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
            "params": {"name": "wait"}});
        peer.send(json!([wait, ping(6)]));
        fixture.gate.until_waiting(1).await;
        assert_eq!(peer.settle().await, Vec::<Value>::new());
        fixture.gate.release_all();
        assert_eq!(peer.next().await.as_array().map(Vec::len), Some(2));
    }
}
