//! Limits in time and number, on a paused clock.

use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_server::{ConnectionInfo, Limits, VersionPolicy};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// A call past its time limit is stopped and answered.
#[tokio::test(start_paused = true)]
async fn a_call_past_its_time_limit_is_stopped() {
    let limits = Limits { call_time: Duration::from_secs(600), ..Limits::default() };
    let fixture = Fixture::with_limits(limits);
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let error = peer.call_tool("wait", json!({})).await["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["name"]),
        (&json!(-32603), &json!("CALL_TIMED_OUT"))
    );
    assert_eq!(error["data"]["limitMs"], 600_000);
    fixture.gate.until_waiting(0).await;
}

/// A request that the client does not answer in time is cancelled.
#[tokio::test(start_paused = true)]
async fn unanswered_client_requests_are_cancelled() {
    let fixture = Fixture::new();
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let id = peer.ask("tools/call", json!({"name": "ask_client"}));
    let request = peer.next().await;
    assert_eq!(request["method"], "roots/list");
    let cancelled = peer.next().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    let reply = peer.reply_to(id).await;
    assert_eq!(reply["result"]["isError"], true);
    peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}));
    assert_eq!(peer.settle().await, Vec::<Value>::new(), "a late answer is dropped");
}

/// PAT-011: outstanding requests to a client are limited.
#[tokio::test]
async fn open_client_requests_are_capped() {
    let fixture = Fixture::with_limits(Limits { client_requests: 1, ..Limits::default() });
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    peer.ask("tools/call", json!({"name": "ask_client"}));
    assert_eq!(peer.next().await["method"], "roots/list");
    let refused = peer.call_tool("ask_client", json!({})).await;
    let text = refused["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("ask again later"), "{text}");
}

/// C-17: a call lends its permit once, however many requests to the client it has.
#[tokio::test]
async fn a_call_lends_its_permit_once() {
    let fixture = Fixture::with_limits(Limits { concurrency: 2, ..Limits::default() });
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let asking = peer.ask("tools/call", json!({"name": "ask_client_twice"}));
    for _ in 0..2 {
        let request = peer.find(|message| message["method"] == "roots/list").await;
        peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}));
    }
    assert_eq!(peer.reply_to(asking).await["result"]["content"][0]["text"], "{}{}");
    for _ in 0..3 {
        peer.ask("tools/call", json!({"name": "wait"}));
    }
    fixture.gate.until_waiting(2).await;
    assert_eq!(peer.settle().await, Vec::<Value>::new());
    fixture.gate.until_waiting(2).await;
    for _ in 0..3 {
        fixture.gate.release_one();
        peer.next().await;
    }
}

/// Running requests are counted by their bytes, so that long ones wait sooner.
#[tokio::test]
async fn long_requests_wait_sooner() {
    let fixture = Fixture::with_limits(Limits { running_bytes: 1000, ..Limits::default() });
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let arguments = json!({"padding": "x".repeat(600)});
    for _ in 0..4 {
        peer.ask("tools/call", json!({"name": "wait", "arguments": arguments}));
    }
    fixture.gate.until_waiting(2).await;
    assert_eq!(peer.settle().await, Vec::<Value>::new());
    fixture.gate.until_waiting(2).await;
    for _ in 0..4 {
        fixture.gate.release_one();
        peer.next().await;
    }
}

/// MCP-054: draining has a time limit, and everything still open is answered first.
#[tokio::test(start_paused = true)]
async fn draining_has_a_time_limit() {
    let limits = Limits { concurrency: 2, drain_time: Duration::from_secs(5), ..Limits::default() };
    let fixture = Fixture::with_limits(limits);
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let ids: Vec<_> = (0..5).map(|_| peer.ask("tools/call", json!({"name": "wait"}))).collect();
    peer.close();
    let rest = peer.rest().await;
    let mut answered: Vec<_> = rest.iter().filter_map(|reply| reply["id"].as_i64()).collect();
    answered.sort_unstable();
    assert_eq!(answered, ids, "each exactly once");
    assert!(rest.iter().all(|reply| reply["error"]["data"]["name"] == "SHUTTING_DOWN"));
    fixture.gate.until_waiting(0).await;
}

/// C-17, MCP-054: calls answered in order keep that order when draining times out.
#[tokio::test(start_paused = true)]
async fn draining_ends_in_order() {
    let fixture = Fixture::with_limits(Limits { concurrency: 1, ..Limits::default() });
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let ids: Vec<_> = (0..5).map(|_| peer.ask("tools/call", json!({"name": "wait"}))).collect();
    peer.close();
    let rest = peer.rest().await;
    let answered: Vec<_> = rest.iter().filter_map(|reply| reply["id"].as_i64()).collect();
    assert_eq!(answered, ids);
}

/// PAT-007, C-21: unsolicited messages wait until the client is ready.
#[tokio::test]
async fn unsolicited_messages_wait_until_the_client_is_ready() {
    let fixture = Fixture::new();
    let connection = fixture.server.connect(ConnectionInfo::new("memory")).unwrap();
    let client = connection.client();
    let unasked =
        tokio::spawn(async move { client.notify("notifications/x", &json!({})).await.unwrap() });
    let receive = |message: Value| {
        connection.receive(message.to_string().as_bytes());
        connection.take_output().map(|segment| String::from_utf8(segment.lines().into()).unwrap())
    };
    receive(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let params = json!({"protocolVersion": "2025-11-25"});
    let opened = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params});
    assert!(receive(opened).unwrap().contains("protocolVersion"));
    tokio::task::yield_now().await;
    let pong = receive(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).unwrap();
    assert!(!pong.contains("notifications/x"), "ping is no sign of readiness");
    receive(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    unasked.await.unwrap();
    let sent = connection.output().await.unwrap();
    assert!(String::from_utf8_lossy(sent.lines()).contains("notifications/x"));
}

/// C-52: batches have a length limit.
#[tokio::test]
async fn long_batches_are_rejected() {
    let fixture = Fixture::with_limits(Limits { batch: 2, ..Limits::default() });
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_03_26).await;
    let ping = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    peer.send(json!([ping(1), ping(2), ping(3)]));
    let refused = peer.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(null), &json!(-32600)));
}

/// PAT-026, C-30: a long list is paged, and has each tool once.
#[tokio::test]
async fn lists_are_paged() {
    let name = |tool: &Value| tool["name"].to_string();
    let mut peer = connect(&Fixture::new());
    peer.initialize(Revision::V2025_11_25).await;
    let whole = peer.call("tools/list", json!({})).await["result"]["tools"].clone();
    let all: Vec<_> = whole.as_array().unwrap().iter().map(name).collect();

    let fixture = Fixture::with_limits(Limits { page: 3, ..Limits::default() });
    let mut peer = connect(&fixture);
    peer.initialize(Revision::V2025_11_25).await;
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = peer.call("tools/list", params).await["result"].clone();
        let tools = page["tools"].as_array().unwrap().clone();
        assert!(tools.len() <= 3);
        names.extend(tools.iter().map(name));
        assert!(names.len() <= all.len(), "the pages have no end");
        let Some(cursor) = page.get("nextCursor") else { break };
        params = json!({"cursor": cursor});
    }
    assert_eq!(names, all);
}

/// C-04, PAT-006, PAT-012: a client below the minimum version is rejected, with both spellings of
/// the supported versions.
#[tokio::test]
async fn clients_below_the_minimum_version_are_rejected() {
    let versions = VersionPolicy::Negotiate { minimum: Some(Revision::V2025_06_18) };
    let fixture = Fixture::with(|builder| builder.versions(versions));
    let mut peer = connect(&fixture);
    let error =
        peer.call("initialize", json!({"protocolVersion": "2024-11-05"})).await["error"].clone();
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"]["name"], "UNSUPPORTED_PROTOCOL_VERSION");
    assert_eq!(error["data"]["supported"], json!(["2026-07-28", "2025-11-25", "2025-06-18"]));
    assert_eq!(error["data"]["supported"], error["data"]["supportedVersions"]);
    peer.initialize(Revision::V2025_06_18).await;
}

/// MCP-007, PAT-025: without tools there is no tools capability and no tools method.
#[tokio::test]
async fn undeclared_methods_are_not_served() {
    let server = mcp_flow_server::Server::builder("empty", "1.0.0").build().unwrap();
    let mut peer = memory::connect(&server);
    let result = peer.initialize(Revision::V2025_11_25).await;
    assert_eq!(result["capabilities"], json!({"logging": {}}));
    for method in ["tools/list", "tools/call", "resources/list", "prompts/list"] {
        assert_eq!(peer.call(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
}

/// A peer with a timeout longer than the jumps of the paused clock.
fn connect(fixture: &Fixture) -> Peer {
    memory::connect(&fixture.server).timeout(Duration::from_secs(86_400))
}
