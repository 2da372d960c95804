//! End of a connection.

use mcp_flow_proto::Revision;
use serde_json::json;

use super::Connect;
use mcp_flow_testkit_fixture::Fixture;

/// MCP-009, MCP-054: after the end of input running calls are answered, and the connection ends.
pub(crate) async fn end_of_input_drains_the_connection(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    peer.close();
    fixture.gate.release_all();
    let rest = peer.rest().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["id"], slow);
}

/// C-20, PAT-008: `shutdown` is answered with null after everything before it; later requests are
/// refused.
pub(crate) async fn shutdown_is_answered_last(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    let shutdown = peer.ask("shutdown", json!({}));
    let late = peer.ask("tools/list", json!({}));
    peer.send(json!({"jsonrpc": "2.0", "id": shutdown, "method": "tools/list"}));
    let refused = peer.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(late), &json!(-32600)));
    assert_eq!(refused["error"]["data"]["name"], "SHUTTING_DOWN");
    assert_eq!(peer.next().await["error"]["data"]["name"], "DUPLICATE_ID");
    fixture.gate.release_all();
    assert_eq!(peer.next().await["id"], slow);
    assert_eq!(peer.next().await, json!({"jsonrpc": "2.0", "id": shutdown, "result": null}));
    assert!(peer.rest().await.is_empty());
}

/// C-20: a shutdown notification does not suppress the response to a `shutdown` request.
pub(crate) async fn a_repeated_shutdown_is_answered(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    let shutdown = peer.ask("shutdown", json!({}));
    peer.send(json!({"jsonrpc": "2.0", "method": "$/shutdown"}));
    peer.settle().await;
    fixture.gate.release_all();
    assert_eq!(peer.next().await["id"], slow);
    assert_eq!(peer.next().await, json!({"jsonrpc": "2.0", "id": shutdown, "result": null}));
}
