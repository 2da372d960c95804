//! What a host application sees of its connections, and what it can stop.

use std::sync::{Arc, Mutex};

use mcp_flow_proto::Revision;
use mcp_flow_server::{ConnectionInfo, Context, Ended, Event, Server, Tool, Veto};
use mcp_flow_testkit::fixture::Fixture;
use mcp_flow_testkit::memory;
use serde_json::{Value, json};

/// MCP-024, MCP-092: a host sees connect, messages, errors and close of one connection, in order
/// and once each.
#[tokio::test]
async fn a_host_sees_the_life_of_a_connection() {
    let (seen, fixture) = watched(|_| Ok(()));
    let mut peer = memory::connect(&fixture.server);
    peer.initialize(Revision::V2025_11_25).await;
    peer.call("no/such/method", json!({})).await;
    peer.send("garbage");
    peer.next().await;
    peer.close();
    peer.rest().await;
    let expected = [
        "connected",
        "message initialize",
        "initialize scripted-peer",
        "message notifications/initialized",
        "initialized scripted-peer",
        "message no/such/method",
        "error METHOD_NOT_FOUND",
        "error PARSE_ERROR",
        "closed Drained",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// MCP-092: a hook can refuse a connection before anything is read.
#[tokio::test]
async fn a_hook_can_refuse_a_connection() {
    let (seen, fixture) = watched(|event| match event {
        Event::Connected => Err(Veto("not today".to_owned())),
        _ => Ok(()),
    });
    let refused = fixture.server.connect(ConnectionInfo::new("memory")).unwrap_err();
    assert_eq!(refused.to_string(), "refused: not today");
    assert_eq!(*seen.lock().unwrap(), ["connected"]);
}

/// MCP-092, PAT-006: a hook can refuse a client by answering its handshake with an error.
#[tokio::test]
async fn a_hook_can_refuse_a_handshake() {
    let (_, fixture) = watched(|event| match event {
        Event::Initialize(peer) if peer.name() == "scripted-peer" => {
            Err(Veto("go away".to_owned()))
        }
        _ => Ok(()),
    });
    let mut peer = memory::connect(&fixture.server);
    let info = json!({"name": "scripted-peer", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "clientInfo": info});
    let error = peer.call("initialize", params).await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["name"]), (&json!(-32000), &json!("ACCESS_DENIED")));
    assert_eq!(
        peer.call("tools/list", json!({})).await["error"]["data"]["name"],
        "NOT_INITIALIZED"
    );
}

/// MCP-092: a hook can end a connection when its client says it is ready.
#[tokio::test]
async fn a_hook_can_end_a_connection() {
    let (seen, fixture) = watched(|event| match event {
        Event::Initialized(_) => Err(Veto("changed my mind".to_owned())),
        _ => Ok(()),
    });
    let mut peer = memory::connect(&fixture.server);
    peer.initialize(Revision::V2025_11_25).await;
    assert!(peer.rest().await.is_empty());
    assert_eq!(seen.lock().unwrap().last().unwrap(), "closed Vetoed");
}

/// MCP-030: whatever was running when a connection is dropped is stopped, and it is said to be
/// lost.
#[tokio::test]
async fn a_dropped_connection_leaves_nothing_behind() {
    let (seen, fixture) = watched(|_| Ok(()));
    for _ in 0..100 {
        let connection = fixture.server.connect(ConnectionInfo::new("memory")).unwrap();
        let params = json!({"name": "wait", "_meta": mcp_flow_testkit::scenario::stateless()});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        connection.receive(call.to_string().as_bytes());
    }
    fixture.gate.until_waiting(0).await;
    let closed = format!("closed {:?}", Ended::Lost);
    assert_eq!(seen.lock().unwrap().iter().filter(|event| **event == closed).count(), 100);
}

type Seen = Arc<Mutex<Vec<String>>>;

/// A fixture whose hook writes down what it sees before it decides.
fn watched(
    decide: impl Fn(&Event<'_>) -> Result<(), Veto> + Send + Sync + 'static,
) -> (Seen, Fixture) {
    let seen = Seen::default();
    let log = seen.clone();
    let fixture = Fixture::with(|builder| {
        builder.hook(move |_: &ConnectionInfo, event: &Event<'_>| {
            log.lock().unwrap().push(describe(event));
            decide(event)
        })
    });
    (seen, fixture)
}

fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Connected => "connected".to_owned(),
        Event::Message { method } => format!("message {}", method.unwrap_or("response")),
        Event::Initialize(peer) => format!("initialize {}", peer.name()),
        Event::Initialized(peer) => format!("initialized {}", peer.name()),
        Event::Error(error) => format!("error {}", error.name()),
        Event::Closed(ended) => format!("closed {ended:?}"),
        _ => "something new".to_owned(),
    }
}

/// What a tool holds may reach for the server when it is dropped.
#[tokio::test]
async fn a_removed_tool_may_remove_another() {
    struct Sibling(Arc<std::sync::OnceLock<Server>>);
    impl Drop for Sibling {
        fn drop(&mut self) {
            if let Some(server) = self.0.get() {
                server.remove_tool("second");
            }
        }
    }
    let place = Arc::new(std::sync::OnceLock::new());
    let sibling = Sibling(place.clone());
    let first = Tool::builder("first").quick(move |_: &Context, _: Value| {
        let _ = &sibling;
    });
    let second = Tool::builder("second").quick(|_: &Context, _: Value| ());
    let server = Server::builder("test", "1").tools((first, second)).build().unwrap();
    place.set(server.clone()).unwrap();
    assert!(server.remove_tool("first"));
    assert!(!server.remove_tool("second"), "it went with the first");
}
