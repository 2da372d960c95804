//! Signals, as clients send and see them.

use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::{Interaction, OfferedFlow};
use mcp_flow_proto::Revision;
use mcp_flow_server::Server;
use mcp_flow_session::question::text;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Map, Value, json};

use crate::sessions::{guard, keys};

/// Waits for a payment, asks, and waits for another one.
async fn order(flow: Flow, _: Map<String, Value>) -> FlowResult<Value> {
    let first: u64 = flow.wait_for("paid").await?;
    let name = flow.ask("name", text("Name?")).await?;
    let second: u64 = flow.wait_for("paid").await?;
    Ok(json!([first, name, second]))
}

fn server() -> Server {
    let flows = vec![OfferedFlow::new("order", order)];
    let interaction = Interaction::builder().flows(flows).in_memory().build();
    interaction.add_to(Server::builder("signals", "1.0.0")).build().unwrap()
}

async fn connect(server: &Server, capabilities: Value) -> Peer {
    let mut peer = memory::connect(server);
    peer.initialize_with(Revision::V2025_11_25, capabilities).await;
    peer
}

async fn signal(peer: &mut Peer, id: &Value, name: &str, value: Value) -> Value {
    let params = json!({"sessionId": id, "name": name, "value": value});
    peer.call("interaction.signal", params).await
}

/// A waiting session says for which signals in every reply about it; early ones are counted.
#[tokio::test]
async fn clients_see_what_a_session_waits_for() {
    let server = server();
    let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
    let mut peer = connect(&server, inline).await;
    let started = peer.call("interaction.start", json!({"toolName": "order"})).await;
    let id = started["result"]["sessionId"].clone();
    assert_eq!(started["result"]["next"], json!({"pending": true, "awaits": ["paid"]}));
    let state = peer.call("interaction.getState", json!({"sessionId": id})).await;
    let state = &state["result"];
    assert_eq!(state["metadata"]["awaits"], json!(["paid"]), "{state}");
    assert_eq!(state["state"], "processing", "{state}");
    assert!(state["metadata"].get("expiresAt").is_none(), "{state}");
    let next = peer.call("interaction.continue", json!({"sessionId": id})).await;
    assert_eq!(next["result"]["next"]["awaits"], json!(["paid"]), "{next}");

    let early = signal(&mut peer, &id, "refunded", json!({"all": true})).await;
    assert_eq!(early["result"], json!({"signalled": true, "kept": true}));
    let paid = signal(&mut peer, &id, "paid", json!(1)).await;
    assert_eq!(paid["result"]["kept"], false);
    assert_eq!(paid["result"]["next"]["prompt"]["message"], "Name?", "{paid}");
    let state = peer.call("interaction.getState", json!({"sessionId": id})).await;
    let metadata = &state["result"]["metadata"];
    assert_eq!(
        (&metadata["awaits"], &metadata["signals"]),
        (&json!(null), &json!({"refunded": 1}))
    );
}

/// The next prompt after a signal is pushed once, to the client that follows the session, whoever sends it.
#[tokio::test]
async fn what_follows_a_signal_is_pushed() {
    let server = server();
    let mut peer = connect(&server, json!({})).await;
    let started = peer.call("interaction.start", json!({"toolName": "order"})).await;
    let id = started["result"]["sessionId"].clone();
    let mut other = connect(&server, json!({})).await;
    let paid = signal(&mut other, &id, "paid", json!(1)).await;
    assert_eq!(paid["result"], json!({"signalled": true, "kept": false}));
    let is_asked = |message: &Value| message["method"] == "interaction.prompt";
    let asked = peer.find(is_asked).await;
    assert_eq!(asked["params"]["prompt"]["message"], "Name?");
    peer.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"acknowledged": true}}));
    let answer = json!({"sessionId": id, "response": {"value": "Ada"}});
    assert_eq!(peer.call("interaction.respond", answer).await["result"]["accepted"], true);
    // The one that is asked may send it, too.
    assert_eq!(signal(&mut peer, &id, "paid", json!(2)).await["result"]["kept"], false);
    let done = peer.find(|message| message["method"] == "interaction.complete").await;
    assert_eq!(done["params"]["result"]["data"]["value"], json!([1, "Ada", 2]), "{done}");
    peer.send(json!({"jsonrpc": "2.0", "id": done["id"], "result": {}}));
    peer.settle().await;
}

/// Each refusal says what to do.
#[tokio::test]
async fn signals_are_refused_with_a_reason() {
    let server = server();
    let mut peer = connect(&server, json!({})).await;
    let started = peer.call("interaction.start", json!({"toolName": "order"})).await;
    let id = started["result"]["sessionId"].clone();
    let wrong = signal(&mut peer, &id, "paid", json!("much")).await["error"].clone();
    assert_eq!((&wrong["code"], &wrong["data"]["reason"]), (&json!(-32004), &json!("signal")));
    assert_eq!(wrong["data"]["error"], "invalid type: string \"much\", expected u64");
    let bad = signal(&mut peer, &id, "", json!(1)).await["error"].clone();
    assert_eq!(bad["data"]["reason"], "signal", "{bad}");
    let missing = peer.call("interaction.signal", json!({"sessionId": id})).await["error"].clone();
    assert_eq!((&missing["code"], &missing["data"]["field"]), (&json!(-32602), &json!("name")));
    let large = signal(&mut peer, &id, "paid", json!("x".repeat(300_000))).await["error"].clone();
    assert_eq!(large["data"]["name"], "PAYLOAD_TOO_LARGE", "{large}");
    for _ in 0..100 {
        assert_eq!(signal(&mut peer, &id, "other", json!(0)).await["result"]["kept"], true);
    }
    let many = signal(&mut peer, &id, "other", json!(0)).await["error"].clone();
    assert_eq!(
        (&many["data"]["name"], &many["data"]["reason"]),
        (&json!("RATE_LIMITED"), &json!("signals"))
    );
    let nobody = format!("session_{:032x}", 7).into();
    let unknown = signal(&mut peer, &nobody, "paid", json!(1)).await["error"].clone();
    assert_eq!(unknown["code"], -32001);
    peer.call("interaction.cancel", json!({"sessionId": id})).await;
    let late = signal(&mut peer, &id, "paid", json!(1)).await["error"].clone();
    assert_eq!(late["code"], -32006);
}

/// A call whose flow waits for a signal returns, and the session goes on without it.
#[tokio::test]
async fn a_call_does_not_wait_for_a_signal() {
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let server = server();
        let mut peer = connect(&server, capabilities).await;
        let called = peer.call_tool("order", json!({"name": "Ada"})).await;
        let text = called["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("waits for the signal `paid`"), "{called}");
        peer.settle().await;
        let listed = peer.call("interaction.list", json!({})).await;
        let id = listed["result"]["sessions"][0]["sessionId"].clone();
        assert!(text.contains(id.as_str().unwrap()), "{text}");
        for amount in [1, 2] {
            assert_eq!(
                signal(&mut peer, &id, "paid", json!(amount)).await["result"]["kept"],
                false
            );
        }
        let state = peer.call("interaction.getState", json!({"sessionId": id})).await;
        assert_eq!(state["result"]["result"]["data"]["value"], json!([1, "Ada", 2]), "{state}");
    }
}

/// A session that only its client has cannot be signalled.
#[tokio::test]
async fn client_held_sessions_are_not_signalled() {
    let flows = vec![OfferedFlow::new("asks", async |flow: Flow, _: Map<String, Value>| {
        flow.ask("name", text("Name?")).await
    })];
    let interaction =
        Interaction::builder().flows(flows).client_held(keys(), Some(guard())).build();
    let server = interaction.add_to(Server::builder("signals", "1.0.0")).build().unwrap();
    let mut peer = connect(&server, json!({})).await;
    let started = peer.call("interaction.start", json!({"toolName": "asks"})).await;
    let token = started["result"]["sessionToken"].clone();
    let params = json!({"sessionToken": token, "name": "paid"});
    let refused = peer.call("interaction.signal", params).await["error"].clone();
    assert_eq!(refused["code"], -32004, "{refused}");
}
