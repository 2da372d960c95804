//! The fixtures of the official conformance suite over every transport but Streamable HTTP.

use std::net::SocketAddr;

use mcp_flow::engine::SessionLimits;
use mcp_flow::{ConnectionInfo, Revision, Server};
use mcp_flow_examples::everything;
use mcp_flow_testkit::{Peer, lines, sse, stateless_meta, websocket};
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

#[tokio::test]
async fn everything_is_served_in_memory() {
    run_scenario(async |server| memory::connect(server)).await;
}

#[tokio::test]
async fn everything_is_served_over_stdio() {
    run_scenario(async |server| {
        let (ours, theirs) = tokio::io::duplex(100);
        let connection = server.connect(ConnectionInfo::new("stdio")).unwrap();
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            let never = std::future::pending();
            mcp_flow::stdio::lines::drive(&connection, reader, writer, never).await.unwrap();
        });
        let (reader, writer) = tokio::io::split(ours);
        lines::connect(reader, writer, ())
    })
    .await;
}

#[tokio::test]
async fn everything_is_served_over_sse() {
    run_scenario(async |server| sse::connect(serve(server).await, async {}).await).await;
}

#[tokio::test]
async fn everything_is_served_over_websocket() {
    run_scenario(async |server| websocket::connect(serve(server).await, async {}).await).await;
}

/// A caller without credentials can open more tasks than a server allows one principal by default.
#[tokio::test]
async fn one_caller_may_open_thousands_of_tasks() {
    let mut peer = memory::connect(&everything::server().build().unwrap());
    let mut meta = stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = json!({"name": "multi_input", "_meta": meta});
    for number in 0..=SessionLimits::default().sessions_per_owner {
        let reply = peer.call("tools/call", call.clone()).await;
        assert_eq!(reply["result"]["resultType"], "task", "{number}: {reply}");
    }
}

/// MCP-020: the same exchange over each transport, at every revision.
async fn run_scenario(connect: impl AsyncFn(&Server) -> Peer) {
    for revision in Revision::handshake() {
        let server = everything::server().build().unwrap();
        let mut peer = connect(&server).await;
        let can = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let hello = peer.initialize_with(revision, can).await;
        assert_eq!(hello["protocolVersion"], revision.name());
        lists_are_complete(&mut peer).await;
        contents_are_as_described(&mut peer).await;
        if revision.name() >= "2025-06-18" {
            questions_are_asked(&mut peer).await;
        }
    }
}

/// MCP-016, MCP-078, MCP-080, MCP-082: everything is listed.
async fn lists_are_complete(peer: &mut Peer) {
    for (method, list, name) in [
        ("tools/list", "tools", "test_simple_text"),
        ("prompts/list", "prompts", "test_simple_prompt"),
        ("resources/list", "resources", "static-text"),
        ("resources/templates/list", "resourceTemplates", "template"),
    ] {
        let reply = peer.call(method, json!({})).await;
        let listed = reply["result"][list].as_array().unwrap_or_else(|| panic!("{reply}"));
        assert!(listed.iter().any(|entry| entry["name"] == name), "{method}: {listed:?}");
    }
}

/// MCP-017, MCP-018, MCP-028, MCP-080, MCP-084, MCP-085.
async fn contents_are_as_described(peer: &mut Peer) {
    let text = peer.call_tool("test_simple_text", json!({})).await;
    let expected = json!({"type": "text", "text": "This is a simple text response for testing."});
    assert_eq!(text["result"]["content"], json!([expected]));
    let failure = peer.call_tool("test_error_handling", json!({})).await;
    assert_eq!(failure["result"]["isError"], true);
    let read = peer.call("resources/read", json!({"uri": "test://template/123/data"})).await;
    let data: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(data, json!({"id": "123", "templateTest": true, "data": "Data for ID: 123"}));
    let arguments = json!({"arg1": "one", "arg2": "two"});
    let params = json!({"name": "test_prompt_with_arguments", "arguments": arguments});
    let prompt = peer.call("prompts/get", params).await;
    let said = &prompt["result"]["messages"][0]["content"]["text"];
    assert_eq!(said, "Prompt with arguments: arg1='one', arg2='two'");
    let params = json!({"name": "test_tool_with_progress", "_meta": {"progressToken": "p"}});
    let id = peer.ask("tools/call", params);
    for progress in [0.0, 50.0, 100.0] {
        assert_eq!(peer.next().await["params"]["progress"], progress);
    }
    assert_eq!(peer.next().await["id"], id);
}

/// MCP-005: the client is asked, and its answer is returned.
async fn questions_are_asked(peer: &mut Peer) {
    let id = peer.ask(
        "tools/call",
        json!({"name": "test_elicitation", "arguments": {"message": "Who are you?"}}),
    );
    let question = peer.next().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who are you?");
    let content = json!({"username": "ada", "email": "ada@example.com"});
    let answer = json!({"action": "accept", "content": content});
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let reply = peer.reply_to(id).await;
    assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains("ada@example.com"));
}

/// Serves over HTTP for as long as the test runs.
async fn serve(server: &Server) -> SocketAddr {
    let http = mcp_flow::http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, server) = (http.address(), server.clone());
    tokio::spawn(async move { http.serve(&server, std::future::pending()).await });
    address
}
