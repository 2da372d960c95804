//! Concurrency limits and rate limits.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Limits, Rate};
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit_fixture::Fixture;

/// C-17: beyond the limit calls wait in order, while pings, cancels and responses are processed.
pub(crate) async fn calls_wait_for_a_permit(connect: &Connect) {
    let fixture = Fixture::with_limits(Limits { concurrency: 2, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let waiting: Vec<_> = (0..5).map(|_| peer.ask("tools/call", json!({"name": "wait"}))).collect();
    let last = peer.ask("tools/call", json!({"name": "math.add", "arguments": {"a": 1, "b": 1}}));
    fixture.gate.until_waiting(2).await;
    assert_eq!(peer.settle().await, Vec::<Value>::new(), "ping is answered, the rest waits");
    for id in &waiting {
        fixture.gate.release_one();
        let done = peer.find(|message| message["id"] != last).await;
        assert_eq!(done["id"], *id, "places are given in order");
    }
    peer.reply_to(last).await;

    // A call that waits for the client lends its permit to others.
    let asking: Vec<_> =
        (0..3).map(|_| peer.ask("tools/call", json!({"name": "ask_client"}))).collect();
    for id in asking {
        let request = peer.find(|message| message["method"] == "roots/list").await;
        peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}));
        peer.reply_to(id).await;
    }
}

/// C-12: a call that has not begun can be cancelled, and never begins.
pub(crate) async fn a_waiting_call_can_be_cancelled(connect: &Connect) {
    let fixture = Fixture::with_limits(Limits { concurrency: 1, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let running = peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    let silent = peer.ask("tools/call", json!({"name": "wait"}));
    let reported = peer.ask("tools/call", json!({"name": "wait"}));
    peer.notify("notifications/cancelled", json!({"requestId": silent}));
    peer.notify("$/cancel", json!({"requestId": reported}));
    assert_eq!(peer.next().await["error"]["data"]["name"], "CANCELLED");
    peer.send(json!({"jsonrpc": "2.0", "id": silent, "method": "tools/list"}));
    fixture.gate.release_one();
    assert_eq!(peer.next().await["id"], running);
    assert!(peer.reply_to(silent).await["result"]["tools"].is_array(), "its id is free again");
    fixture.gate.until_waiting(0).await;
}

/// C-12: the same for a stateless call, with its own error code.
pub(crate) async fn a_waiting_stateless_call_can_be_cancelled(connect: &Connect) {
    let fixture = Fixture::with_limits(Limits { concurrency: 1, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    peer.ask("tools/call", json!({"name": "wait"}));
    fixture.gate.until_waiting(1).await;
    let params = json!({"name": "wait", "_meta": mcp_flow_testkit::stateless_meta()});
    let alone = peer.ask("tools/call", params);
    peer.notify("$/cancel", json!({"requestId": alone}));
    assert_eq!(peer.next().await["error"]["code"], -31105, "its own revision's number");
}

/// C-17: with one permit all responses keep the order of requests, errors and ping included.
pub(crate) async fn one_permit_keeps_responses_in_order(connect: &Connect) {
    let fixture = Fixture::with_limits(Limits { concurrency: 1, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "wait"}));
    let listed = peer.ask("tools/list", json!({}));
    peer.send("garbage");
    let unknown = peer.ask("no/such/method", json!({}));
    let ping = peer.ask("ping", json!({}));
    fixture.gate.until_waiting(1).await;
    fixture.gate.release_all();
    for id in [json!(slow), json!(listed), json!(null), json!(unknown), json!(ping)] {
        assert_eq!(peer.next().await["id"], id);
    }
}

/// PAT-036, INT-107: a burst is refused with a retry delay, and other clients are served as before.
pub(crate) async fn requests_above_the_rate_limit_are_refused(connect: &Connect) {
    let session_rate = Some(Rate { burst: 4, per_second: 0.01 });
    let fixture = Fixture::with_limits(Limits { session_rate, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let sum = || json!({"name": "math.add", "arguments": {"a": 1, "b": 1}});
    let asked: Vec<_> = (0..40).map(|_| peer.ask("tools/call", sum())).collect();
    let mut served = 0;
    for id in asked {
        let reply = peer.reply_to(id).await;
        let Some(error) = reply.get("error") else {
            served += 1;
            continue;
        };
        assert_eq!(error["data"]["name"], "RATE_LIMITED", "{reply}");
        let wait = error["data"]["retryAfterMs"].as_u64();
        assert!(wait.is_some_and(|wait| (1..=100_000).contains(&wait)), "{reply}");
    }
    assert_eq!(served, 3, "the handshake was the first of four");
    let mut other = connect(fixture.server.clone()).await;
    other.initialize(Revision::V2025_11_25).await;
    let reply = other.call_tool("math.add", json!({"a": 1, "b": 1})).await;
    assert_eq!(reply["result"]["content"][0]["text"], "2", "{reply}");
}

/// MCP-074: above the memory budget of the server, requests are refused and pings are not.
pub(crate) async fn a_full_server_refuses_and_recovers(connect: &Connect) {
    let fixture = Fixture::with_limits(Limits { memory: 1024, ..Limits::default() });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    let held = fixture.server.load().count(4096);
    let sum = || json!({"a": 1, "b": 1});
    let refused = peer.call_tool("math.add", sum()).await;
    assert_eq!(refused["error"]["data"]["name"], "OVERLOADED", "{refused}");
    assert_eq!(refused["error"]["data"]["retryAfterMs"], 1000, "{refused}");
    drop(held);
    let served = peer.call_tool("math.add", sum()).await;
    assert_eq!(served["result"]["content"][0]["text"], "2", "{served}");
    peer.settle().await;
    assert_eq!(fixture.server.load().bytes(), 0, "nothing is counted that is gone");
}
