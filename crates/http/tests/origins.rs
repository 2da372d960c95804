//! CORS and the origin policy.

use crate::support::{Running, initialize, start_with};
use mcp_flow_http::Options;
use mcp_flow_identity::StaticTokens;
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit_fixture::Fixture;

const PAGE: &str = "https://app.example";

/// MCP-049: pages of allowed origins get CORS headers on preflights and on every response, including
/// rejections.
#[tokio::test]
async fn allowed_origins_can_read_responses() {
    let running = start().await;
    let hello = initialize("2025-11-25").header("authorization", &format!("Bearer {TOKEN}"));
    for (request, status) in [
        (hello.clone().header("origin", PAGE), 200),
        (initialize("2025-11-25").header("origin", PAGE), 401),
        (Request::new("PUT", "/mcp").header("origin", PAGE), 401),
    ] {
        let answer = running.send(request).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
        assert_eq!(answer.header("vary"), Some("Origin"));
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("Mcp-Session-Id") && exposed.contains("WWW-Authenticate"));
    }
    let answer = running.send(hello).await;
    assert_eq!(answer.header("access-control-allow-origin"), None, "no page may read it");
}

/// MCP-049: preflights list the allowed headers, without authentication.
#[tokio::test]
async fn preflights_list_the_allowed_headers() {
    let running = start().await;
    let wanted = "content-type, mcp-session-id,Mcp-Param-City, x-other";
    for path in ["/mcp", "/sse", "/messages?sessionId=x"] {
        let asked = preflight(path).header("access-control-request-headers", wanted);
        let answer = running.send(asked).await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
        assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
        let allowed = answer.header("access-control-allow-headers");
        assert_eq!(allowed, Some("content-type, mcp-session-id, Mcp-Param-City"));
    }
    assert_eq!(running.send(preflight("/mcp")).await.header("access-control-allow-headers"), None);
}

/// MCP-049: other origins are rejected; another port of the local machine is another origin.
#[tokio::test]
async fn other_origins_are_rejected() {
    let running = start().await;
    for origin in ["https://evil.example", "http://localhost:1", "http://app.example", "null"] {
        for request in [preflight("/mcp"), initialize("2025-11-25")] {
            let answer = running.send(request.header("origin", origin)).await;
            assert_eq!(answer.status, 403, "{origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
        }
    }
}

/// Builds a CORS preflight.
fn preflight(path: &str) -> Request {
    Request::new("OPTIONS", path)
        .header("origin", PAGE)
        .header("access-control-request-method", "POST")
}

async fn start() -> Running {
    let options = Options { origins: vec![PAGE.to_owned()], ..Options::default() };
    let tokens: StaticTokens = format!("ada:{TOKEN}").parse().unwrap();
    start_with(&Fixture::new().server, |bound| {
        bound.options(options).verifier(std::sync::Arc::new(tokens))
    })
    .await
}

const TOKEN: &str = "0123456789abcdef0123";
