//! DNS rebinding and cross-site requests (MCP-049, WT-068).

use mcp_flow::webtransport::client::{self, ConnectSettings};
use mcp_flow_testkit::http::Request;
use web_transport_quinn::Session;
use web_transport_quinn::proto::ConnectRequest;

use crate::attack::connection::initialize;
use crate::attack::raw_http::upgrade;
use crate::attack::report::TableReport;
use crate::attack::target::Target;
use crate::attack::webtransport::{dial, settings, url};

/// Every HTTP endpoint of the server, with a valid request.
fn endpoint_requests() -> Vec<(&'static str, Request)> {
    vec![
        ("initialize", initialize()),
        ("listen", Request::get("/mcp").header("mcp-session-id", "x")),
        ("delete", Request::new("DELETE", "/mcp").header("mcp-session-id", "x")),
        (
            "preflight",
            Request::new("OPTIONS", "/mcp").header("access-control-request-method", "POST"),
        ),
        ("sse", Request::get("/sse")),
        ("messages", Request::post("/messages?sessionId=x", "{}")),
        ("websocket", upgrade()),
        ("metrics", Request::new("GET", "/metrics")),
        ("download", Request::new("GET", "/download/x")),
        ("console", Request::new("GET", "/")),
        ("nowhere", Request::new("GET", "/nowhere")),
    ]
}

/// MCP-049: foreign host names are rejected by every endpoint, however similar to an allowed one.
#[tokio::test]
async fn foreign_hosts_are_refused() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for (room, request) in endpoint_requests() {
        for host in HOSTS {
            let host = host.replace("{port}", &target.address.port().to_string());
            let answer = request.clone().header("host", &host).send(target.address).await;
            report.compare(format!("{room} at {host:?}"), answer.status, 403);
        }
        let answer = request.without("host").send(target.address).await;
        report.compare(format!("{room} at none"), answer.status, 403);
    }
    report.finish(200);
    target.assert_recovered(64).await;
}

/// MCP-049: foreign origins are rejected by every endpoint, without revealing what it serves.
#[tokio::test]
async fn foreign_origins_are_refused() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for (room, request) in endpoint_requests() {
        for origin in ORIGINS {
            let origin = origin.replace("{port}", &target.address.port().to_string());
            let request = request.clone().header("host", &target.address.to_string());
            let answer = request.header("origin", &origin).send(target.address).await;
            let shared = answer.header("access-control-allow-origin").is_some();
            report.compare(
                format!("{room} from {origin:?}"),
                (answer.status, shared),
                (403, false),
            );
        }
    }
    report.finish(150);
    target.assert_recovered(64).await;
}

/// WT-009, WT-068: the same for the origin, host and path of a WebTransport CONNECT.
#[tokio::test]
async fn foreign_sessions_are_refused() {
    let target = Target::open("", &[]).await;
    let (mut report, port) = (TableReport::default(), target.address.port());
    for origin in ORIGINS {
        let origin = origin.replace("{port}", &port.to_string());
        let claiming = ConnectSettings { origin: Some(origin.clone()), ..settings(&target, None) };
        let refused = client::connect(url(&target), claiming).await.err().map(|it| it.to_string());
        let is_refused = refused.as_ref().is_some_and(|refused| refused.contains("403"));
        report.check(format!("CONNECT from {origin:?}"), is_refused, format_args!("{refused:?}"));
    }
    for (address, status) in [
        ("https://evil.example/mcp-flow", "403"),
        ("https://evil.example:{port}/mcp-flow", "403"),
        ("https://localhost.evil.example:{port}/mcp-flow", "403"),
        ("https://127.0.0.1.evil.example:{port}/mcp-flow", "403"),
        ("https://0.0.0.0:{port}/mcp-flow", "403"),
        ("https://169.254.169.254:{port}/mcp-flow", "403"),
        ("https://localhost:{port}/", "404"),
        ("https://localhost:{port}/mcp", "404"),
        ("https://localhost:{port}/mcp-flow/", "404"),
        ("https://localhost:{port}/mcp-flow/x", "404"),
        ("https://localhost:{port}//mcp-flow", "404"),
        ("https://localhost:{port}/MCP-FLOW", "404"),
        ("https://localhost:{port}/%6dcp-flow", "404"),
    ] {
        let address = address.replace("{port}", &port.to_string());
        let (_endpoint, connection) = dial(&target, "h3").await.unwrap();
        let request = ConnectRequest::new(address.parse::<::url::Url>().unwrap());
        let refused = Session::connect(connection, request).await.err().map(|it| it.to_string());
        let is_refused = refused.as_ref().is_some_and(|refused| refused.contains(status));
        report.check(format!("CONNECT {address}"), is_refused, format_args!("{refused:?}"));
    }
    for protocol in ["h2", "http/1.1", "hq-interop", "mcp"] {
        let refused = dial(&target, protocol).await.err();
        report.check(format!("ALPN {protocol}"), refused.is_some(), "it was accepted");
    }
    report.finish(30);
    target.assert_recovered(64).await;
}

const HOSTS: &[&str] = &[
    "evil.example",
    "evil.example:{port}",
    "localhost.evil.example",
    "localhost.evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "localhost:{port}.evil.example",
    "localhost:{port}@evil.example",
    "127.0.0.1@evil.example",
    "evil.example#localhost",
    "evil.example/localhost",
    "localhost evil.example",
    "localhost,evil.example",
    "localhost:{port}:{port}",
    "localhost:x",
    "localhost.",
    "xlocalhost",
    "0.0.0.0:{port}",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "169.254.169.254",
    "[::]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "",
];

const ORIGINS: &[&str] = &[
    "http://evil.example",
    "https://evil.example:{port}",
    "http://localhost.evil.example:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}@evil.example",
    "http://evil.example#127.0.0.1:{port}",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "null",
    "file://",
    "chrome-extension://abcdefghijklmnop",
    "http://app.example",
    "https://app.example:444",
    "https://app.example.evil.example",
    "https://app.example/",
    "*",
    "",
];
