//! Permissions and pushed notifications of the admin extension.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow_admin::Admin;
use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::{Interaction, OfferedFlow};
use mcp_flow_proto::{Encoding, Revision};
use mcp_flow_server::{ConnectionInfo, Context, Failure, Principal, Server, Tool};
use mcp_flow_session::question::text;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::memory::connect_with;
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
struct Nothing {}

async fn greet(flow: Flow, _: Nothing) -> FlowResult<String> {
    let name = flow.ask("name", text("Who are you?").length(2..=20)).await?;
    flow.progress(1.0, 2.0, None);
    flow.ask("again", text("And your friend?")).await?;
    Ok(format!("Hello, {name}!"))
}

/// A server whose admin is `keeper`.
fn server() -> Server {
    server_kept_by(|principal| principal.name() == "keeper")
}

fn server_kept_by(may: impl Fn(&Principal) -> bool + Send + Sync + 'static) -> Server {
    let flows = Interaction::builder().flows(OfferedFlow::new("greet", greet)).build();
    let admin = Admin::new(may).sessions_of(&flows);
    admin.describe(json!({"store": "memory:"}));
    let echo = Tool::builder("echo").quick(|_: &Context, given: Value| given.to_string()).unwrap();
    let fail = Tool::builder("fail")
        .quick(|_: &Context, _: Nothing| Err::<String, _>(Failure::new("NO", "it does not work")))
        .unwrap();
    let forward = Tool::builder("forward")
        .quick(|context: &Context, _: Nothing| context.forwarded_to("up"))
        .unwrap();
    let server = Server::builder("watched", "1.0.0").tools([echo, fail, forward]);
    admin.add_to(flows.add_to(server)).build().unwrap()
}

async fn connect(server: &Server, name: &str, encoding: Encoding) -> Peer {
    let principal = Principal::named(name);
    let info = ConnectionInfo { principal, encoding, ..ConnectionInfo::new("memory") };
    let mut peer = connect_with(server, info);
    let capabilities = json!({"experimental": {"interaction": {"delivery": "inline"}}});
    peer.initialize_with(Revision::V2025_11_25, capabilities).await;
    peer
}

async fn pushed(peer: &mut Peer, topic: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let method = format!("notifications/admin/{topic}");
    let message =
        peer.find(|message| message["method"] == method && is_it(&message["params"])).await;
    message["params"].clone()
}

/// C-53: everyone receives their own sessions, admins all, and none of it has questions or answers.
#[tokio::test]
async fn sessions_are_pushed_to_owners_and_admins() {
    let server = server();
    let mut ada = connect(&server, "ada", Encoding::Json).await;
    let mut bob = connect(&server, "bob", Encoding::Json).await;
    let mut keeper = connect(&server, "keeper", Encoding::Cbor).await;
    for peer in [&mut ada, &mut bob, &mut keeper] {
        let watching = peer.call("admin/watch", json!({"topics": ["sessions"]})).await;
        assert!(watching["result"]["watchId"].is_u64(), "{watching}");
    }
    let start = json!({"toolName": "greet"});
    let own = bob.call("interaction.start", start.clone()).await["result"]["sessionId"].clone();
    let id = ada.call("interaction.start", start).await["result"]["sessionId"].clone();
    let of = |id: &Value, params: &Value, state: &str| {
        let mut sessions = params["sessions"].as_array().into_iter().flatten();
        sessions.any(|session| session["sessionId"] == *id && session["state"] == state)
    };
    pushed(&mut ada, "sessions", |params| of(&id, params, "waiting_user")).await;
    let told = pushed(&mut keeper, "sessions", |params| of(&id, params, "waiting_user")).await;
    assert!(!told.to_string().contains("Who are you"), "{told}");
    let respond = json!({"sessionId": id, "response": {"value": "Ada"}});
    ada.call("interaction.respond", respond).await;
    ada.call("interaction.cancel", json!({"sessionId": id})).await;
    pushed(&mut keeper, "sessions", |params| of(&id, params, "cancelled")).await;
    // Bob receives his own session only.
    bob.call("interaction.cancel", json!({"sessionId": own})).await;
    let told = pushed(&mut bob, "sessions", |params| of(&own, params, "cancelled")).await;
    assert!(!told.to_string().contains(id.as_str().unwrap()), "{told}");
    for (peer, count) in [(&mut ada, 1), (&mut bob, 1), (&mut keeper, 2)] {
        let listed = peer.call("admin/sessions", json!({})).await["result"]["sessions"].clone();
        assert_eq!(listed.as_array().unwrap().len(), count, "{listed}");
    }
}

/// Sessions are paginated, and the page size is bounded.
#[tokio::test]
async fn sessions_are_listed_in_pages() {
    let server = server();
    let mut keeper = connect(&server, "keeper", Encoding::Json).await;
    for _ in 0..5 {
        keeper.call("interaction.start", json!({"toolName": "greet"})).await;
    }
    let (mut cursor, mut seen) = (Value::Null, Vec::new());
    loop {
        let params = json!({"limit": 2, "cursor": cursor});
        let page = keeper.call("admin/sessions", params).await["result"].clone();
        seen.extend(
            page["sessions"].as_array().unwrap().iter().map(|one| one["sessionId"].clone()),
        );
        assert!(seen.len() <= 5, "too many pages: {seen:?}");
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 5);
    for params in [json!({"cursor": "x"}), json!({"limit": -1}), json!({"limit": "many"})] {
        let refused = keeper.call("admin/sessions", params.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{params}");
    }
}

/// Traffic and metrics are for admins only, and nothing is recorded without a watch.
#[tokio::test]
async fn exchanges_are_pushed_and_bounded() {
    let server = server();
    let mut ada = connect(&server, "ada", Encoding::Cbor).await;
    let mut keeper = connect(&server, "keeper", Encoding::Json).await;
    for topics in [json!(["traffic"]), json!(["sessions", "stats"])] {
        let refused = ada.call("admin/watch", json!({"topics": topics})).await;
        assert_eq!(refused["error"]["data"]["name"], "ACCESS_DENIED", "{refused}");
    }
    ada.call_tool("echo", json!({"unseen": true})).await;
    let watch = json!({"topics": ["traffic"], "history": true});
    let watching = keeper.call("admin/watch", watch).await["result"].clone();
    assert_eq!(watching["exchanges"], json!([]), "there was no watch");
    ada.call_tool("echo", json!({"long": "é".repeat(9000)})).await;
    ada.call_tool("fail", json!({})).await;
    ada.call("nothing/here", json!({})).await;
    ada.call_tool("forward", json!({})).await;
    let mut exchanges = Vec::new();
    while exchanges.len() < 4 {
        let told = pushed(&mut keeper, "traffic", |_| true).await;
        exchanges.extend(told["exchanges"].as_array().unwrap().clone());
    }
    let [echo, fail, unknown, forward] = &exchanges[..] else { panic!("{exchanges:?}") };
    assert_eq!((&echo["method"], &echo["principal"]), (&json!("tools/call"), &json!("ada")));
    assert_eq!((&echo["transport"], &echo["revision"]), (&json!("memory"), &json!("2025-11-25")));
    assert!(echo["params"].as_str().unwrap().len() <= 4096);
    assert!(echo["result"].as_str().unwrap().len() <= 4096);
    assert!(echo["requestBytes"].as_u64().unwrap() > 9000, "{}", echo["requestBytes"]);
    assert!(echo["time"].as_f64().unwrap() >= 0.0);
    assert_eq!((&echo["failed"], &fail["failed"]), (&json!(false), &json!(true)));
    assert_eq!(unknown["error"]["code"], -32601);
    assert_eq!((&forward["upstream"], echo.get("upstream")), (&json!("up"), None));
    // A second watch gets the history, and can be ended.
    let again = json!({"topics": ["traffic"], "history": true});
    let again = keeper.call("admin/watch", again).await["result"].clone();
    assert_eq!(again["exchanges"].as_array().unwrap().len(), 4);
    for (id, ended) in [(&again["watchId"], true), (&again["watchId"], false)] {
        let told = keeper.call("admin/unwatch", json!({"watchId": id})).await;
        assert_eq!(told["result"]["ended"], ended);
    }
    // A watch can be ended by its owner only.
    let told = ada.call("admin/unwatch", json!({"watchId": watching["watchId"]})).await;
    assert_eq!(told["result"]["ended"], false);
}

/// MCP-091: an admin whose permission is revoked during a watch receives only their own sessions
/// from then on.
#[tokio::test]
async fn a_revoked_permission_stops_the_pushes() {
    let is_kept = Arc::new(AtomicBool::new(true));
    let asked = is_kept.clone();
    let server = server_kept_by(move |principal| {
        principal.name() == "keeper" && asked.load(Ordering::SeqCst)
    });
    let mut ada = connect(&server, "ada", Encoding::Json).await;
    let mut keeper = connect(&server, "keeper", Encoding::Json).await;
    keeper.call("admin/watch", json!({"topics": ["sessions", "traffic"]})).await;
    ada.call_tool("echo", json!({"number": 1})).await;
    pushed(&mut keeper, "traffic", |told| told.to_string().contains("number")).await;
    is_kept.store(false, Ordering::SeqCst);
    keeper.leftovers();
    ada.call_tool("echo", json!({"secret": true})).await;
    let start = json!({"toolName": "greet"});
    let id = ada.call("interaction.start", start.clone()).await["result"]["sessionId"].clone();
    pushed(&mut keeper, "sessions", |told| told["missed"] == true).await;
    let own = keeper.call("interaction.start", start).await["result"]["sessionId"].clone();
    pushed(&mut keeper, "sessions", |told| told.to_string().contains(own.as_str().unwrap())).await;
    let rest = format!("{:?}", keeper.leftovers());
    assert!(!rest.contains("secret") && !rest.contains(id.as_str().unwrap()), "{rest}");
}

/// The metrics of a second are pushed at its end.
#[tokio::test]
async fn seconds_are_counted_and_pushed() {
    let server = server();
    let mut keeper = connect(&server, "keeper", Encoding::Json).await;
    keeper.call("admin/watch", json!({"topics": ["stats"]})).await;
    for _ in 0..10 {
        keeper.call_tool("echo", json!({})).await;
    }
    keeper.call_tool("fail", json!({})).await;
    let mut calls = 0;
    let mut errors = 0;
    let counted = async {
        while calls < 11 {
            let told = pushed(&mut keeper, "stats", |_| true).await;
            for second in told["seconds"].as_array().unwrap() {
                calls += second["calls"].as_u64().unwrap();
                errors += second["errors"].as_u64().unwrap();
                assert!(second["connections"].as_u64().unwrap() >= 1);
            }
        }
    };
    within("all calls to be counted", counted).await;
    assert_eq!((calls, errors), (11, 1));
}

/// The caller's own permissions are for everyone, the configuration for admins.
#[tokio::test]
async fn the_server_is_described_to_admins() {
    let server = server();
    let mut ada = connect(&server, "ada", Encoding::Json).await;
    let told = ada.call("admin/server", json!({})).await["result"].clone();
    assert_eq!(told, json!({"principal": "ada", "all": false, "sessions": true}));
    let mut keeper = connect(&server, "keeper", Encoding::Json).await;
    let told = keeper.call("admin/server", json!({})).await["result"].clone();
    assert_eq!((&told["all"], &told["flows"]), (&json!(true), &json!(["greet"])));
    assert_eq!(told["connections"]["memory"], json!({"open": 2, "total": 2}));
    assert_eq!(told["about"]["store"], "memory:");
    assert!(told["limits"]["frame"].is_u64());
}

/// The number of watches per principal is limited.
#[tokio::test]
async fn watches_are_bounded() {
    let server = server();
    let mut ada = connect(&server, "ada", Encoding::Json).await;
    let watch = json!({"topics": ["sessions"]});
    for _ in 0..64 {
        assert!(ada.call("admin/watch", watch.clone()).await["result"].is_object());
    }
    let refused = ada.call("admin/watch", watch.clone()).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    // Watches of a closed connection do not count.
    ada.close();
    ada.rest().await;
    let mut again = connect(&server, "ada", Encoding::Json).await;
    let admitted = async {
        while again.call("admin/watch", watch.clone()).await["result"].is_null() {
            tokio::task::yield_now().await;
        }
    };
    within("the watches of the closed connection to end", admitted).await;
}

/// The console exports results that it shows truncated whole.
#[tokio::test]
async fn long_results_are_exported_whole() {
    let flows = Interaction::builder().flows(OfferedFlow::new("greet", greet)).build();
    let admin = Admin::new(|_| true).sessions_of(&flows);
    admin.cassettes(|exchanges| serde_json::to_string(exchanges).unwrap());
    let long = Tool::builder("long").quick(|_: &Context, _: Nothing| "x".repeat(50_000)).unwrap();
    let server = Server::builder("watched", "1.0.0").tools([long]);
    let server = admin.add_to(flows.add_to(server)).build().unwrap();
    for encoding in [Encoding::Json, Encoding::Cbor] {
        let mut peer = connect(&server, "keeper", encoding).await;
        peer.call("admin/watch", json!({"topics": ["traffic"]})).await;
        peer.call("tools/call", json!({"name": "long", "arguments": {}})).await;
        let shown = peer.call("admin/traffic", json!({})).await.to_string();
        assert!(shown.contains("tools/call") && shown.len() < 40_000, "{} bytes", shown.len());
        let exported = peer.call("admin/cassette", json!({})).await;
        let exported = exported["result"]["cassette"].as_str().unwrap().to_owned();
        assert!(exported.contains(&"x".repeat(50_000)), "{encoding:?}: {} bytes", exported.len());
    }
}

/// What caused the events of a session is seen later, although nobody watched; other calls are not.
#[tokio::test]
async fn traffic_about_sessions_is_recorded_without_a_watch() {
    let server = server();
    let mut keeper = connect(&server, "keeper", Encoding::Json).await;
    let started = keeper.call("interaction.start", json!({"toolName": "greet"})).await;
    let id = started["result"]["sessionId"].clone();
    keeper.call("tools/call", json!({"name": "echo", "arguments": {"id": id}})).await;
    keeper.call("admin/watch", json!({"topics": ["traffic"]})).await;
    let respond = json!({"sessionId": id, "response": {"value": "Ada"}});
    keeper.call("interaction.respond", respond).await;
    let seen = keeper.call("admin/traffic", json!({"contains": id})).await["result"].clone();
    let methods: Vec<_> =
        seen["exchanges"].as_array().unwrap().iter().map(|one| &one["method"]).collect();
    assert_eq!(methods, ["interaction.start", "interaction.respond"], "{seen}");
    assert!(seen["exchanges"][0]["result"].as_str().unwrap().contains("Who are you?"), "{seen}");
}
