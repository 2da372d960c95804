//! HTTP+SSE, the transport of 2024-11-05.

use std::collections::HashSet;

use crate::support::{Running, call, start};
use mcp_flow_testkit::http::{Request, Response};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;

/// MCP-041, MCP-042, MCP-021: the first event of a stream names the URL to post to, unique among a
/// thousand.
#[tokio::test]
async fn the_first_event_is_the_endpoint() {
    let running = start(&Fixture::new().server).await;
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let mut stream = running.send(Request::get("/sse")).await;
        assert_eq!(
            (stream.status, stream.header("content-type")),
            (200, Some("text/event-stream"))
        );
        let event = stream.raw_event().await.unwrap();
        assert_eq!(event.name.as_deref(), Some("endpoint"));
        let id = event.data.strip_prefix("/messages?sessionId=").unwrap().to_owned();
        assert_eq!(id.len(), 32);
        assert!(seen.insert(id));
    }
}

/// MCP-023: the endpoint URL works under a path prefix, forwarded or real.
#[tokio::test]
async fn the_endpoint_works_under_a_prefix() {
    let running = start(&Fixture::new().server).await;
    for (path, forwarded, prefix) in [
        ("/sse", None, ""),
        ("/sse", Some("/behind/proxy/"), "/behind/proxy"),
        ("/real/sse", None, "/real"),
        ("/real/sse", Some("/proxy"), "/proxy/real"),
        ("/sse", Some("//evil.example"), ""),
        ("/sse", Some("https://evil.example"), ""),
        ("/sse", Some("/a\" onload="), ""),
    ] {
        let mut request = Request::get(path);
        if let Some(forwarded) = forwarded {
            request = request.header("x-forwarded-prefix", forwarded);
        }
        let mut stream = running.send(request).await;
        let endpoint = stream.event().await.unwrap().data;
        assert!(endpoint.starts_with(&format!("{prefix}/messages?sessionId=")), "{endpoint}");
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(running.send(Request::post(&endpoint, ping)).await.status, 202);
        assert_eq!(stream.message().await.unwrap()["id"], 1);
    }
}

/// MCP-023, MCP-047: messages under another prefix than the announced one are rejected.
#[tokio::test]
async fn messages_are_accepted_under_the_announced_prefix_only() {
    let running = start(&Fixture::new().server).await;
    let mut stream = running.send(Request::get("/real/sse")).await;
    let endpoint = stream.event().await.unwrap().data;
    let id = endpoint.strip_prefix("/real/messages?sessionId=").unwrap();
    for path in [
        format!("/messages?sessionId={id}"),
        format!("/other/messages?sessionId={id}"),
        format!("/real/more/messages?sessionId={id}"),
        "/real/messages".to_owned(),
        "/real/messages?sessionId=nobody".to_owned(),
        "/other/messages".to_owned(),
    ] {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(running.send(Request::post(&path, ping)).await.status, 404, "{path}");
    }
    for path in ["//evil.example/sse", "/a//sse", "/a;b/sse", "/real/xsse"] {
        assert_eq!(running.send(Request::get(path)).await.status, 404, "{path}");
    }
}

/// MCP-043, MCP-044, MCP-045, MCP-046: a POST is accepted at once, and the reply is one event on the
/// stream, even if its text has line breaks.
#[tokio::test]
async fn a_post_is_accepted_before_its_work_is_done() {
    let fixture = Fixture::with(|builder| {
        let lines = |_: &mcp_flow_server::Context, _: serde_json::Value| "one\ntwo\r\nthree";
        builder.tools(mcp_flow_server::Tool::builder("lines").quick(lines))
    });
    let running = start(&fixture.server).await;
    let (mut stream, endpoint) = open(&running).await;
    let mut accepted = running.send(Request::post(&endpoint, call(1, "wait", json!({})))).await;
    assert_eq!((accepted.status, accepted.text().await.as_str()), (202, ""));
    fixture.gate.until_waiting(1).await;
    running.send(Request::post(&endpoint, call(2, "lines", json!({})))).await;
    let event = stream.event().await.unwrap();
    assert_eq!(event.lines[0], "event: message");
    assert_eq!(event.lines.len(), 2, "{event:?}");
    let reply: serde_json::Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "one\ntwo\r\nthree");
    fixture.gate.release_all();
    assert_eq!(stream.message().await.unwrap()["id"], 1);
}

/// MCP-048: a POST without a session, to an unknown session, or with malformed JSON is rejected.
#[tokio::test]
async fn invalid_posts_are_rejected() {
    let running = start(&Fixture::new().server).await;
    let (_stream, endpoint) = open(&running).await;
    for (path, body, status, code) in [
        ("/messages", "{}", 400, -32600),
        ("/messages?sessionId=", "{}", 400, -32600),
        ("/messages?other=1", "{}", 400, -32600),
        ("/messages?sessionId=unknown", "{}", 404, -32600),
        (&*endpoint, "{", 400, -32700),
        (&*endpoint, "7", 400, -32600),
    ] {
        let mut answer = running.send(Request::post(path, body)).await;
        assert_eq!(answer.status, status, "{path} {body}");
        assert_eq!(answer.json().await["error"]["code"], code, "{path} {body}");
    }
}

/// MCP-047: sessions do not receive each other's messages.
#[tokio::test]
async fn sessions_are_isolated() {
    let running = start(&Fixture::new().server).await;
    let mut both = [open(&running).await, open(&running).await];
    for round in 0..20 {
        for (index, (_, endpoint)) in both.iter().enumerate() {
            let id = format!("{index}-{round}");
            let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            running.send(Request::post(endpoint, ping)).await;
        }
    }
    for (index, (stream, _)) in both.iter_mut().enumerate() {
        for round in 0..20 {
            let reply = stream.message().await.unwrap();
            assert_eq!(reply["id"], format!("{index}-{round}"));
        }
    }
}

/// MCP-009, MCP-030: closing the stream ends the session and cancels its calls.
#[tokio::test]
async fn a_session_ends_with_its_stream() {
    let fixture = Fixture::new();
    let running = start(&fixture.server).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    running.metric("mcp_flow_http_connections").await;
    let before = tasks();
    for round in 0..100 {
        let (stream, endpoint) = open(&running).await;
        if round == 0 {
            running.send(Request::post(&endpoint, call(1, "wait", json!({})))).await;
            fixture.gate.until_waiting(1).await;
        }
        drop(stream);
    }
    fixture.gate.until_waiting(0).await;
    running.until_metric("mcp_flow_transport_sessions{kind=\"sse\"}", 0).await;
    running.until_metric("mcp_flow_http_connections", 1).await;
    let ended = async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    within("the tasks of clients that are gone to end", ended).await;
}

/// Opens a session and initializes it.
async fn open(running: &Running) -> (Response, String) {
    let mut stream = running.send(Request::get("/sse")).await;
    let endpoint = stream.event().await.unwrap().data;
    let begin = json!({"jsonrpc": "2.0", "id": "begin", "method": "initialize",
        "params": {"protocolVersion": "2024-11-05"}});
    running.send(Request::post(&endpoint, begin)).await;
    assert_eq!(stream.message().await.unwrap()["result"]["protocolVersion"], "2024-11-05");
    (stream, endpoint)
}
