//! Cancellation of calls, and ids in use.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit_fixture::Fixture;

/// C-51, MCP-010: an id in use is refused without effect on the first request, and can be used
/// again afterwards.
pub(crate) async fn a_duplicate_id_is_refused(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let wait = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call",
        "params": {"name": "wait"}});
    peer.send(&wait);
    fixture.gate.until_waiting(1).await;
    peer.send(json!({"jsonrpc": "2.0", "id": "same", "method": "ping"}));
    let refused = peer.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("same"), &json!(-32600)));
    assert_eq!(refused["error"]["data"]["name"], "DUPLICATE_ID");
    fixture.gate.release_all();
    assert_eq!(peer.reply_to("same").await["result"]["content"][0]["text"], "done");
    peer.send(json!({"jsonrpc": "2.0", "id": "same", "method": "ping"}));
    assert_eq!(peer.reply_to("same").await["result"], json!({}));
}

/// MCP-086, C-12: `notifications/cancelled` stops the work, without a response.
pub(crate) async fn a_cancelled_call_stops_without_a_response(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let id = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    peer.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    fixture.gate.until_waiting(0).await;
    assert_eq!(peer.settle().await, Vec::<Value>::new());
}

/// C-02, C-12: `$/cancel` stops the work, with a response.
pub(crate) async fn a_cancel_by_its_alias_is_answered(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let id = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    peer.notify("$/cancel", json!({"requestId": id, "reason": "enough"}));
    let error = peer.reply_to(id).await["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32000), &json!("Cancelled")));
    let data = json!({"domain": "flow", "name": "CANCELLED", "requestId": id, "reason": "enough"});
    assert_eq!(error["data"], data);
    fixture.gate.until_waiting(0).await;
}

/// MCP-056, C-12: a blocking function is signalled, and its permit is released when it returns.
pub(crate) async fn a_blocking_call_is_signalled_to_stop(connect: &Connect) {
    let fixture = Fixture::new();
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let id = peer.ask("tools/call", json!({"name": "wait_blocking"}));
    fixture.gate.until_waiting(1).await;
    peer.notify("$/cancel", json!({"requestId": id}));
    assert_eq!(peer.reply_to(id).await["error"]["data"]["name"], "CANCELLED");
    fixture.gate.until_waiting(0).await;
}

/// C-12: unknown, finished and invalid ids are ignored.
pub(crate) async fn cancels_without_a_running_call_are_ignored(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    let done = peer.ask("ping", json!({}));
    peer.reply_to(done).await;
    for method in ["notifications/cancelled", "$/cancel"] {
        for params in
            [json!({"requestId": done}), json!({"requestId": "no"}), json!({}), json!(null)]
        {
            peer.notify(method, params);
        }
    }
    assert_eq!(peer.settle().await, Vec::<Value>::new());
}
