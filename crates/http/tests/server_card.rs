//! The server card and its catalogs.

use mcp_flow_http::{Options, ServerCard};
use mcp_flow_server::Server;
use mcp_flow_testkit::http::Request;
use serde_json::json;

use crate::support::{Running, start_with_options};

const CARD: &str = "/mcp/server-card";
const CATALOGS: [&str; 2] = ["/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json"];

async fn start(card: bool, public_url: bool) -> Running {
    let server = Server::builder("weather", "1.2.3")
        .website("https://weather.example")
        .icon("https://weather.example/icon.png")
        .build()
        .unwrap();
    let named = || ServerCard::new("com.example/weather", "Forecasts").unwrap();
    let options = Options {
        server_card: card.then(|| named().title("The weather").unwrap()),
        public_url: public_url.then(|| "https://weather.example/flow/".to_owned()),
        ..Options::default()
    };
    start_with_options(&server, options).await
}

/// SEP-2127: the card says where and how to connect, and what `server/discover` says.
#[tokio::test]
async fn the_card_describes_the_server() {
    let running = start(true, true).await;
    let mut response = running.send(Request::get(CARD)).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/mcp-server-card+json"));
    let card = response.json().await;
    let expected = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json",
        "name": "com.example/weather",
        "version": "1.2.3",
        "title": "The weather",
        "description": "Forecasts",
        "websiteUrl": "https://weather.example",
        "icons": [{"src": "https://weather.example/icon.png"}],
        "remotes": [{
            "type": "streamable-http",
            "url": "https://weather.example/flow/mcp",
            "supportedProtocolVersions":
                ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        }],
    });
    assert_eq!(card, expected);
    for path in CATALOGS {
        let mut response = running.send(Request::get(path)).await;
        assert_eq!(response.header("content-type"), Some("application/json"));
        let catalog = response.json().await;
        let entry = json!({
            "identifier": "urn:air:example.com:weather",
            "displayName": "The weather",
            "type": "application/mcp-server-card+json",
            "url": "https://weather.example/flow/mcp/server-card",
        });
        assert_eq!(catalog["entries"], json!([entry]));
    }
    running.stop().await;
}

/// Any page may read the documents, and a cache may keep them; nothing else is opened by that.
#[tokio::test]
async fn documents_are_public_and_revalidated() {
    let running = start(true, true).await;
    for path in [CARD, CATALOGS[0], CATALOGS[1]] {
        let foreign = |method| Request::new(method, path).header("origin", "https://evil.example");
        let response = running.send(foreign("GET")).await;
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
        assert_eq!(response.header("cache-control"), Some("public, max-age=3600"));
        let tag = response.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", W/{tag}")] {
            let again = running.send(foreign("GET").header("if-none-match", &known)).await;
            assert_eq!((again.status, again.header("etag")), (304, Some(&*tag)), "{known}");
        }
        let changed = running.send(foreign("GET").header("if-none-match", "\"other\"")).await;
        assert_eq!(changed.status, 200);
        assert_eq!(running.send(foreign("OPTIONS")).await.status, 204);
        assert_eq!(running.send(foreign("POST")).await.status, 405);
    }
    let mcp = Request::get("/mcp").header("origin", "https://evil.example");
    assert_eq!(running.send(mcp).await.status, 403);
    running.stop().await;
}

/// It is off by default, and without a public URL.
#[tokio::test]
async fn there_is_no_card_unless_it_is_configured() {
    for (card, public_url) in [(false, true), (true, false)] {
        let running = start(card, public_url).await;
        for path in [CARD, CATALOGS[0], CATALOGS[1]] {
            assert_eq!(running.send(Request::get(path)).await.status, 404, "{path}");
        }
        running.stop().await;
    }
}
