//! Caching of results, as the server's hints allow (2026-07-28).

use std::time::Duration;

use futures_util::StreamExt as _;
use mcp_flow_client::{Client, ReadContents};
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// A stateless server whose results are fresh for this many milliseconds. Every result is numbered.
fn server(ttl: Value) -> Script {
    let count = std::sync::atomic::AtomicU32::new(0);
    Script::new(move |message, peer: &Scripted| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut answer = match message["method"].as_str() {
            Some("server/discover") => json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1",
                    "websiteUrl": "https://s.example",
                    "icons": [{"src": "file:///x"}, {"src": "https://s.example/x.png"}]}}}),
            Some("tools/list") if message["params"]["cursor"].is_null() => {
                json!({"tools": [{"name": format!("t{number}")}], "nextCursor": "2"})
            }
            Some("tools/list") => json!({"tools": [{"name": format!("t{number}")}]}),
            Some("resources/read") => {
                let uri = &message["params"]["uri"];
                json!({"contents": [{"uri": uri, "text": number.to_string()}]})
            }
            _ => return handshake(message, peer),
        };
        for (name, value) in [("resultType", json!("complete")), ("ttlMs", ttl.clone())] {
            answer[name] = value;
        }
        answer["cacheScope"] = json!("private");
        peer.send(result(message, answer));
    })
}

fn count(script: &Script, method: &str) -> usize {
    script.received().iter().filter(|message| message["method"] == method).count()
}

async fn names(client: &Client) -> Vec<String> {
    let tools = client.tools().all().await.unwrap();
    tools.into_iter().map(|tool| tool.name).collect()
}

async fn text(client: &Client, uri: &str) -> String {
    client.read_text(uri).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn results_are_reused_until_they_expire() {
    let script = server(json!(60_000));
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let first = names(&client).await;
    assert_eq!((first.len(), names(&client).await), (2, first.clone()));
    assert_eq!(count(&script, "tools/list"), 2, "each page once");
    let (a, b) = (text(&client, "x:/a").await, text(&client, "x:/b").await);
    assert_ne!(a, b);
    assert_eq!(text(&client, "x:/a").await, a);
    let fresh = client.read_resource("x:/a").fresh().await.unwrap();
    let ReadContents::Known(fresh) = &fresh.contents[0] else { panic!("{fresh:?}") };
    assert_ne!(format!("{:?}", fresh.body), format!("Text({a:?})"));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_ne!(names(&client).await, first);
    assert_eq!(count(&script, "tools/list"), 4);
}

#[tokio::test]
async fn announced_changes_are_seen_at_once() {
    let script = server(json!(3_600_000));
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut events = client.events();
    let (first, a, b) =
        (names(&client).await, text(&client, "x:/a").await, text(&client, "x:/b").await);
    for (method, params) in [
        ("notifications/tools/list_changed", json!({})),
        ("notifications/resources/updated", json!({"uri": "x:/a"})),
    ] {
        script.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        within("an event of the server", events.next()).await.unwrap();
    }
    assert_ne!(names(&client).await, first);
    assert_ne!(text(&client, "x:/a").await, a);
    assert_eq!(text(&client, "x:/b").await, b);
    client.clear_cache();
    assert_ne!(text(&client, "x:/b").await, b);
}

/// A new connection ends everything: changes may have been missed.
#[tokio::test]
async fn a_new_connection_starts_with_an_empty_cache() {
    let script = server(json!(3_600_000));
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let first = text(&client, "x:/a").await;
    script.hang_up();
    let mut events = client.events();
    // The next request either finds the connection closed or loses it.
    while text(&client, "x:/a").await == first {
        within("an event of the connection", events.next()).await;
    }
    assert_eq!(script.connections(), 2);
}

#[tokio::test]
async fn stale_results_and_switched_off_caches_are_not_reused() {
    for (ttl, bytes) in
        [(json!(0), 1 << 20), (json!(-1), 1 << 20), (json!("x"), 1 << 20), (json!(60_000), 0)]
    {
        let script = server(ttl);
        let builder = Client::builder().with(|options| options.cache_bytes = bytes);
        let client = builder.connect(script.connector()).await.unwrap();
        assert_ne!(text(&client, "x:/a").await, text(&client, "x:/a").await);
        assert_ne!(names(&client).await, names(&client).await);
    }
}

/// Icons that may not be shown are left out; the website is a URL.
#[tokio::test]
async fn the_server_is_described_with_icons_and_website() {
    let script = server(json!(0));
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let server = client.server().await.unwrap();
    assert_eq!(server.implementation.website_url.as_deref(), Some("https://s.example"));
    let icons: Vec<_> = server.implementation.icons.iter().map(|icon| icon.src.as_str()).collect();
    assert_eq!(icons, ["https://s.example/x.png"]);
}

/// Extensions of the options are declared with every request.
#[tokio::test]
async fn extensions_are_declared() {
    let script = server(json!(0));
    let builder = Client::builder().extension("com.example/x", json!({"a": 1}));
    let client = builder.connect(script.connector()).await.unwrap();
    text(&client, "x:/a").await;
    for message in script.received() {
        let meta = &message["params"]["_meta"];
        let declared = &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"];
        assert_eq!(declared["com.example/x"], json!({"a": 1}), "{message}");
    }
}
