//! Apps, icons and caching hints, as a user writes them and as a client sees them.

use std::time::Duration;

use mcp_flow::model::{CacheHint, Visibility};
use mcp_flow::prelude::*;
use mcp_flow::{App, Permissions, Revision, Server, permissions};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

const FACE: &str = "ui://clock/face";
const ICON: &str = "data:image/svg+xml,%3Csvg/%3E";

/// Returns the time
#[tool(quick, ui = FACE, icon = ICON)]
fn get_time() -> &'static str {
    "12:00"
}

/// Winds the clock up
#[tool(quick, ui = "ui://clock/face", visibility = "app")]
fn wind_up() -> &'static str {
    "wound up"
}

/// Rings
#[tool(quick, visibility = "model")]
fn ring() -> &'static str {
    "ring"
}

/// The maker of the clock
#[resource(
    "clock:/maker",
    icon = "https://clock.example/maker.png",
    ttl = "5m",
    cache_scope = "public",
    quick
)]
fn maker() -> &'static str {
    "Ada"
}

/// The hour
#[resource("clock:/hours/{hour}", ttl = "90s")]
fn hour(hour: u8) -> String {
    hour.to_string()
}

/// The weather
#[resource("clock:/weather", quick)]
fn weather() -> &'static str {
    "fine"
}

/// Asks for the time
#[prompt(icon = "https://clock.example/ask.png", quick)]
fn ask() -> &'static str {
    "What time is it?"
}

fn builder() -> mcp_flow::ServerBuilder {
    let face = App::builder(FACE)
        .title("Clock")
        .connect("https://time.example")
        .cache(CacheHint::public(Duration::from_secs(3600)))
        .html("<!doctype html><p>12:00");
    Server::builder("clock", "1.0.0")
        .title("The clock")
        .website("https://clock.example")
        .icon(ICON)
        .tools(tools![get_time, wind_up, ring])
        .resources((face, resources![maker, hour, weather]))
        .prompts(prompts![ask])
}

/// A client that declares the extension gets the metadata of apps and their tools; any other one gets
/// plain tools, and none that only an app can use.
#[tokio::test]
async fn apps_are_negotiated() {
    let server = builder().build().unwrap();
    let apps = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    for (settings, shows_apps) in [
        (Some(apps.clone()), true),
        (Some(json!({"mimeTypes": ["text/html"]})), false),
        (Some(json!({"mimeTypes": "text/html;profile=mcp-app"})), false),
        (Some(json!({})), false),
        (None, false),
    ] {
        let mut capabilities = json!({});
        if let Some(settings) = settings {
            capabilities["extensions"] = json!({"io.modelcontextprotocol/ui": settings});
        }
        let mut peer = memory::connect(&server);
        let hello = peer.initialize_with(Revision::V2025_11_25, capabilities.clone()).await;
        let declared = &hello["capabilities"]["extensions"];
        assert_eq!(declared["io.modelcontextprotocol/ui"], apps);
        let by_handshake = peer.call("tools/list", json!({})).await["result"]["tools"].clone();
        let stateless = call_stateless(&mut peer, "tools/list", json!({}), capabilities).await;
        assert_eq!(stateless["cacheScope"], "private", "lists depend on the client");
        for tools in [by_handshake, stateless["tools"].clone()] {
            let names: Vec<_> =
                tools.as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
            let ui: Vec<_> =
                tools.as_array().unwrap().iter().map(|tool| tool["_meta"]["ui"].clone()).collect();
            match shows_apps {
                true => {
                    assert_eq!(names, ["get_time", "wind_up", "ring"]);
                    let both = json!({"resourceUri": FACE, "visibility": ["app"]});
                    let expected =
                        [json!({"resourceUri": FACE}), both, json!({"visibility": ["model"]})];
                    assert_eq!(ui, expected);
                }
                false => {
                    assert_eq!(names, ["get_time", "ring"]);
                    assert_eq!(ui, [Value::Null, Value::Null]);
                    assert_eq!(tools[0].get("_meta"), None);
                }
            }
        }
        // Visibility is a rule for hosts; the page's calls arrive as those of its client.
        let called = peer.call("tools/call", json!({"name": "wind_up"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "wound up");
        let page = peer.call("resources/read", json!({"uri": FACE})).await;
        let page = &page["result"]["contents"][0];
        assert_eq!(page["mimeType"], "text/html;profile=mcp-app");
        assert_eq!(page["_meta"]["ui"]["csp"], json!({"connectDomains": ["https://time.example"]}));
    }
}

#[test]
fn a_server_without_apps_declares_none_and_missing_apps_are_reported() {
    let error = Server::builder("x", "1").tools(tools![get_time]).build().unwrap_err().to_string();
    assert!(error.contains("get_time") && error.contains("App::builder"), "{error}");
    let hidden = mcp_flow::Tool::builder("hidden").visible_to([Visibility::App]);
    let hidden = hidden.quick(|_: &Context, _: Value| "");
    assert!(Server::builder("x", "1").tools(hidden).build().is_ok());
    for (built, expected) in [
        (Server::builder("x", "1").icon("file:///x").build(), "icon"),
        (Server::builder("x", "1").website("javascript:alert(1)").build(), "website"),
    ] {
        let error = built.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Icons and the website reach clients of the revisions that have them.
#[tokio::test]
async fn icons_and_websites_are_listed() {
    let server = builder().build().unwrap();
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_stateless()) {
        let has_icons = revision >= Revision::V2025_11_25;
        let mut peer = memory::connect(&server);
        let hello = peer.initialize_with(revision, json!({})).await;
        let info = &hello["serverInfo"];
        let expected = has_icons.then(|| json!([{"src": ICON}]));
        assert_eq!(info.get("icons"), expected.as_ref(), "{revision}");
        assert_eq!(info.get("websiteUrl").is_some(), has_icons, "{revision}");
        for (method, member) in
            [("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")]
        {
            let listed = peer.call(method, json!({})).await["result"][member].clone();
            let has_any = listed.as_array().unwrap().iter().any(|one| one.get("icons").is_some());
            assert_eq!(has_any, has_icons, "{revision} {method}");
        }
    }
}

/// 2026-07-28: authors set the lifetime of lists and resources; where callers differ, results are
/// private whatever the author says.
#[tokio::test]
async fn authors_set_caching_hints() {
    let hour = CacheHint::public(Duration::from_secs(3600));
    let hints = |builder: mcp_flow::ServerBuilder| {
        builder
            .cache("prompts/list", hour)
            .cache("resources/list", CacheHint::private(Duration::ZERO))
            .cache("resources/read", CacheHint::private(Duration::from_secs(7)))
            .cache("server/discover", CacheHint::private(Duration::from_secs(1)))
    };
    let everyone = permissions::AccessRule {
        principals: permissions::Names::all(),
        prompts: permissions::Names::all(),
        resources: permissions::Names::all(),
        ..permissions::AccessRule::default()
    };
    let open = hints(builder()).build().unwrap();
    let ruled = hints(builder()).permissions(Permissions::new(vec![everyone])).build().unwrap();
    for (server, shared) in [(open, "public"), (ruled, "private")] {
        let mut peer = memory::connect(&server);
        for (method, uri, ttl, scope) in [
            ("prompts/list", "", 3_600_000, shared),
            ("resources/list", "", 0, "private"),
            ("resources/templates/list", "", 300_000, shared),
            ("server/discover", "", 1_000, "private"),
            ("resources/read", "clock:/maker", 300_000, shared),
            ("resources/read", "clock:/hours/3", 90_000, "private"),
            ("resources/read", "clock:/weather", 7_000, "private"),
            ("resources/read", FACE, 3_600_000, shared),
        ] {
            let params = if uri.is_empty() { json!({}) } else { json!({"uri": uri}) };
            let result = call_stateless(&mut peer, method, params, json!({})).await;
            assert_eq!(result["resultType"], "complete", "{method} {uri}: {result}");
            let hint = (&result["ttlMs"], &result["cacheScope"]);
            assert_eq!(hint, (&json!(ttl), &json!(scope)), "{method} {uri}");
        }
    }
}

async fn call_stateless(
    peer: &mut Peer,
    method: &str,
    mut params: Value,
    capabilities: Value,
) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let reply = peer.call(method, params).await;
    assert!(reply["result"].is_object(), "{reply}");
    reply["result"].clone()
}
