//! Tools that are added and removed at run time.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, Limits, Server, Tool};
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit::{Peer, stateless_meta};
use mcp_flow_testkit_fixture::Fixture;

/// A client with a handshake gets one notification for changes made together, and lists the new
/// tools.
pub(crate) async fn a_burst_of_changes_is_announced_once(connect: &Connect) {
    for revision in Revision::handshake() {
        let server = Fixture::new().server;
        let mut peer = connect(server.clone()).await;
        let opened = peer.initialize(revision).await;
        assert_eq!(opened["capabilities"]["tools"]["listChanged"], true);
        assert!(!names(&mut peer).await.contains(&"late.1".to_owned()));
        for number in 0..3 {
            add(&server, &format!("late.{number}"));
        }
        assert!(server.remove_tool("late_0") && !server.remove_tool("late_0"));
        peer.find(is_change).await;
        let listed = names(&mut peer).await;
        assert_eq!(listed[listed.len() - 2..], ["late.1", "late.2"]);
        let called = peer.call_tool("late_2", json!({})).await;
        assert_eq!(called["result"]["content"][0]["text"], "here");
        // A second burst causes a second notification; a duplicate of the first would be left over.
        add(&server, "later");
        peer.find(is_change).await;
        assert_eq!(peer.settle().await, Vec::<Value>::new());
        assert!(server.remove_tool("math.add"));
        let gone = peer.call_tool("math.add", json!({"a": 1, "b": 1})).await;
        assert_eq!(gone["error"]["data"]["name"], "UNKNOWN_TOOL");
    }
}

/// A stateless client gets the changes it subscribes to, tagged with the request that subscribed,
/// until it cancels or the connection ends.
pub(crate) async fn a_stateless_client_subscribes_to_changes(connect: &Connect) {
    let server = Fixture::new().server;
    let mut peer = connect(server.clone()).await;
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    let params = json!({"_meta": stateless_meta(), "notifications": wanted});
    let first = peer.ask("subscriptions/listen", params.clone());
    let begun = peer.next().await;
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(begun["params"]["_meta"], subscription(first));
    assert_eq!(begun["params"]["notifications"], json!({"toolsListChanged": true}));
    let second = peer.ask("subscriptions/listen", params);
    peer.next().await;
    add(&server, "late");
    for id in [first, second] {
        let change = peer.find(|message| message["params"]["_meta"] == subscription(id)).await;
        assert!(is_change(&change), "{change}");
    }
    peer.notify("notifications/cancelled", json!({"requestId": first, "_meta": stateless_meta()}));
    add(&server, "later");
    let change = peer.next().await;
    assert_eq!(change["params"]["_meta"], subscription(second));
    peer.close();
    let rest = peer.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["id"], second);
    assert_eq!(rest[0]["result"], json!({"resultType": "complete", "_meta": subscription(second)}));
}

/// An invalid filter is refused, and unsupported events are not acknowledged.
pub(crate) async fn unsupported_subscriptions_are_left_out(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let refused = peer.call("subscriptions/listen", json!({"_meta": stateless_meta()})).await;
    assert_eq!(refused["error"]["code"], -32602);
    let wanted = json!({"promptsListChanged": true, "toolsListChanged": false});
    peer.ask("subscriptions/listen", json!({"_meta": stateless_meta(), "notifications": wanted}));
    assert_eq!(peer.next().await["params"]["notifications"], json!({}));
    peer.initialize(Revision::V2025_11_25).await;
    let refused = peer.call("subscriptions/listen", json!({"notifications": wanted})).await;
    assert_eq!(refused["error"]["code"], -32601);
}

/// A subscription that starts while the connection ends is refused, and delays nothing.
pub(crate) async fn no_subscription_begins_while_the_connection_ends(connect: &Connect) {
    let fixture = Fixture::with_limits(Limits { concurrency: 1, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.ask("tools/call", json!({"name": "wait", "_meta": stateless_meta()}));
    fixture.gate.until_waiting(1).await;
    let wanted = json!({"toolsListChanged": true});
    let params = json!({"_meta": stateless_meta(), "notifications": wanted});
    let listen = peer.ask("subscriptions/listen", params);
    peer.close();
    fixture.gate.release_one();
    // It may start before the end is seen, and a transport that is closed both ways at once carries
    // no response; but the connection ends, without waiting for the drain limit.
    for reply in peer.rest().await.iter().filter(|reply| reply["id"] == listen) {
        let refused = reply["error"]["data"]["name"] == "SHUTTING_DOWN";
        assert!(refused || reply["result"]["resultType"] == "complete", "{reply}");
    }
}

/// The subscriptions of a connection are limited.
pub(crate) async fn subscriptions_of_a_connection_are_bounded(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let params = json!({"_meta": stateless_meta(), "notifications": {"toolsListChanged": true}});
    for _ in 0..64 {
        peer.ask("subscriptions/listen", params.clone());
        assert_eq!(peer.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    let refused = peer.call("subscriptions/listen", params).await;
    assert_eq!(refused["error"]["data"]["name"], "RATE_LIMITED");
}

fn add(server: &Server, name: &str) {
    server.add_tools(Tool::builder(name).quick(|_: &Context, _: Value| "here")).unwrap();
}

async fn names(peer: &mut Peer) -> Vec<String> {
    let listed = peer.call("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn is_change(message: &Value) -> bool {
    message["method"] == "notifications/tools/list_changed"
}

fn subscription(id: i64) -> Value {
    json!({"io.modelcontextprotocol/subscriptionId": id})
}
