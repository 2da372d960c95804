//! The client against servers that are not MCP servers, disconnect, or are hostile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use mcp_flow_client::{ChangeFilter, Client, Error, ErrorKind, Revision, RevisionPolicy};
use mcp_flow_http::client::{HttpOptions, server};
use mcp_flow_testkit::scripted;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Starts a server that answers every request with the same bytes.
async fn always(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                // Stays open for as many requests as the client sends on one connection.
                while let Ok(1..) = stream.read(&mut request).await {
                    let _ = stream.write_all(answer).await;
                }
            });
        }
    });
    address
}

async fn connect(address: SocketAddr, path: &str) -> Result<Client, Error> {
    let url = format!("http://{address}{path}");
    let builder = Client::builder().with(|options| {
        options.frame_limit = 64 * 1024;
        options.connect_timeout = Duration::from_secs(20);
    });
    builder.connect(server(&url, &HttpOptions::new()).unwrap()).await
}

/// MCP-035: an endpoint that is not an MCP server yields a helpful error.
#[tokio::test]
async fn endpoints_without_mcp_are_reported() {
    let cases: [(&[u8], &str); 6] = [
        (
            b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n",
            "bearer token",
        ),
        (
            b"HTTP/1.1 301 Moved\r\nlocation: http://b.example/\r\ncontent-length: 0\r\n\r\n",
            "b.example",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\n<p>hi",
            "no MCP server",
        ),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope", "404"),
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\nno\x1bp", "500"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "cannot connect"),
    ];
    for (answer, words) in cases {
        let error = connect(always(answer).await, "/mcp").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        let shown = error.to_string();
        assert!(shown.contains(words) && !shown.contains('\u{1b}'), "{words}: {shown}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = connect(closed, "/mcp").await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

/// Garbage on an event stream, or a line without end, is bounded and reported.
#[tokio::test]
async fn garbage_on_an_event_stream_is_bounded() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let endless: &'static str = Box::leak(format!("{HEAD}data: {}", "x".repeat(1 << 20)).into());
    for path in ["/mcp", "/sse"] {
        let error = connect(always(endless.as_bytes()).await, path).await.unwrap_err();
        assert!(error.to_string().contains("65536 bytes"), "{path}: {error}");
    }
    let elsewhere: &'static str =
        Box::leak(format!("{HEAD}event: endpoint\ndata: http://b.example/m\n\n").into());
    let error = connect(always(elsewhere.as_bytes()).await, "/sse").await.unwrap_err();
    assert!(error.to_string().contains("another origin"), "{error}");
}

/// MCP-034: after a restart the server does not know the session; the client opens another one and
/// the next call succeeds.
#[tokio::test]
async fn the_client_reconnects_to_a_restarted_server() {
    for (revision, path) in [
        (Revision::V2025_11_25, "/mcp"),
        (Revision::V2026_07_28, "/mcp"),
        (Revision::V2024_11_05, "/sse"),
    ] {
        let fixture = Fixture::new();
        let running = crate::support::start(&fixture.server).await;
        let address = running.address;
        let url = format!("http://{address}{path}");
        let builder =
            Client::builder().with(|options| options.revision = RevisionPolicy::Only(revision));
        let client = builder.connect(server(&url, &HttpOptions::new()).unwrap()).await.unwrap();
        client.call_tool("math.add", json!({"a": 1, "b": 1})).await.unwrap();
        running.stop().await;
        let bound = mcp_flow_http::bind(address).await.unwrap();
        let served = fixture.server.clone();
        tokio::spawn(async move { bound.serve(&served, std::future::pending()).await });
        let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).repeatable().await;
        assert_eq!(sum.unwrap().text(), "5", "{revision}");
    }
}

/// A server that no longer knows the session has not processed the request, so it is sent again in a
/// new session. Some servers reject such a request with 400 instead of 404.
#[tokio::test]
async fn requests_of_a_forgotten_session_are_sent_again() {
    let no_session = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    let other = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}"#;
    for (status, body, is_sent_again) in [
        ("404 Not Found", "", true),
        ("400 Bad Request", no_session, true),
        ("400 Bad Request", other, false),
    ] {
        let sessions = AtomicUsize::new(0);
        let address = scripted::http(move |mut request| match request.method() {
            "initialize" => {
                let session = sessions.fetch_add(1, Ordering::SeqCst);
                let result = json!({"jsonrpc": "2.0", "id": request.message["id"], "result": {
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"}}});
                let result = result.to_string();
                request.write(&format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n{result}",
                    result.len()
                ));
            }
            "tools/call" if sessions.load(Ordering::SeqCst) == 1 => {
                request.content(status, "application/json", body);
            }
            "tools/call" => request.result(&json!({"content": [{"type": "text", "text": "done"}]})),
            _ if request.line.starts_with("GET") => {
                request.content("405 Method Not Allowed", "text/plain", "");
            }
            _ => request.content("202 Accepted", "text/plain", ""),
        });
        let url = format!("http://{address}/mcp");
        let builder = Client::builder()
            .with(|options| options.revision = RevisionPolicy::Only(Revision::V2025_11_25));
        let client = builder.connect(server(&url, &HttpOptions::new()).unwrap()).await.unwrap();
        let called = within("the call", client.call_tool("once", json!({})).into_future()).await;
        match called {
            Ok(outcome) => assert!(is_sent_again && outcome.text() == "done", "{status}"),
            Err(error) => assert!(!is_sent_again, "{status} {body}: {error}"),
        }
    }
}

/// MCP-069: a connection to a busy server is retried, and reported if the server stays busy.
#[tokio::test]
async fn connecting_to_a_busy_server_is_retried() {
    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\
        connection: close\r\n\r\nfull";
    for (path, revision) in [("/sse", Revision::V2024_11_05), ("/mcp", Revision::V2026_07_28)] {
        let running = crate::support::start(&Fixture::new().server).await;
        let (behind, front) = (running.address, TcpListener::bind("127.0.0.1:0").await.unwrap());
        let url = format!("http://{}{path}", front.local_addr().unwrap());
        tokio::spawn(async move {
            for number in 0.. {
                let (mut stream, _) = front.accept().await.unwrap();
                if number < 3 {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(BUSY).await;
                    continue;
                }
                let mut server = tokio::net::TcpStream::connect(behind).await.unwrap();
                tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                });
            }
        });
        let connect = |attempts| {
            let builder = Client::builder().with(|options| {
                options.revision = RevisionPolicy::Only(revision);
                options.backoff.initial = Duration::from_millis(1);
                options.backoff.attempts = attempts;
            });
            builder.connect(server(&url, &HttpOptions::new()).unwrap())
        };
        let error = connect(2).await.unwrap_err();
        assert!(error.to_string().contains("503"), "{error}");
        let client = connect(4).await.unwrap();
        let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5", "{path}");
    }
}

/// PAT-060: a subscription ends when its server is gone.
#[tokio::test]
async fn a_subscription_ends_with_its_server() {
    let running = crate::support::start(&Fixture::new().server).await;
    let url = format!("http://{}/mcp", running.address);
    let builder = Client::builder().with(|options| {
        options.revision = RevisionPolicy::Only(Revision::V2026_07_28);
        options.backoff.initial = Duration::from_millis(1);
        options.backoff.attempts = 3;
    });
    let client = builder.connect(server(&url, &HttpOptions::new()).unwrap()).await.unwrap();
    let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
    running.stop().await;
    let ended = loop {
        match within("the subscription to end", changes.next()).await {
            Some(Ok(_)) => {}
            ended => break ended,
        }
    };
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
}

/// Links of results are opened only at the server's own origin.
#[tokio::test]
async fn links_to_other_origins_are_rejected() {
    let running = crate::support::start(&Fixture::new().server).await;
    let client = connect(running.address, "/mcp").await.unwrap();
    let elsewhere = json!({"type": "resource_link", "uri": "http://b.example/secret"});
    let error = client.open_content(&elsewhere).await.unwrap_err();
    assert!(error.to_string().contains("own origin"), "{error}");
    let file = json!({"type": "resource_link", "uri": "file:///etc/passwd"});
    assert_eq!(client.open_content(&file).await.unwrap_err().kind(), ErrorKind::Usage);
}
