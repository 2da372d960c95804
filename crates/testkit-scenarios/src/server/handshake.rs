//! Handshake and stateless requests.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit::stateless_meta;
use mcp_flow_testkit_fixture::Fixture;

/// PAT-001, C-21: before `initialize` only ping and stateless requests are served; others are
/// refused without side effects.
pub(crate) async fn requests_before_the_handshake_are_refused(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let refused = peer.call("tools/list", json!({})).await;
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["data"]["name"], "NOT_INITIALIZED");
    assert_eq!(peer.call("shutdown", json!({})).await["error"]["code"], -32600);
    peer.notify("notifications/initialized", json!({}));
    peer.notify("notifications/whatever", json!({}));
    assert_eq!(peer.call("ping", json!({})).await["result"], json!({}));
    peer.initialize(Revision::V2025_11_25).await;
    assert!(peer.call("tools/list", json!({})).await["result"]["tools"].is_array());
}

/// MCP-001, MCP-006, MCP-015, PAT-004, PAT-005, PAT-007, PAT-013: the server is silent first;
/// request, result, notification; the result declares exactly what there is.
pub(crate) async fn the_handshake_takes_three_messages(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let result = peer.initialize(Revision::V2025_11_25).await;
    assert_eq!(
        result,
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "serverInfo": {
                "name": "fixture", "version": "1.2.3", "description": "A server to be tried",
            },
            "instructions": "Call add to add.",
        })
    );
    assert_eq!(peer.settle().await, Vec::<Value>::new(), "nothing was asked for");
}

/// MCP-014, C-04, C-22, C-23, C-37: a version is agreed on whatever is requested; members unknown
/// to the revision are omitted.
pub(crate) async fn versions_are_negotiated(connect: &Connect) {
    for (requested, agreed) in [
        (json!("2024-11-05"), "2024-11-05"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), "2025-11-25"),
        (json!("2026-07-28"), "2025-11-25"),
        (json!("1.0.0"), "2024-11-05"),
        (json!(["2025-06-18", "2024-11-05"]), "2025-06-18"),
    ] {
        let mut peer = connect(Fixture::new().server).await;
        let params = json!({"protocolVersion": requested, "capabilities": {"tools": {}, "x": 1}});
        let result = peer.call("initialize", params).await["result"].clone();
        assert_eq!(result["protocolVersion"], agreed, "asked for {requested}");
        let has_description = result["serverInfo"].get("description").is_some();
        assert_eq!(has_description, agreed == "2025-11-25");
    }
    for (params, details) in [
        (json!({}), "protocolVersion is required"),
        (json!({"protocolVersion": 7}), "protocolVersion must be a string"),
        (json!({"protocolVersion": "2025-11-25", "clientInfo": "me"}), "clientInfo is malformed"),
    ] {
        let mut peer = connect(Fixture::new().server).await;
        let error = peer.call("initialize", params).await["error"].clone();
        assert_eq!(error["code"], -32602);
        assert!(error["data"]["details"].as_str().unwrap().starts_with(details), "{error}");
        // A failed handshake may be repeated.
        peer.initialize(Revision::V2024_11_05).await;
    }
}

/// MCP-006: a connection has one handshake.
pub(crate) async fn a_second_handshake_is_refused(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_06_18).await;
    for params in [json!({"protocolVersion": "2024-11-05"}), json!({})] {
        let again = peer.call("initialize", params).await;
        assert_eq!(again["error"]["data"]["name"], "ALREADY_INITIALIZED");
    }
    let who = peer.call_tool("who", json!({})).await;
    assert_eq!(who["result"]["structuredContent"]["revision"], "2025-06-18");
}

/// C-21, MCP-002: a request with its own version is served statelessly, before and beside a
/// handshake.
pub(crate) async fn both_eras_share_a_connection(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let discovered = peer.call("server/discover", json!({"_meta": stateless_meta()})).await;
    let result = &discovered["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}));
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "public");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fixture");

    peer.initialize(Revision::V2025_06_18).await;
    let alone = peer.call("tools/call", json!({"name": "who", "_meta": stateless_meta()})).await;
    assert_eq!(alone["result"]["structuredContent"]["revision"], "2026-07-28");
    assert_eq!(alone["result"]["resultType"], "complete");
    let within = peer.call_tool("who", json!({})).await;
    assert_eq!(within["result"]["structuredContent"]["revision"], "2025-06-18");
    assert_eq!(within["result"].get("resultType"), None);
    let listed = peer.call("tools/list", json!({"_meta": stateless_meta()})).await;
    assert!(listed["result"]["ttlMs"].is_u64());
}

/// C-01, C-04, C-20: stateless requests have their own error codes, and methods of the other era
/// are unknown to them.
pub(crate) async fn stateless_errors_have_their_own_codes(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for (method, meta, code) in [
        ("tools/list", json!({version: "1900-01-01", capabilities: {}}), -32022),
        ("tools/list", json!({version: "2025-11-25", capabilities: {}}), -32022),
        (
            "tools/list",
            json!({version: "1900-01-01", "io.modelcontextprotocol/clientInfo": 7}),
            -32022,
        ),
        ("tools/list", json!({version: "2026-07-28"}), -32602),
        ("tools/list", json!({version: "2026-07-28", capabilities: []}), -32602),
        ("tools/list", json!({version: 7, capabilities: {}}), -32602),
        ("ping", stateless_meta(), -32601),
        ("shutdown", stateless_meta(), -32601),
        ("initialize", stateless_meta(), -32601),
        ("logging/setLevel", stateless_meta(), -32601),
        ("server/discover", json!({}), -32602),
    ] {
        let error = peer.call(method, json!({"_meta": meta})).await["error"].clone();
        assert_eq!(error["code"], code, "{method} with {meta}: {error}");
        if code == -32022 {
            assert_eq!(error["data"]["requested"], meta[version]);
            assert_eq!(error["data"]["supported"], error["data"]["supportedVersions"]);
            assert_eq!(error["data"]["supported"][0], "2026-07-28");
        }
    }
}

/// Sends a request as a client of this revision.
pub(crate) async fn call(
    peer: &mut mcp_flow_testkit::Peer,
    revision: Revision,
    method: &str,
    mut params: Value,
) -> Value {
    if revision.is_stateless() {
        params["_meta"] = stateless_meta();
    }
    peer.call(method, params).await
}
