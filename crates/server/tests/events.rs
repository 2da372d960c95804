//! Connection events and vetoes of a host application.

use std::sync::{Arc, Mutex};

use mcp_flow_proto::Revision;
use mcp_flow_server::{
    ConnectionEnd, ConnectionEvent, ConnectionInfo, Context, Server, Tool, Veto,
};
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// MCP-024, MCP-092: a host observes connect, messages, errors and close of one connection, in
/// order and once each.
#[tokio::test]
async fn a_host_observes_all_events_of_a_connection() {
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

/// MCP-092: a hook can veto a connection before anything is read.
#[tokio::test]
async fn a_hook_can_veto_a_connection() {
    let (seen, fixture) = watched(|event| match event {
        ConnectionEvent::Connected => Err(Veto("not today".to_owned())),
        _ => Ok(()),
    });
    let refused = fixture.server.connect(ConnectionInfo::new("memory")).unwrap_err();
    assert_eq!(refused.to_string(), "refused: not today");
    assert_eq!(*seen.lock().unwrap(), ["connected"]);
}

/// MCP-092, PAT-006: a hook can veto a handshake, which is answered with an error.
#[tokio::test]
async fn a_hook_can_veto_a_handshake() {
    let (_, fixture) = watched(|event| match event {
        ConnectionEvent::Initialize(peer) if peer.name() == "scripted-peer" => {
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

/// MCP-092: a hook can close a connection when its client is initialized.
#[tokio::test]
async fn a_hook_can_close_a_connection() {
    let (seen, fixture) = watched(|event| match event {
        ConnectionEvent::Initialized(_) => Err(Veto("changed my mind".to_owned())),
        _ => Ok(()),
    });
    let mut peer = memory::connect(&fixture.server);
    peer.initialize(Revision::V2025_11_25).await;
    assert!(peer.rest().await.is_empty());
    assert_eq!(seen.lock().unwrap().last().unwrap(), "closed Vetoed");
}

/// MCP-030: calls running on a dropped connection are stopped, and it is reported as lost.
#[tokio::test]
async fn a_dropped_connection_stops_its_calls() {
    let (seen, fixture) = watched(|_| Ok(()));
    for _ in 0..100 {
        let connection = fixture.server.connect(ConnectionInfo::new("memory")).unwrap();
        let params = json!({"name": "wait", "_meta": mcp_flow_testkit::stateless_meta()});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        connection.receive(call.to_string().as_bytes());
    }
    fixture.gate.until_waiting(0).await;
    let closed = format!("closed {:?}", ConnectionEnd::Lost);
    assert_eq!(seen.lock().unwrap().iter().filter(|event| **event == closed).count(), 100);
}

type Seen = Arc<Mutex<Vec<String>>>;

/// A fixture whose hook records events before it decides.
fn watched(
    decide: impl Fn(&ConnectionEvent<'_>) -> Result<(), Veto> + Send + Sync + 'static,
) -> (Seen, Fixture) {
    let seen = Seen::default();
    let log = seen.clone();
    let fixture = Fixture::with(|builder| {
        builder.hook(move |_: &ConnectionInfo, event: &ConnectionEvent<'_>| {
            log.lock().unwrap().push(describe(event));
            decide(event)
        })
    });
    (seen, fixture)
}

fn describe(event: &ConnectionEvent<'_>) -> String {
    match event {
        ConnectionEvent::Connected => "connected".to_owned(),
        ConnectionEvent::Message { method } => format!("message {}", method.unwrap_or("response")),
        ConnectionEvent::Initialize(peer) => format!("initialize {}", peer.name()),
        ConnectionEvent::Initialized(peer) => format!("initialized {}", peer.name()),
        ConnectionEvent::Error(error) => format!("error {}", error.name()),
        ConnectionEvent::Closed(ended) => format!("closed {ended:?}"),
        _ => "something new".to_owned(),
    }
}

/// Dropping a tool may call the server again.
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
    let slot = Arc::new(std::sync::OnceLock::new());
    let sibling = Sibling(slot.clone());
    let first = Tool::builder("first").quick(move |_: &Context, _: Value| {
        let _ = &sibling;
    });
    let second = Tool::builder("second").quick(|_: &Context, _: Value| ());
    let server = Server::builder("test", "1").tools((first, second)).build().unwrap();
    slot.set(server.clone()).unwrap();
    assert!(server.remove_tool("first"));
    assert!(!server.remove_tool("second"), "it was removed with the first");
}
