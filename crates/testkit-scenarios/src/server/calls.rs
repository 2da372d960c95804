//! Listing and calling tools.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, Tool, ToolOutput};
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit_fixture::Fixture;

/// MCP-008, MCP-016, MCP-017, MCP-018, MCP-026, PAT-026, PAT-029, C-30: every listed tool can be
/// called, in every revision.
pub(crate) async fn a_tool_is_listed_and_called(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = connect(Fixture::new().server).await;
        peer.initialize(revision).await;
        peer.send("{\"jsonrpc\":\"2.0\",\"id\":\"list\",\"method\":\"tools/list\"}");
        let listed = peer.reply_to("list").await;
        let again = peer.call("tools/list", json!({})).await;
        assert_eq!(listed["result"], again["result"], "the order is stable");
        let tools = listed["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
        assert_eq!(
            (&tools[0]["name"], &tools[0]["description"]),
            (&json!("math.add"), &json!("Adds"))
        );
        for name in ["math.add", "math_add"] {
            let called = peer.call_tool(name, json!({"a": 2, "b": 3})).await;
            let content = json!([{"type": "text", "text": "5"}]);
            assert_eq!(called["result"], json!({"content": content, "isError": false}));
        }
    }
}

/// MCP-019, MCP-028, C-24: a failing tool returns a result with `isError`.
pub(crate) async fn a_failing_tool_is_a_result(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = connect(Fixture::new().server).await;
        peer.initialize(revision).await;
        let result = peer.call_tool("fail", json!({})).await["result"].clone();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "it did not work");
        let old = revision == Revision::V2024_11_05;
        let place = if old { &result["errorMessage"] } else { &result["_meta"]["errorMessage"] };
        assert_eq!(place, "it did not work");
    }
}

/// MCP-028, C-63: a panic anywhere is a failed result of its own call, and reveals nothing.
pub(crate) async fn a_panic_fails_only_its_call(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    for tool in ["panic", "panic_later", "panic_blocking"] {
        let reply = peer.call_tool(tool, json!({})).await;
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("internal error"), "{text}");
        assert_eq!(reply["result"]["_meta"]["error"]["code"], -32603, "{reply}");
        assert!(!reply.to_string().contains("secret"), "{reply}");
    }
    fixture.gate.release_all();
    assert_eq!(peer.reply_to(slow).await["result"]["isError"], false);
}

/// MCP-052, C-17: calls run concurrently, and responses are sent when they are ready.
pub(crate) async fn a_quick_call_overtakes_a_slow_one(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "wait"}));
    let quick = peer.ask("tools/call", json!({"name": "math.add", "arguments": {"a": 1, "b": 1}}));
    let ping = peer.ask("ping", json!({}));
    assert_eq!(peer.next().await["id"], quick);
    assert_eq!(peer.next().await["id"], ping);
    fixture.gate.until_waiting(1).await;
    fixture.gate.release_all();
    assert_eq!(peer.next().await["id"], slow);
}

/// MCP-027, C-24, C-31: invalid arguments are an error or a failed result, by revision.
pub(crate) async fn invalid_arguments_are_reported_by_revision(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = connect(Fixture::new().server).await;
        peer.initialize(revision).await;
        let reply = peer.call_tool("math.add", json!({"a": "x", "c": 1})).await;
        let error = if revision.features().argument_faults_as_results {
            assert_eq!(reply["result"]["isError"], true);
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            let reported: Value = serde_json::from_str(text).unwrap();
            assert_eq!(reported, reply["result"]["_meta"]["error"]);
            assert_eq!(reply["result"]["_meta"]["errorMessage"], *text);
            reported
        } else {
            reply["error"].clone()
        };
        assert_eq!(error["code"], -32602, "{reply}");
        let mut pointers: Vec<_> = error["data"]["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|violation| violation["pointer"].as_str().unwrap())
            .collect();
        pointers.sort_unstable();
        assert_eq!(pointers, ["/a", "/b", "/c"]);
    }
}

/// MCP-010, MCP-011: the id is echoed with its type.
pub(crate) async fn ids_are_echoed_unchanged(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    for id in [json!("7"), json!(7), json!(""), json!(-1), json!(0), json!(u64::MAX), json!(1.5)] {
        peer.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(peer.next().await, json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
}

/// C-22, C-53, PAT-011: the principal comes from the transport, not from what the client claims.
pub(crate) async fn the_principal_comes_from_the_transport(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let info = json!({"name": "root", "version": "1"});
    peer.call("initialize", json!({"protocolVersion": "2025-11-25", "clientInfo": info})).await;
    let who = peer.call_tool("who", json!({})).await["result"]["structuredContent"].clone();
    assert_eq!((&who["client"], &who["principal"]), (&json!("root"), &json!("local")));

    let mut anonymous = connect(Fixture::new().server).await;
    anonymous.call("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    let who = anonymous.call_tool("who", json!({})).await["result"]["structuredContent"].clone();
    assert_eq!(who["client"], "unknown");
}

/// A result that does not match the output schema is not sent; the call fails.
pub(crate) async fn a_result_must_match_its_output_schema(connect: &Connect) {
    let schema = json!({"type": "object", "properties": {"x": {"type": "number"}}});
    let tool = Tool::builder("give")
        .output_schema(schema)
        .quick(|_: &Context, arguments: Value| ToolOutput::structured(arguments))
        .unwrap();
    let mut peer = connect(Fixture::with(|builder| builder.tools(tool)).server).await;
    peer.initialize(Revision::V2025_11_25).await;
    let good = peer.call_tool("give", json!({"x": 1})).await["result"].clone();
    assert_eq!(good["structuredContent"], json!({"x": 1}));
    let bad = peer.call_tool("give", json!({"x": null})).await["result"].clone();
    assert_eq!((&bad["isError"], bad.get("structuredContent")), (&json!(true), None));
}
