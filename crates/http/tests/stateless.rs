//! Stateless requests of 2026-07-28.

use crate::support::{call, in_session, start, stateless_post};
use mcp_flow_server::{Context, Server, Tool};
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::stateless_meta;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

/// Headers that are missing or differ from the body yield -32020 with 400.
#[tokio::test]
async fn headers_must_match_the_body() {
    let running = start(&Fixture::new().server).await;
    let list = || stateless_post("tools/list", json!({}));
    let who = || stateless_post("tools/call", json!({"name": "who"}));
    let without = |member: &str| {
        let mut meta = stateless_meta();
        meta.as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{member}"));
        stateless_post("tools/list", json!({"_meta": meta}))
    };
    let mut old = stateless_meta();
    old["io.modelcontextprotocol/protocolVersion"] = json!("1900-01-01");
    let old = stateless_post("tools/list", json!({"_meta": old}));
    for (request, status, code) in [
        (list(), 200, Value::Null),
        (who(), 200, Value::Null),
        (who().header("mcp-name", "=?base64?d2hv?="), 200, Value::Null),
        (who().header("mcp-name", "=?base64?!!?="), 400, json!(-32020)),
        (who().header("mcp-name", "fail"), 400, json!(-32020)),
        (who().without("mcp-name"), 400, json!(-32020)),
        (list().without("mcp-method"), 400, json!(-32020)),
        (list().header("mcp-method", "tools/call"), 400, json!(-32020)),
        (list().without("mcp-protocol-version"), 400, json!(-32020)),
        (list().header("mcp-protocol-version", "2025-11-25"), 400, json!(-32020)),
        (old.clone().header("mcp-protocol-version", "1900-01-01"), 400, json!(-32022)),
        (old, 400, json!(-32020)),
        (without("protocolVersion"), 400, json!(-32602)),
        (without("clientCapabilities"), 400, json!(-32602)),
        (stateless_post("no/such/method", json!({})), 404, json!(-32601)),
        (stateless_post("initialize", json!({})), 404, json!(-32601)),
        (stateless_post("tools/call", json!({"name": "nothing"})), 200, json!(-32602)),
        (list().header("mcp-session-id", "ignored"), 200, Value::Null),
    ] {
        let shown = format!("{request:?}");
        let mut answer = running.send(request).await;
        let body = answer.json().await;
        assert_eq!((answer.status, &body["error"]["code"]), (status, &code), "{shown}: {body}");
        assert_eq!(body["id"], 1, "{shown}");
    }
    for method in ["GET", "DELETE"] {
        let request = Request::new(method, "/mcp").header("mcp-protocol-version", "2026-07-28");
        let answer = running.send(request).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    }
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let response = Request::post("/mcp", response).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(running.send(response).await.status, 400);
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled"});
    let notice = Request::post("/mcp", notice).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(running.send(notice).await.status, 202);
}

/// Arguments marked with `x-mcp-header` must match their headers.
#[tokio::test]
async fn marked_arguments_must_match_their_headers() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "deep": {"type": "object", "properties": {
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        }},
    }});
    let tool = Tool::builder("routed").input_schema(schema).quick(|_: &Context, _: Value| "here");
    let running = start(&Fixture::with(|builder| builder.tools(tool)).server).await;
    let full = json!({"region": "Grüße", "count": 42, "deep": {"flag": true}});
    let german = [("Region", "=?base64?R3LDvMOfZQ==?="), ("Count", "42.0"), ("Flag", "true")];
    let without = |name: &str| german.into_iter().filter(|(known, _)| *known != name).collect();
    let with = |name: &'static str, value: &'static str| {
        let mut headers: Vec<_> = without(name);
        headers.push((name, value));
        headers
    };
    for (arguments, headers, status) in [
        (full.clone(), german.to_vec(), 200),
        (full.clone(), without("Region"), 400),
        (full.clone(), with("Count", "43"), 400),
        (full.clone(), with("Count", "many"), 400),
        (full.clone(), with("Flag", "false"), 400),
        (full.clone(), with("Region", "=?base64?%?="), 400),
        (full, with("Other", "x"), 200),
        (json!({}), vec![], 200),
        (json!({"region": null}), vec![], 200),
        (json!({}), vec![("Region", "x")], 400),
    ] {
        let mut request =
            stateless_post("tools/call", json!({"name": "routed", "arguments": arguments}));
        for (name, value) in &headers {
            request = request.header(&format!("mcp-param-{name}"), value);
        }
        let mut answer = running.send(request).await;
        let body = answer.json().await;
        assert_eq!(answer.status, status, "{arguments} {headers:?}: {body}");
        assert!(status == 200 || body["error"]["code"] == -32020, "{body}");
    }
}

/// Closing the response stream, or the connection before it begins, cancels the request.
#[tokio::test]
async fn disconnecting_cancels_the_request() {
    let fixture = Fixture::new();
    let running = start(&fixture.server).await;
    let mut connection = mcp_flow_testkit::http::Connection::open(running.address).await;
    connection.write(&stateless_post("tools/call", json!({"name": "wait"})).bytes()).await;
    fixture.gate.until_waiting(1).await;
    drop(connection);
    fixture.gate.until_waiting(0).await;

    let options = mcp_flow_http::Options {
        keep_alive: std::time::Duration::from_millis(10),
        ..mcp_flow_http::Options::default()
    };
    let running = crate::support::start_with_options(&fixture.server, options).await;
    let stream = running.send(stateless_post("tools/call", json!({"name": "wait"}))).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    fixture.gate.until_waiting(1).await;
    drop(stream);
    fixture.gate.until_waiting(0).await;
}

/// A subscription receives changes on its response stream, and ends when the server drains.
#[tokio::test]
async fn subscriptions_receive_changes_on_their_stream() {
    let server = Fixture::new().server;
    let running = start(&server).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = running.send(stateless_post("subscriptions/listen", wanted)).await;
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    let begun = stream.message().await.unwrap();
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    assert!(server.remove_tool("fail"));
    let change = stream.message().await.unwrap();
    assert_eq!(change["method"], "notifications/tools/list_changed");
    running.stop().await;
    assert_eq!(stream.message().await.unwrap()["result"]["resultType"], "complete");
    assert_eq!(stream.raw_event().await, None);
}

/// MCP-077: a request whose `_meta` has no trace context is part of the trace in its headers.
#[tokio::test]
async fn trace_context_is_read_from_headers() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-01";
    let traced = Tool::builder("traced").handler(async |context: Context, _: Value| {
        let trace = context.trace().cloned().unwrap_or_default();
        let parent = trace.parent.map(|parent| parent.to_string());
        json!([parent, trace.state, trace.baggage]).to_string()
    });
    let server = Server::builder("traced", "1.0.0").tools([traced.unwrap()]).build().unwrap();
    let running = start(&server).await;
    let session = running.open_session("2025-11-25").await;
    let params = json!({"name": "traced", "arguments": {}});
    let mut meta = stateless_meta();
    meta["traceparent"] = OTHER.into();
    let named = json!({"name": "traced", "arguments": {}, "_meta": meta});
    let long = "x".repeat(20_000);
    for (request, said) in [
        (
            stateless_post("tools/call", params.clone()),
            [Some(PARENT), Some("a=1,b=2"), Some("t=1")],
        ),
        (
            in_session(&session, call(1, "traced", json!({}))),
            [Some(PARENT), Some("a=1,b=2"), Some("t=1")],
        ),
        (stateless_post("tools/call", named), [Some(OTHER), None, None]),
    ] {
        let request = request.header("traceparent", PARENT);
        let request = request.header("tracestate", "a=1,b=2").header("baggage", "t=1");
        let answer = running.send(request).await.json().await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, json!(said).to_string());
    }
    for (parent, baggage) in [("nonsense", "\u{e9}"), ("", &*long)] {
        let request = stateless_post("tools/call", params.clone()).header("traceparent", parent);
        let answer = running.send(request.header("baggage", baggage)).await.json().await;
        assert_eq!(answer["result"]["content"][0]["text"], "[null,null,null]", "{answer}");
    }
    running.stop().await;
}
