//! Rejections of invalid, oversized, slow and excessive requests: status and JSON-RPC error.

use std::convert::Infallible;
use std::time::Duration;

use crate::support::{Running, call, in_session, initialize, start, start_with, stateless_post};
use mcp_flow_http::Options;
use mcp_flow_identity::StaticTokens;
use mcp_flow_server::{Limits, Rate};
use mcp_flow_testkit::http::{Connection, Request};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// MCP-048, MCP-049, C-50: every kind of invalid request, by status, code and message.
#[tokio::test]
async fn invalid_requests_are_rejected_with_a_reason() {
    let running = start(&Fixture::new().server).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let post = || Request::post("/mcp", &ping);
    let old = |request: Request| request.header("mcp-protocol-version", "1900-01-01");
    for (request, status, code, said) in [
        (post().header("content-type", "text/plain"), 415, -32600, "application/json"),
        (post().header("content-type", "application/cbor"), 415, -32600, "application/json"),
        (post().without("content-type"), 415, -32600, "application/json"),
        (post().header("accept", "application/json"), 406, -32600, "text/event-stream"),
        (post().header("accept", "text/html"), 406, -32600, "text/event-stream"),
        (Request::get("/mcp").header("accept", "text/html"), 406, -32600, "text/event-stream"),
        (post().body("{\"jsonrpc\":"), 400, -32700, "Parse error"),
        (post().body(b"\xff\xfe".as_slice()), 400, -32700, "Parse error"),
        (post().body(""), 400, -32700, "Parse error"),
        (post().body("7"), 400, -32600, "Invalid Request"),
        (Request::post("/mcp", call(1, "fail", json!({}))), 400, -32600, "initialize"),
        (Request::post("/mcp", json!([ping])), 400, -32600, "before initialize"),
        (Request::post("/mcp", json!({"jsonrpc": "2.0", "method": "x"})), 400, -32600, "Mcp-Sess"),
        (Request::get("/mcp"), 400, -32600, "Mcp-Session-Id"),
        (Request::new("DELETE", "/mcp"), 400, -32600, "Mcp-Session-Id"),
        (in_session("nobody", ping.clone()), 404, -32600, "no such session"),
        (Request::get("/mcp").header("mcp-session-id", "nobody"), 404, -32600, "no such session"),
        (old(post()), 400, -32022, "supported"),
        (old(Request::get("/mcp")), 400, -32022, "supported"),
        (post().header("origin", "http://evil.example"), 403, -32000, "origin"),
        (post().header("origin", "null"), 403, -32000, "origin"),
        (post().header("host", "evil.example"), 403, -32000, "evil.example"),
        (post().without("host"), 403, -32000, "host"),
        (Request::new("PUT", "/mcp"), 405, -32600, "GET, POST, DELETE"),
        (Request::new("POST", "/ws"), 405, -32600, "GET"),
        (Request::new("GET", "/ws"), 426, -32600, "upgrade"),
        (Request::new("DELETE", "/sse"), 405, -32600, "GET"),
        (Request::get("/messages"), 405, -32600, "POST"),
        (Request::new("PUT", "/metrics"), 405, -32600, "GET"),
        (Request::get("/nowhere"), 404, -32600, "/mcp"),
    ] {
        let shown = format!("{request:?}");
        let mut answer = running.send(request).await;
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{shown}");
        assert!(status != 405 || answer.header("allow").is_some(), "{shown}");
        let body = answer.json().await;
        assert_eq!(body["error"]["code"], code, "{shown}: {body}");
        assert!(body.to_string().contains(said), "{shown}: {body}");
        assert!(body["error"]["message"].is_string(), "{shown}: {body}");
    }
    let opened = running.send(initialize("2025-11-25")).await;
    assert_eq!(opened.status, 200, "others are served");
    // C-52: this revision has no batches.
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    for batch in [json!([ping]), json!([])] {
        let mut answer = running.send(in_session(&session, batch)).await;
        assert_eq!((answer.status, &answer.json().await["error"]["code"]), (400, &json!(-32600)));
    }
    // A stateless request in a revision without them.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2025-11-25",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let alone =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let alone = Request::post("/mcp", alone).header("mcp-method", "tools/list");
    let mut answer = running.send(alone.header("mcp-protocol-version", "2025-11-25")).await;
    assert_eq!((answer.status, &answer.json().await["error"]["code"]), (400, &json!(-32022)));
}

/// Oversized bodies are rejected early, with or without Content-Length.
#[tokio::test]
async fn oversized_bodies_are_rejected_early() {
    let limits = Limits { frame: 1000, ..Limits::default() };
    let running = start(&Fixture::with_limits(limits).server).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    for (rest, body) in [
        ("content-length: 100000000\r\n\r\n", "{".to_owned()),
        ("transfer-encoding: chunked\r\n\r\n", format!("7d0\r\n{}\r\n", "x".repeat(2000))),
    ] {
        let mut connection = Connection::open(running.address).await;
        connection.write(format!("{head}{rest}{body}").as_bytes()).await;
        let mut answer = connection.response().await;
        assert_eq!(answer.status, 413);
        let error = answer.json().await["error"].clone();
        assert_eq!(error["data"]["name"], "PAYLOAD_TOO_LARGE");
        assert!(error.to_string().contains("1000"), "{error}");
    }
    // A client that sends everything before it reads gets the response too.
    let long = Request::post("/mcp", "x".repeat(3000));
    assert_eq!(running.send(long).await.status, 413);
}

/// A body that stalls times out with a response.
#[tokio::test]
async fn stalled_bodies_time_out() {
    let options = Options { body_timeout: Duration::from_millis(20), ..Options::default() };
    let running = start_with(&Fixture::new().server, |bound| bound.options(options)).await;
    let mut connection = Connection::open(running.address).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    connection.write(format!("{head}content-length: 100\r\n\r\n{{").as_bytes()).await;
    let mut answer = connection.response().await;
    assert_eq!(answer.status, 408);
    assert!(answer.json().await.to_string().contains("in time"));
}

/// INT-106: a body that trickles in byte by byte times out too.
#[tokio::test]
async fn trickling_bodies_time_out() {
    let options = Options { body_timeout: Duration::from_millis(500), ..Options::default() };
    let running = start_with(&Fixture::new().server, |bound| bound.options(options)).await;
    let (reader, mut writer) = TcpStream::connect(running.address).await.unwrap().into_split();
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    writer.write_all(format!("{head}content-length: 100000\r\n\r\n").as_bytes()).await.unwrap();
    let dripping = async {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The server closes after its response, which can still be read.
        std::future::pending::<Infallible>().await
    };
    let answer = Connection::over(tokio::io::join(reader, tokio::io::sink())).response();
    tokio::select! {
        answer = answer => assert_eq!(answer.status, 408),
        never = dripping => match never {},
    }
}

/// INT-106: an ambiguous request is rejected, and a request smuggled behind it gets no response.
#[tokio::test]
async fn smuggled_requests_get_no_response() {
    let running = start(&Fixture::new().server).await;
    let hidden = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for head in [
        "transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "host: evil.example\r\n\r\n",
        "mcp-session-id: a\r\nmcp-session-id: b\r\n\r\n",
    ] {
        let mut connection = Connection::open(running.address).await;
        let head = format!("POST /healthz HTTP/1.1\r\nhost: localhost\r\n{head}{hidden}");
        connection.write(head.as_bytes()).await;
        let mut answer = connection.response().await;
        assert_eq!(answer.status, 400, "{head}");
        answer.json().await;
        assert!(answer.into_connection().try_response().await.is_none(), "{head}");
    }
}

/// Incomplete requests block no other client, and are disconnected.
#[tokio::test]
async fn incomplete_requests_block_no_other_client() {
    let options = Options { head_timeout: Duration::from_millis(200), ..Options::default() };
    let running = start_with(&Fixture::new().server, |bound| bound.options(options)).await;
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut connection = Connection::open(running.address).await;
        connection.write(b"POST /mcp HTTP/1.1\r\nhost: local").await;
        half_open.push(connection);
    }
    assert_eq!(running.send(initialize("2025-11-25")).await.status, 200);
    for mut connection in half_open {
        assert_eq!(connection.byte().await, None, "the server hangs up");
    }
}

/// The connection limit includes WebSockets; a closed connection makes room for another.
#[tokio::test]
async fn connections_are_limited() {
    let options = Options { max_connections: 2, ..Options::default() };
    let running = start_with(&Fixture::new().server, |bound| bound.options(options)).await;
    let mut first = open_websocket(&running).await;
    let mut second = open_websocket(&running).await;
    let mut third = Connection::open(running.address).await;
    third.write(&Request::get("/healthz").bytes()).await;
    assert!(third.try_response().await.is_none(), "the third is refused");
    first.write(b"\x88\x80\0\0\0\0").await;
    while first.byte().await.is_some() {}
    second.write(b"\x89\x80\0\0\0\0").await;
    assert_eq!(second.byte().await, Some(0x8a), "the second is still served");
    let admitted = async {
        loop {
            let mut next = Connection::open(running.address).await;
            next.write(&Request::get("/healthz").bytes()).await;
            if next.try_response().await.is_some() {
                break;
            }
        }
    };
    within("room for another connection", admitted).await;
}

async fn open_websocket(running: &Running) -> Connection {
    let request = Request::new("GET", "/ws")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
    let answer = running.send(request).await;
    assert_eq!(answer.status, 101);
    answer.into_connection()
}

/// C-53: requests need a valid token, and one principal cannot see the sessions of another.
#[tokio::test]
async fn tokens_are_required_and_identify_the_principal() {
    let tokens: StaticTokens = "ada:0123456789abcdef\nbob:fedcba9876543210".parse().unwrap();
    let running =
        start_with(&Fixture::new().server, |bound| bound.verifier(std::sync::Arc::new(tokens)))
            .await;
    for (token, challenge) in [
        (None, "Bearer"),
        (Some("Bearer 0123456789abcdee"), "Bearer error=\"invalid_token\""),
        (Some("Basic 0123456789abcdef"), "Bearer error=\"invalid_token\""),
    ] {
        for path in ["/mcp", "/sse", "/ws", "/metrics"] {
            let mut request = Request::get(path);
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            let mut answer = running.send(request).await;
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.header("www-authenticate"), Some(challenge));
            assert!(answer.json().await.to_string().contains("token"));
        }
    }
    assert_eq!(running.send(Request::get("/healthz")).await.status, 200, "watchdogs have none");
    let (ada, bob) = ("Bearer 0123456789abcdef", "bearer fedcba9876543210");
    let opened = running.send(initialize("2025-11-25").header("authorization", ada)).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let who = in_session(&id, call(1, "who", json!({})));
    let mut known = running.send(who.clone().header("authorization", ada)).await;
    assert_eq!(known.json().await["result"]["structuredContent"]["principal"], "ada");
    let mut stranger = running.send(who.header("authorization", bob)).await;
    let mut unknown = running.send(in_session("x", json!({})).header("authorization", bob)).await;
    assert_eq!((stranger.status, unknown.status), (404, 400));
    assert!(stranger.json().await.to_string().contains("no such session"));
    assert_eq!(unknown.json().await["error"]["code"], -32600);
    for method in ["GET", "DELETE"] {
        let theirs = Request::new(method, "/mcp").header("mcp-session-id", &id);
        assert_eq!(running.send(theirs.header("authorization", bob)).await.status, 404);
    }
    let mut alone = running
        .send(stateless_post("tools/call", json!({"name": "who"})).header("authorization", bob))
        .await;
    let who: Value = alone.json().await;
    assert_eq!(who["result"]["structuredContent"]["principal"], "bob");
}

/// PAT-036: a principal that exceeds its rate gets 429 with Retry-After in both eras, over any number
/// of connections; a full server responds 503.
#[tokio::test]
async fn rate_limits_and_overload_set_retry_after() {
    let principal_rate = Some(Rate { burst: 3, per_second: 0.1 });
    let server = Fixture::with_limits(Limits { principal_rate, ..Limits::default() }).server;
    let tokens: StaticTokens =
        "ada:ada-0123456789abcdef\nbob:bob-0123456789abcdef".parse().unwrap();
    let running = start_with(&server, |bound| bound.verifier(std::sync::Arc::new(tokens))).await;
    let by = |name: &str, request: Request| {
        request.header("authorization", &format!("Bearer {name}-0123456789abcdef"))
    };
    let list = || stateless_post("tools/list", json!({}));
    let opened = running.send(by("ada", initialize("2025-11-25"))).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let ping = in_session(&session, json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    for (request, status) in [(ping.clone(), 200), (list(), 200), (list(), 429), (ping, 429)] {
        let mut answer = running.send(by("ada", request)).await;
        assert_eq!(answer.status, status);
        if status == 429 {
            let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            let body = answer.json().await;
            let wait = body["error"]["data"]["retryAfterMs"].as_u64().unwrap();
            assert!((1..=10).contains(&seconds) && wait <= seconds * 1000, "{body}");
            assert_eq!(body["error"]["data"]["name"], "RATE_LIMITED");
        }
    }
    assert_eq!(running.send(by("bob", list())).await.status, 200);
    running.stop().await;

    let server = Fixture::with_limits(Limits { memory: 100_000, ..Limits::default() }).server;
    let running = start(&server).await;
    let large = stateless_post("tools/list", json!({"_meta": {"x": "x".repeat(200_000)}}));
    for (request, status) in [(large, 503), (list(), 200)] {
        let answer = running.send(request).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("retry-after"), (status == 503).then_some("1"));
    }
    running.stop().await;
    assert_eq!(server.load().bytes(), 0);
}
