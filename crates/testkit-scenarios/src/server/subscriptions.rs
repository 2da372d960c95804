//! Resource subscriptions.

use mcp_flow_files::{Roots, ServeFiles};
use mcp_flow_proto::Revision;
use mcp_flow_server::{Limits, Resource, Server};
use serde_json::{Value, json};

use super::Connect;
use super::resources::library;
use mcp_flow_testkit::stateless_meta;
use mcp_flow_testkit_fixture::Fixture;

/// PAT-057, PAT-058, PAT-059, PAT-061, MCP-081, C-34: a subscriber is notified once for a burst of
/// changes, and no other client is, until it unsubscribes.
pub(crate) async fn subscribers_are_notified_of_changes(connect: &Connect) {
    for revision in Revision::handshake() {
        let server = library().server;
        let (mut peer, mut other) = (connect(server.clone()).await, connect(server.clone()).await);
        peer.initialize(revision).await;
        other.initialize(revision).await;
        let subscribe = |uri: &str| json!({"uri": uri});
        let unknown = peer.call("resources/subscribe", subscribe("library:/missing")).await;
        assert_eq!(unknown["error"]["data"]["name"], "RESOURCE_NOT_FOUND");
        for uri in ["library:/motto", "library:/motto", "library:/who"] {
            let begun = peer.call("resources/subscribe", subscribe(uri)).await;
            assert_eq!(begun["result"], json!({}));
        }
        for _ in 0..5 {
            server.resource_changed("library:/motto");
            server.resource_changed("library:/bytes");
        }
        assert_eq!(peer.find(is_update).await["params"], json!({"uri": "library:/motto"}));
        let ended = peer.call("resources/unsubscribe", subscribe("library:/motto")).await;
        assert_eq!(ended["result"], json!({}));
        server.resource_changed("library:/motto");
        // When the second has arrived, the first would have.
        server.resource_changed("library:/who");
        assert_eq!(peer.find(is_update).await["params"]["uri"], "library:/who");
        assert_eq!(peer.settle().await, Vec::<Value>::new());
        assert_eq!(other.settle().await, Vec::<Value>::new());
    }
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    let refused = peer.call("resources/subscribe", json!({"uri": "x:/a"})).await;
    assert_eq!(refused["error"]["code"], -32601);
}

/// PAT-059, PAT-060: a file that is written, or replaced as editors do, is announced, and reading
/// it returns the new content.
pub(crate) async fn subscribers_are_notified_of_changed_files(connect: &Connect) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(path.join(name), "old").unwrap();
    }
    let server = with_files(&path, Limits::default());
    let mut peer = connect(server).await;
    peer.initialize(Revision::V2025_06_18).await;
    let uri = format!("file://{}/a.txt", path.display());
    assert_eq!(peer.call("resources/subscribe", json!({"uri": uri})).await["result"], json!({}));
    let missing = format!("file://{}/c.txt", path.display());
    let refused = peer.call("resources/subscribe", json!({"uri": missing})).await;
    assert_eq!(refused["error"]["data"]["name"], "RESOURCE_NOT_FOUND");
    for round in ["written", "replaced"] {
        std::fs::write(path.join("b.txt"), round).unwrap();
        if round == "written" {
            std::fs::write(path.join("a.txt"), round).unwrap();
        } else {
            std::fs::write(path.join(".a.txt.new"), round).unwrap();
            std::fs::rename(path.join(".a.txt.new"), path.join("a.txt")).unwrap();
        }
        assert_eq!(peer.find(is_update).await["params"], json!({"uri": uri}));
        let read = peer.call("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["result"]["contents"][0]["text"], round);
    }
    assert_eq!(peer.settle().await, Vec::<Value>::new());
}

/// C-34, PAT-057: a stateless client subscribes to resources; forbidden ones are left out of the
/// acknowledgement, and all notifications are tagged.
pub(crate) async fn a_stateless_client_subscribes_to_resources(connect: &Connect) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("a.txt"), "old").unwrap();
    let uri = format!("file://{}/a.txt", path.display());
    let server = with_files(&path, Limits::default());
    let mut peer = connect(server.clone()).await;
    let wanted = json!({
        "resourcesListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": [uri, "news:/today", "news:/missing", uri],
    });
    let params = json!({"_meta": stateless_meta(), "notifications": wanted});
    let id = peer.ask("subscriptions/listen", params);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    let begun = peer.next().await;
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    let agreed =
        json!({"resourcesListChanged": true, "resourceSubscriptions": [uri, "news:/today"]});
    assert_eq!(begun["params"], json!({"_meta": meta, "notifications": agreed}));
    server.resource_changed("news:/today");
    let reported = peer.next().await;
    assert_eq!(reported["method"], "notifications/resources/updated");
    assert_eq!(reported["params"], json!({"uri": "news:/today", "_meta": meta}));
    std::fs::write(path.join("a.txt"), "new").unwrap();
    assert_eq!(peer.next().await["params"], json!({"uri": uri, "_meta": meta}));
    server.add_resources(Resource::builder("news:/tomorrow").text("rain")).unwrap();
    let reported = peer.next().await;
    assert_eq!(reported["method"], "notifications/resources/list_changed");
    assert_eq!(reported["params"], json!({"_meta": meta}));
    let refused =
        peer.call("resources/subscribe", json!({"uri": uri, "_meta": stateless_meta()})).await;
    assert_eq!(refused["error"]["code"], -32601);
    peer.close();
    let rest = peer.rest().await;
    assert_eq!(rest.last().unwrap()["result"]["_meta"], meta, "{rest:?}");
}

/// MCP-078: added and removed resources are announced, once for a burst: those added by code and
/// files of a listed directory.
pub(crate) async fn a_changed_resource_list_is_announced(connect: &Connect) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("a.txt"), "").unwrap();
    let server = with_files(&path, Limits::default());
    let mut peer = connect(server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    for number in 0..3 {
        let resource = Resource::builder(format!("late:/{number}")).text("");
        server.add_resources(resource).unwrap();
    }
    assert!(server.remove_resource("late:/0") && !server.remove_resource("late:/0"));
    peer.find(is_list_change).await;
    let listed = peer.call("resources/list", json!({})).await["result"]["resources"].clone();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["today", "1", "2", "a.txt"]);
    // The directory is watched by the time that a file in it is.
    let uri = format!("file://{}/a.txt", path.display());
    peer.call("resources/subscribe", json!({"uri": uri})).await;
    assert_eq!(peer.settle().await, Vec::<Value>::new());
    std::fs::write(path.join("b.txt"), "").unwrap();
    peer.find(is_list_change).await;
}

/// PAT-024: the resource subscriptions of a connection are limited.
pub(crate) async fn resource_subscriptions_are_bounded(connect: &Connect) {
    let limits = Limits { resource_subscriptions: 2, ..Limits::default() };
    let fixture = Fixture::with(|builder| {
        let one = |number| Resource::builder(format!("number:/{number}")).text("");
        builder.limits(limits).resources((0..4).map(one).collect::<Vec<_>>())
    });
    let mut peer = connect(fixture.server).await;
    peer.initialize(Revision::V2025_11_25).await;
    for (number, is_refused) in [(0, false), (1, false), (2, true), (1, false)] {
        let params = json!({"uri": format!("number:/{number}")});
        let reply = peer.call("resources/subscribe", params).await;
        let name = &reply["error"]["data"]["name"];
        assert_eq!(name == "RATE_LIMITED", is_refused, "{reply}");
    }
    peer.call("resources/unsubscribe", json!({"uri": "number:/0"})).await;
    let begun = peer.call("resources/subscribe", json!({"uri": "number:/2"})).await;
    assert_eq!(begun["result"], json!({}));
}

fn with_files(path: &std::path::Path, limits: Limits) -> Server {
    let roots = Roots::directory(path).unwrap();
    let news = Resource::builder("news:/today").text("sun");
    Fixture::with(|builder| builder.limits(limits).resources(news).resource_roots(roots)).server
}

fn is_update(message: &Value) -> bool {
    message["method"] == "notifications/resources/updated"
}

fn is_list_change(message: &Value) -> bool {
    message["method"] == "notifications/resources/list_changed"
}
