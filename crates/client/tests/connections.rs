//! Reconnecting, health checks, subscriptions across connections and negotiation of the revision.

use std::time::Duration;

use futures_util::StreamExt;
use mcp_flow_client::{
    ChangeFilter, Client, ClientEvent, Error, ErrorKind, Revision, RevisionPolicy, ServerChange,
};
use serde_json::{Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// MCP-034, MCP-093, INT-089: a lost connection is reopened with the handshake; idempotent requests
/// are retried, others fail.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_reopened() {
    let script = Script::new(|message, peer: &Scripted| {
        let first = peer.connection() == 1;
        match message["method"].as_str() {
            Some("tools/list" | "tools/call") if first => peer.hang_up(),
            Some("tools/list") => peer.send(result(message, json!({"tools": []}))),
            Some("tools/call") => peer.send(result(message, json!({"content": []}))),
            _ => handshake(message, peer),
        }
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut events = client.events();
    assert!(client.tools().all().await.unwrap().is_empty(), "a list is asked for again");
    assert!(matches!(events.next().await, Some(ClientEvent::Disconnected { .. })));
    assert!(matches!(events.next().await, Some(ClientEvent::Connected { again: true, .. })));
    assert_eq!(script.connections(), 2);

    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("tools/call") if peer.connection() == 1 => peer.hang_up(),
        Some("tools/call") => peer.send(result(message, json!({"content": []}))),
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let error = client.call_tool("buy", json!({})).await.unwrap_err();
    assert!(matches!(&error, Error::Lost { method, .. } if method == "tools/call"), "{error}");
    client.call_tool("buy", json!({})).await.unwrap();
    let bought =
        script.received().iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(bought, 2, "the lost one was not repeated");

    let client = Client::builder()
        .connect(
            Script::new(|message, peer: &Scripted| match message["method"].as_str() {
                Some("tools/call") if peer.connection() == 1 => peer.hang_up(),
                Some("tools/call") => peer.send(result(message, json!({"content": []}))),
                _ => handshake(message, peer),
            })
            .connector(),
        )
        .await
        .unwrap();
    client.call_tool("look", json!({})).repeatable().await.unwrap();
}

/// MCP-069: delays grow, and after the last attempt the error has the cause.
#[tokio::test(start_paused = true)]
async fn reconnecting_stops_after_the_last_attempt() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("ping") => peer.hang_up(),
        _ => handshake(message, peer),
    });
    let builder = Client::builder().with(|options| options.backoff.attempts = 4);
    let builder =
        builder.with(|options| options.revision = RevisionPolicy::Only(Revision::V2025_11_25));
    let client = builder.connect(script.connector()).await.unwrap();
    let mut events = client.events();
    script.refuse_connections();
    let error = client.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert!(error.to_string().starts_with("cannot connect to scripted"), "{error}");
    let mut delays = Vec::new();
    while let Some(Some(event)) = futures_util::FutureExt::now_or_never(events.next()) {
        if let ClientEvent::Retrying { delay, .. } = event {
            delays.push(delay);
        }
    }
    assert_eq!(delays.len(), 3);
    assert!(delays.windows(2).all(|pair| pair[1] > pair[0]), "{delays:?}");
}

/// MCP-069: a connection that is lost before anybody could use it fails requests with its reason, and
/// a log level that a server exits on is not set again.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_while_it_opens_hangs_nobody() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("initialize") => peer.send(result(
            message,
            json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}},
                "serverInfo": {"name": "scripted", "version": "1"}}),
        )),
        Some("logging/setLevel") => peer.hang_up(),
        Some("tools/list" | "ping") => peer.send(result(message, json!({}))),
        _ => handshake(message, peer),
    });
    let limit = Duration::from_secs(600);
    let builder = Client::builder().with(|options| {
        options.revision = RevisionPolicy::Only(Revision::V2025_11_25);
        options.log_level = Some(mcp_flow_client::model::LogLevel::Info);
    });
    let connected = tokio::time::timeout(limit, builder.connect(script.connector())).await;
    let client = connected.expect("it connects").unwrap();
    client.ping().await.unwrap();
    assert_eq!(script.connections(), 2);

    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("initialize") => {
            handshake(message, peer);
            peer.hang_up();
        }
        _ => handshake(message, peer),
    });
    let builder = Client::builder()
        .with(|options| options.revision = RevisionPolicy::Only(Revision::V2025_11_25));
    let used = async {
        let client = builder.connect(script.connector()).await?;
        client.ping().await
    };
    let error = tokio::time::timeout(limit, used).await.expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
}

/// MCP-070: two missed pings close the connection.
#[tokio::test(start_paused = true)]
async fn a_server_that_misses_pings_is_lost() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("ping") if peer.connection() == 1 => {}
        Some("ping") => peer.send(result(message, json!({}))),
        _ => handshake(message, peer),
    });
    let builder = Client::builder().with(|options| options.health = Some(Default::default()));
    let client = builder.connect(script.connector()).await.unwrap();
    let mut events = client.events();
    let Some(ClientEvent::Disconnected { reason }) = events.next().await else {
        panic!("it is lost")
    };
    assert_eq!(reason, "the server missed 2 pings");
    client.ping().await.unwrap();
    assert_eq!(script.connections(), 2);
}

/// A subscription survives a reconnection and reports it.
#[tokio::test(start_paused = true)]
async fn a_subscription_is_renewed_after_a_reconnection() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("resources/subscribe") => {
            peer.send(result(message, json!({})));
            let updated = "notifications/resources/updated";
            peer.send(json!({"jsonrpc": "2.0", "method": updated, "params": {"uri": "x:/a"}}));
        }
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut changes = client.listen(ChangeFilter::new().resource("x:/a")).await.unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap(), ServerChange::Resource("x:/a".to_owned()));
    script.hang_up();
    let mut seen = vec![changes.next().await.unwrap().unwrap()];
    seen.push(changes.next().await.unwrap().unwrap());
    assert!(seen.contains(&ServerChange::Reconnected), "{seen:?}");
    drop(changes);
    script.until(|message| message["method"] == "resources/unsubscribe").await;
}

/// Any error that 2026-07-28 does not define, and a lost connection, lead to `initialize`.
#[tokio::test(start_paused = true)]
async fn the_revision_of_a_server_is_negotiated() {
    let refuse = |code: i64, data: Value| {
        move |message: &Value, peer: &Scripted| match message["method"].as_str() {
            Some("server/discover") => peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
                "error": {"code": code, "message": "no", "data": data}})),
            _ => handshake(message, peer),
        }
    };
    for code in [-32601, -32602, -32600, 0, -32000] {
        let script = Script::new(refuse(code, Value::Null));
        let client = Client::builder().connect(script.connector()).await.unwrap();
        assert_eq!(client.server().await.unwrap().revision, Revision::V2025_11_25, "{code}");
    }
    let script = Script::new(refuse(-32022, json!({"supported": ["2025-06-18", "1999-01-01"]})));
    Client::builder().connect(script.connector()).await.unwrap();
    let asked = script.until(|message| message["method"] == "initialize").await;
    assert_eq!(asked["params"]["protocolVersion"], "2025-06-18");
    let script = Script::new(refuse(-32022, json!({"supported": ["2099-01-01"]})));
    let error = Client::builder().connect(script.connector()).await.unwrap_err();
    assert!(error.to_string().contains("2099-01-01"), "{error}");
    // A server that rejects the revision lists the ones it supports.
    let script = Script::new(|message, peer: &Scripted| {
        let version = &message["params"]["protocolVersion"];
        if message["method"] != "initialize" || version == "2024-11-05" {
            return handshake(message, peer);
        }
        let data = json!({"supportedVersions": ["2024-11-05"], "requestedVersion": version});
        peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
            "error": {"code": -32000, "message": "Unsupported protocol version", "data": data}}));
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert_eq!(client.server().await.unwrap().revision, Revision::V2024_11_05);
    // A server that exits on `server/discover` gets `initialize` on the next connection.
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("server/discover") => peer.hang_up(),
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert_eq!(
        (client.server().await.unwrap().revision, script.connections()),
        (Revision::V2025_11_25, 2)
    );
    // An unknown version.
    let script = Script::new(|message, peer: &Scripted| {
        peer.send(result(message, json!({"protocolVersion": "1999-01-01", "capabilities": {}})));
    });
    let error = Client::builder().connect(script.connector()).await.unwrap_err();
    assert!(error.to_string().contains("1999-01-01"), "{error}");
}

/// A slow 2026-07-28 server is not mistaken for an older one.
#[tokio::test(start_paused = true)]
async fn a_slow_server_is_not_taken_for_an_older_revision() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("server/discover") => peer.send_after(
            Duration::from_secs(5),
            result(
                message,
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {}}),
            ),
        ),
        Some("initialize") => {}
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert_eq!(client.server().await.unwrap().revision, Revision::V2026_07_28);
}
