//! Permissions, set at start and replaced at run time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_flow_proto::Revision;
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_server::{Context, Permissions, Prompt, Resource, Tool};
use serde_json::{Value, json};

use super::Connect;
use super::handshake::call;
use super::prompts::open;
use mcp_flow_testkit_fixture::{Fixture, prompts};

/// MCP-091, PAT-020, PAT-031, PAT-041, PAT-044, PAT-058: what a caller may not use is in no list,
/// and requested by name it is as unknown as what does not exist; no handler runs.
pub(crate) async fn forbidden_items_are_hidden(connect: &Connect) {
    for revision in Revision::ALL {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let secret = Tool::builder("secret").quick(move |_: &Context, _: Value| {
            counted.fetch_add(1, Ordering::Relaxed);
            "run"
        });
        let rule = AccessRule {
            principals: Names::new(["local"]),
            tools: Names::new(["math.*", "!math.sub"]),
            resources: Names::new(["book:/*", "!book:/secret"]),
            prompts: Names::new(["pick"]),
            ..AccessRule::default()
        };
        let books =
            ["open", "secret"].map(|name| Resource::builder(format!("book:/{name}")).text(name));
        let fixture = Fixture::with(|server| {
            let server = server.tools(secret).prompts(prompts()).resources(books);
            server.permissions(Permissions::new(vec![rule]))
        });
        let mut peer = open(connect, &fixture, revision).await;
        for (list, name, expected) in [
            ("tools", "name", "math.add"),
            ("prompts", "name", "pick"),
            ("resources", "uri", "book:/open"),
        ] {
            let listed = call(&mut peer, revision, &format!("{list}/list"), json!({})).await;
            let entries = listed["result"][list].as_array().unwrap();
            let names: Vec<_> = entries.iter().map(|entry| &entry[name]).collect();
            assert_eq!(names, [expected], "{revision}");
            if revision.is_stateless() {
                assert_eq!(listed["result"]["cacheScope"], "private");
            }
        }
        let by_prompt = |name: &str| {
            json!({"ref": {"type": "ref/prompt", "name": name},
                   "argument": {"name": "language", "value": ""}})
        };
        let mut asked = vec![
            ("tools/call", json!({"name": "secret"}), json!({"name": "absent"})),
            ("prompts/get", json!({"name": "everything"}), json!({"name": "absent"})),
            ("completion/complete", by_prompt("everything"), by_prompt("absent")),
            ("resources/read", json!({"uri": "book:/secret"}), json!({"uri": "book:/absent"})),
            ("resources/read", json!({"uri": "book:/s%65cret"}), json!({"uri": "book:/a%62sent"})),
        ];
        if !revision.is_stateless() {
            let (hidden, absent) = (json!({"uri": "book:/secret"}), json!({"uri": "book:/absent"}));
            asked.push(("resources/subscribe", hidden, absent));
        }
        for (method, hidden, absent) in asked {
            let hidden = call(&mut peer, revision, method, hidden).await["error"].to_string();
            let absent = call(&mut peer, revision, method, absent).await["error"].to_string();
            let same = |text: &str| {
                ["secret", "absent", "everything", "s%65cret", "a%62sent"]
                    .iter()
                    .fold(text.to_owned(), |text, name| text.replace(name, "NAME"))
            };
            assert_eq!(same(&hidden), same(&absent), "{method} {revision}");
            assert!(hidden.contains("code"), "{method}: {hidden}");
        }
        let added = json!({"name": "math.add", "arguments": {"a": 1, "b": 2}});
        let added = call(&mut peer, revision, "tools/call", added).await;
        assert_eq!(added["result"]["content"][0]["text"], "3");
        assert_eq!(calls.load(Ordering::Relaxed), 0, "what may not be called is not run");
    }
}

/// MCP-091: new permissions apply at once to connected clients, which are notified; they hear
/// nothing of what they may not see.
pub(crate) async fn permissions_can_be_replaced_while_clients_are_connected(connect: &Connect) {
    let permissions = Permissions::everything();
    let books = ["open", "other"].map(|name| Resource::builder(format!("book:/{name}")).text(name));
    let fixture = Fixture::with(|server| {
        server.prompts(prompts()).resources(books).permissions(permissions.clone())
    });
    let server = fixture.server.clone();
    let revision = Revision::V2025_11_25;
    let mut peer = open(connect, &fixture, revision).await;
    for uri in ["book:/open", "book:/other"] {
        let subscribed = peer.call("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(subscribed["result"], json!({}));
    }
    permissions.replace(&Permissions::new(vec![AccessRule {
        principals: Names::all(),
        tools: Names::new(["math.add"]),
        resources: Names::new(["book:/other"]),
        prompts: Names::all(),
        ..AccessRule::default()
    }]));
    server.permissions_changed();
    peer.find(|message| message["method"] == "notifications/resources/list_changed").await;
    let listed = peer.call("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);
    let refused = peer.call_tool("who", json!({})).await;
    assert_eq!(refused["error"]["data"]["name"], "UNKNOWN_TOOL");
    peer.settle().await;
    // Notifications keep this order, so anything before the last of them would have arrived.
    server.add_tools(Tool::builder("hidden").quick(|_: &Context, _: Value| "here")).unwrap();
    server.resource_changed("book:/open");
    server.add_prompts(Prompt::builder("late").template("Better than never.")).unwrap();
    peer.find(|message| message["method"] == "notifications/prompts/list_changed").await;
    for _ in 0..2 {
        server.resource_changed("book:/other");
        let update = |message: &Value| message["params"]["uri"] == "book:/other";
        peer.find(update).await;
    }
    assert_eq!(peer.settle().await, Vec::<Value>::new());
}

/// MCP-091, INT-103: a flow is given by its own rules, as a tool and by `interaction.start`, and without
/// the flow there is no session of it either.
pub(crate) async fn sessions_require_permission_for_their_flow(connect: &Connect) {
    let permissions = Permissions::new(vec![AccessRule {
        principals: Names::all(),
        tools: Names::all(),
        flows: Names::new(["simple"]),
        ..AccessRule::default()
    }]);
    let fixture =
        Fixture::interactive_as(|flows| flows, |server| server.permissions(permissions.clone()));
    let mut peer = open(connect, &fixture, Revision::V2025_11_25).await;
    let listed = peer.call("tools/list", json!({})).await["result"]["tools"].to_string();
    assert!(listed.contains("\"simple\"") && !listed.contains("\"wizard\""), "{listed}");
    for method in ["wizard", "absent"] {
        let refused = peer.call("interaction.start", json!({"toolName": method})).await;
        assert_eq!(refused["error"]["data"]["name"], "UNKNOWN_TOOL", "{refused}");
        let refused = peer.call_tool(method, json!({})).await;
        assert_eq!(refused["error"]["data"]["name"], "UNKNOWN_TOOL", "{refused}");
    }
    let started = peer.call("interaction.start", json!({"toolName": "simple"})).await;
    let id = started["result"]["sessionId"].clone();
    let about = json!({"sessionId": id});
    let state = peer.call("interaction.getState", about.clone()).await;
    assert_eq!(state["result"]["sessionId"], id, "{state}");
    permissions.replace(&Permissions::new(Vec::new()));
    let listed = peer.call("interaction.list", json!({})).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
    let answer = json!({"sessionId": id, "response": {"value": "Ada"}});
    for (method, params) in [
        ("interaction.getState", about.clone()),
        ("interaction.continue", about.clone()),
        ("interaction.complete", about.clone()),
        ("interaction.cancel", about),
        ("interaction.respond", answer),
    ] {
        let refused = peer.call(method, params).await;
        assert_eq!(refused["error"]["data"]["name"], "SESSION_NOT_FOUND", "{method} {refused}");
    }
}
