//! Sessions of Streamable HTTP: ids, expiry, eviction, resumption, draining.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{call, in_session, initialize, start, start_with, start_with_options};
use mcp_flow_http::Options;
use mcp_flow_identity::StaticTokens;
use mcp_flow_server::{Context, Tool};
use mcp_flow_testkit::http::{Request, Response};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// MCP-021: session ids are long and unique.
#[tokio::test]
async fn session_ids_are_long_and_unique() {
    let running = start(&Fixture::new().server).await;
    let mut seen = HashSet::new();
    for _ in 0..100 {
        let answer = running.send(initialize("2025-11-25")).await;
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert!(seen.insert(id));
    }
}

/// A DELETE ends a session and its streams.
#[tokio::test]
async fn deleting_a_session_ends_its_streams() {
    let fixture = Fixture::new();
    let running = start(&fixture.server).await;
    let id = running.open_session("2025-11-25").await;
    let mut listening = running.send(Request::get("/mcp").header("mcp-session-id", &id)).await;
    let waiting = tokio::spawn({
        let (request, address) = (in_session(&id, call(1, "wait", json!({}))), running.address);
        async move { request.send(address).await.json().await }
    });
    fixture.gate.until_waiting(1).await;
    let delete = Request::new("DELETE", "/mcp").header("mcp-session-id", &id);
    assert_eq!(running.send(delete.clone()).await.status, 204);
    assert_eq!(listening.event().await, None, "its stream ends");
    let error = waiting.await.unwrap();
    assert_eq!(
        (&error["id"], &error["error"]["data"]["name"]),
        (&json!(1), &json!("SHUTTING_DOWN"))
    );
    fixture.gate.until_waiting(0).await;
    assert_eq!(running.send(delete).await.status, 404);
    running.until_metric("mcp_flow_transport_sessions{kind=\"streamable\"}", 0).await;
}

/// C-20: a session is removed once its shutdown request is answered.
#[tokio::test]
async fn shutdown_removes_the_session() {
    let running = start(&Fixture::new().server).await;
    let id = running.open_session("2025-11-25").await;
    let shutdown = json!({"jsonrpc": "2.0", "id": 1, "method": "shutdown"});
    let mut answer = running.send(in_session(&id, shutdown.clone())).await;
    assert_eq!(answer.json().await, json!({"jsonrpc": "2.0", "id": 1, "result": null}));
    running.until_metric("mcp_flow_transport_sessions{kind=\"streamable\"}", 0).await;
    assert_eq!(running.send(in_session(&id, shutdown)).await.status, 404);
}

/// MCP-009, C-47: an idle session expires; one with an open stream or a running call does not.
#[tokio::test]
async fn idle_sessions_expire() {
    let fixture = Fixture::new();
    let options = Options { session_idle_timeout: Duration::from_millis(50), ..Options::default() };
    let running = start_with_options(&fixture.server, options).await;
    let open = running.open_session("2025-11-25").await;
    let mut listening = running.send(Request::get("/mcp").header("mcp-session-id", &open)).await;
    let busy = running.open_session("2025-11-25").await;
    let waiting = tokio::spawn({
        let (request, address) = (in_session(&busy, call(1, "wait", json!({}))), running.address);
        async move { request.send(address).await.status }
    });
    fixture.gate.until_waiting(1).await;
    let idle = running.open_session("2025-11-25").await;
    running.until_metric("mcp_flow_transport_sessions{kind=\"streamable\"}", 2).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(running.send(in_session(&idle, ping.clone())).await.status, 404);
    assert_eq!(running.send(in_session(&open, ping.clone())).await.status, 200);
    assert_eq!(running.send(in_session(&busy, ping)).await.status, 200);
    fixture.gate.release_all();
    assert_eq!(waiting.await.unwrap(), 200);
    running.until_metric("mcp_flow_transport_sessions{kind=\"streamable\"}", 1).await;
    running.stop().await;
    assert_eq!(listening.event().await, None);
}

/// At the limit the longest idle session is evicted; if none is idle, no session is opened.
#[tokio::test]
async fn the_longest_idle_session_is_evicted() {
    let fixture = Fixture::new();
    let options = Options { max_sessions: 2, ..Options::default() };
    let running = start_with_options(&fixture.server, options).await;
    let first = running.open_session("2025-11-25").await;
    let _first_stream = running.send(Request::get("/mcp").header("mcp-session-id", &first)).await;
    let second = running.open_session("2025-11-25").await;
    let third = running.open_session("2025-11-25").await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(running.send(in_session(&second, ping.clone())).await.status, 404);
    assert_eq!(running.send(in_session(&first, ping)).await.status, 200);
    let _third_stream = running.send(Request::get("/mcp").header("mcp-session-id", &third)).await;
    let mut refused = running.send(initialize("2025-11-25")).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.json().await.to_string().contains("too many sessions"));
}

/// PAT-020: a principal with too many sessions evicts its own, not those of others.
#[tokio::test]
async fn sessions_of_other_principals_are_not_evicted() {
    let tokens: StaticTokens =
        "ada:ada-0123456789abcdef\nbob:bob-0123456789abcdef".parse().unwrap();
    let options = Options { max_sessions: 3, ..Options::default() };
    let running = start_with(&Fixture::new().server, |bound| {
        bound.options(options).verifier(Arc::new(tokens))
    })
    .await;
    let by = |name: &str, request: Request| {
        request.header("authorization", &format!("Bearer {name}-0123456789abcdef"))
    };
    let open = async |name: &str| {
        let opened = running.send(by(name, initialize("2025-11-25"))).await;
        opened.header("mcp-session-id").unwrap().to_owned()
    };
    let ada = open("ada").await;
    let mut bobs = Vec::new();
    for _ in 0..5 {
        bobs.push(open("bob").await);
    }
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(running.send(by("ada", in_session(&ada, ping.clone()))).await.status, 200);
    for (session, status) in bobs.iter().zip([404, 404, 404, 200, 200]) {
        assert_eq!(running.send(by("bob", in_session(session, ping.clone()))).await.status, status);
    }
    // Busy sessions make no difference.
    let delete = Request::new("DELETE", "/mcp").header("mcp-session-id", &ada);
    assert_eq!(running.send(by("ada", delete)).await.status, 204);
    bobs.push(open("bob").await);
    let mut streams = Vec::new();
    for session in &bobs[3..] {
        let request = Request::get("/mcp").header("mcp-session-id", session);
        streams.push(running.send(by("bob", request)).await);
    }
    let ada = open("ada").await;
    assert_eq!(running.send(by("ada", in_session(&ada, ping.clone()))).await.status, 200);
    let mut left = 0;
    for session in &bobs[3..] {
        let answer = running.send(by("bob", in_session(session, ping.clone()))).await;
        left += usize::from(answer.status == 200);
    }
    assert_eq!(left, 2);
    drop(streams);
    running.stop().await;
}

/// MCP-030: 10,000 abandoned sessions are cleaned up.
#[tokio::test]
async fn abandoned_sessions_are_cleaned_up() {
    let options = Options { session_idle_timeout: Duration::from_secs(1), ..Options::default() };
    let running = start_with_options(&Fixture::new().server, options).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    running.metric("mcp_flow_http_connections").await;
    let tasks_before = tasks();
    let mut connection = mcp_flow_testkit::http::Connection::open(running.address).await;
    for _ in 0..10_000 {
        connection.write(&initialize("2025-11-25").bytes()).await;
        let mut answer = connection.response().await;
        assert_eq!(answer.status, 200);
        answer.text().await;
        connection = answer.into_connection();
    }
    drop(connection);
    running.until_metric("mcp_flow_transport_sessions{kind=\"streamable\"}", 0).await;
    // The remaining connection is the one that reads the metrics.
    running.until_metric("mcp_flow_http_connections", 1).await;
    let settled = async {
        while tasks() > tasks_before {
            tokio::task::yield_now().await;
        }
    };
    let settled = tokio::time::timeout(Duration::from_secs(30), settled).await;
    assert!(settled.is_ok(), "{tasks_before} tasks became {}", tasks());
}

/// An interrupted stream is resumed after the last event, including the result, repeatedly.
#[tokio::test]
async fn an_interrupted_stream_is_resumed() {
    let running = start(&Fixture::with(|builder| builder.tools(talkative())).server).await;
    let id = running.open_session("2025-11-25").await;
    let mut first = running.send(in_session(&id, call("x", "talk", json!({"times": 5})))).await;
    let primed = first.raw_event().await.unwrap();
    assert_eq!((primed.id.as_deref(), &*primed.data), (Some("1-0"), ""));
    assert!(primed.lines.contains(&"retry: 1000".to_owned()));
    assert_eq!(first.event().await.unwrap().id.as_deref(), Some("1-1"));
    drop(first);
    for (last, count) in [("1-1", 5), ("1-3", 3), ("1-0", 6), ("1-6", 0)] {
        let mut again = running.send(resume(&id, last)).await;
        let messages = all(&mut again).await;
        assert_eq!(messages.len(), count, "after {last}");
        assert!(count == 0 || messages[count - 1]["id"] == "x");
    }
    for unknown in ["9-1", "nonsense", ""] {
        let mut refused = running.send(resume(&id, unknown)).await;
        assert_eq!(refused.status, 400, "{unknown:?}");
        assert!(refused.json().await.to_string().contains("Last-Event-ID"));
    }
}

/// A tool may close its stream and keep running: the client reconnects and reads the rest. In
/// revisions without priming events the stream stays open.
#[tokio::test]
async fn a_call_can_close_its_stream() {
    let gate = Arc::new(Notify::new());
    let fixture = Fixture::with(|builder| builder.tools(leaving(&gate)));
    let running = start(&fixture.server).await;
    for (says_something, last) in [(false, "-0"), (true, "-1")] {
        let id = running.open_session("2025-11-25").await;
        let request = call(7, "leave", json!({"says": says_something}));
        let mut first = running.send(in_session(&id, request)).await;
        let primed = first.raw_event().await.unwrap();
        assert!(primed.lines.contains(&"retry: 1000".to_owned()), "{primed:?}");
        let mut read = primed.id.unwrap();
        while let Some(event) = first.raw_event().await {
            read = event.id.unwrap();
        }
        assert!(read.ends_with(last), "{read}");
        let mut again = running.send(resume(&id, &read)).await;
        gate.notify_one();
        assert_eq!(again.message().await.unwrap()["result"]["content"][0]["text"], "back");
        assert_eq!(again.raw_event().await, None);
    }
    let id = running.open_session("2025-06-18").await;
    let request = in_session(&id, call(7, "leave", json!({"says": true})));
    let mut only = running.send(request).await;
    assert_eq!(only.message().await.unwrap()["params"]["data"], "before");
    gate.notify_one();
    assert_eq!(only.message().await.unwrap()["result"]["content"][0]["text"], "back");
}

/// Older revisions have no priming events.
#[tokio::test]
async fn older_streams_are_not_primed() {
    let running = start(&Fixture::with(|builder| builder.tools(talkative())).server).await;
    for version in ["2025-03-26", "2025-06-18"] {
        let id = running.open_session(version).await;
        let mut stream = running.send(in_session(&id, call(1, "talk", json!({"times": 1})))).await;
        assert!(!stream.raw_event().await.unwrap().data.is_empty());
    }
}

/// Events kept for resumption are bounded.
#[tokio::test]
async fn replay_is_bounded() {
    let options = Options { replay_bytes: 1000, ..Options::default() };
    let fixture = Fixture::with(|builder| builder.tools(talkative()));
    let running = start_with_options(&fixture.server, options).await;
    let id = running.open_session("2025-11-25").await;
    let mut first = running.send(in_session(&id, call(1, "talk", json!({"times": 100})))).await;
    assert_eq!(all(&mut first).await.len(), 101, "a reader misses nothing");
    let mut again = running.send(resume(&id, "1-0")).await;
    let messages = all(&mut again).await;
    assert!((1..20).contains(&messages.len()), "{}", messages.len());
    assert_eq!(messages.last().unwrap()["id"], 1, "the newest are kept");
}

/// C-47: quiet streams carry keep-alives, and a slow reply becomes an event stream.
#[tokio::test]
async fn quiet_streams_are_kept_alive() {
    let fixture = Fixture::new();
    let options = Options { keep_alive: Duration::from_millis(20), ..Options::default() };
    let running = start_with_options(&fixture.server, options).await;
    let id = running.open_session("2025-06-18").await;
    let mut slow = running.send(in_session(&id, call(1, "wait", json!({})))).await;
    assert_eq!(slow.header("content-type"), Some("text/event-stream"));
    assert_eq!(slow.raw_event().await.unwrap().lines, [":"]);
    fixture.gate.release_all();
    assert_eq!(slow.message().await.unwrap()["id"], 1);
    assert_eq!(slow.raw_event().await, None);
}

/// Draining waits for running calls. Meanwhile new connections are told that the server is not ready,
/// and to come back.
#[tokio::test]
async fn draining_waits_for_running_calls() {
    let fixture = Fixture::new();
    let running = start(&fixture.server).await;
    let id = running.open_session("2025-11-25").await;
    let waiting = tokio::spawn({
        let (request, address) = (in_session(&id, call(1, "wait", json!({}))), running.address);
        async move { request.send(address).await.json().await }
    });
    fixture.gate.until_waiting(1).await;
    let address = running.address;
    let stopping = tokio::spawn(running.stop());
    let drains = async {
        while Request::get("/readyz").send(address).await.status != 503 {
            tokio::task::yield_now().await;
        }
    };
    within("the server to drain", drains).await;
    assert_eq!(Request::get("/healthz").send(address).await.status, 200);
    let mut refused = Request::post("/mcp", call(1, "wait", json!({}))).send(address).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.json().await["error"]["data"]["name"], "SHUTTING_DOWN");
    fixture.gate.release_all();
    assert_eq!(waiting.await.unwrap()["result"]["content"][0]["text"], "done");
    stopping.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

/// Draining does not wait for idle connections.
#[tokio::test]
async fn draining_does_not_wait_for_idle_connections() {
    let running = start(&Fixture::new().server).await;
    let _fresh = mcp_flow_testkit::http::Connection::open(running.address).await;
    let mut used = running.send(Request::get("/healthz")).await;
    used.text().await;
    let id = running.open_session("2025-11-25").await;
    let mut listening = running.send(Request::get("/mcp").header("mcp-session-id", &id)).await;
    let ended = tokio::time::timeout(Duration::from_secs(8), running.stop()).await;
    assert!(ended.is_ok(), "it waits for the header of a request that never comes");
    assert_eq!(listening.event().await, None);
}

fn resume(session: &str, last: &str) -> Request {
    Request::get("/mcp").header("mcp-session-id", session).header("last-event-id", last)
}

async fn all(response: &mut Response) -> Vec<Value> {
    assert_eq!(response.status, 200);
    let mut messages = Vec::new();
    while let Some(message) = response.message().await {
        messages.push(message);
    }
    messages
}

/// Tool that sends a number of notifications before its result.
fn talkative() -> Tool {
    let tool = Tool::builder("talk").handler(async |context: Context, arguments: Value| {
        for number in 0..arguments["times"].as_u64().unwrap_or_default() {
            let level = mcp_flow_server::proto::model::LogLevel::Error;
            context.log(level, None, json!({"number": number}));
            tokio::task::yield_now().await;
        }
        "said"
    });
    tool.expect("the tool is good")
}

/// Tool that closes its stream, perhaps after a notification, and waits to be released.
fn leaving(gate: &Arc<Notify>) -> Tool {
    let gate = gate.clone();
    let tool = Tool::builder("leave").handler(move |context: Context, arguments: Value| {
        let gate = gate.clone();
        async move {
            if arguments["says"] == true {
                context.log(mcp_flow_server::proto::model::LogLevel::Error, None, "before");
            }
            context.close_stream();
            gate.notified().await;
            "back"
        }
    });
    tool.expect("the tool is good")
}
