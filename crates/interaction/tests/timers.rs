//! Timers of flows, as clients see them.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::{Interaction, OfferedFlow};
use mcp_flow_proto::Revision;
use mcp_flow_server::Server;
use mcp_flow_session::question::text;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Map, Value, json};

use crate::sessions::ManualClock;

const HOUR: u64 = 60 * 60 * 1000;

async fn sleeps(flow: Flow, _: Map<String, Value>) -> FlowResult<&'static str> {
    flow.sleep(Duration::from_millis(HOUR)).await?;
    Ok("awake")
}

/// Asks for an hour, then asks something else.
async fn hurries(flow: Flow, _: Map<String, Value>) -> FlowResult<Value> {
    let first = flow.timeout(Duration::from_millis(HOUR), flow.ask("first", text("First?"))).await;
    let first = first.ok().and_then(Result::ok);
    let second = flow.ask("second", text("Second?")).await?;
    Ok(json!([first, second]))
}

struct Fixture {
    server: Server,
    interaction: Interaction,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let hand = Arc::clone(&clock);
        let offered = [
            OfferedFlow::new("sleeps", sleeps).waits(Duration::from_secs(86_400)),
            OfferedFlow::new("hurries", hurries).waits(Duration::from_secs(86_400)),
        ];
        let interaction = Interaction::builder()
            .flows(Vec::from(offered))
            .in_memory()
            .engine(move |engine| engine.clock(hand))
            .build();
        let server = interaction.add_to(Server::builder("timers", "1.0.0")).build().unwrap();
        Self { server, interaction, clock }
    }

    async fn connect(&self, capabilities: Value) -> Peer {
        let mut peer = memory::connect(&self.server);
        peer.initialize_with(Revision::V2025_11_25, capabilities).await;
        peer
    }

    async fn pass_an_hour(&self) {
        self.clock.forward(HOUR);
        self.interaction.engine().maintain().await.unwrap();
    }
}

/// A sleeping session is processing, with the time at which it wakes, in every reply about it.
#[tokio::test]
async fn clients_see_when_a_session_wakes() {
    let fixture = Fixture::new();
    let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
    let mut peer = fixture.connect(inline).await;
    let started = peer.call("interaction.start", json!({"toolName": "sleeps"})).await;
    let id = started["result"]["sessionId"].clone();
    let wakes = json!(1_000_000 + HOUR);
    let state = peer.call("interaction.getState", json!({"sessionId": id})).await;
    assert_eq!(state["result"]["metadata"]["wakesAt"], wakes, "{state}");
    assert_eq!(state["result"]["state"], "processing", "{state}");
    assert!(state["result"]["metadata"].get("expiresAt").is_none(), "{state}");
    let next = peer.call("interaction.continue", json!({"sessionId": id})).await;
    let next = &next["result"]["next"];
    assert_eq!((&next["pending"], &next["wakesAt"]), (&json!(true), &wakes));
    let listed = peer.call("interaction.list", json!({})).await;
    assert_eq!(listed["result"]["sessions"][0]["wakesAt"], wakes, "{listed}");
    fixture.pass_an_hour().await;
    let state = peer.call("interaction.getState", json!({"sessionId": id})).await;
    assert_eq!(state["result"]["result"]["data"]["value"], "awake", "{state}");
}

/// A call whose flow sleeps for long returns, and the session goes on without it.
#[tokio::test]
async fn a_call_does_not_wait_for_a_long_sleep() {
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let fixture = Fixture::new();
        let mut peer = fixture.connect(capabilities).await;
        let called = peer.call_tool("sleeps", json!({})).await;
        let text = called["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("sleeps until 1970-01-01T01:16:40.000Z"), "{called}");
        peer.settle().await;
        fixture.pass_an_hour().await;
        let listed = peer.call("interaction.list", json!({})).await;
        let session = &listed["result"]["sessions"][0];
        assert_eq!(session["state"], "completed", "{listed}");
        assert!(text.contains(session["sessionId"].as_str().unwrap()), "{text}");
    }
}

/// A question whose time is over is withdrawn from a client that is asked by elicitation; it is asked
/// the next one.
#[tokio::test]
async fn elicitation_goes_on_after_a_timeout() {
    let fixture = Fixture::new();
    let mut peer = fixture.connect(json!({"elicitation": {}})).await;
    let call = peer.ask("tools/call", json!({"name": "hurries", "arguments": {}}));
    let is_request = |message: &Value| message["method"] == "elicitation/create";
    let first = peer.find(is_request).await;
    assert_eq!(first["params"]["message"], "First?");
    fixture.pass_an_hour().await;
    let second = peer.find(is_request).await;
    assert_eq!(second["params"]["message"], "Second?");
    let accept = |value: &str, key: &str| json!({"action": "accept", "content": {key: value}});
    peer.send(json!({"jsonrpc": "2.0", "id": first["id"], "result": accept("late", "first")}));
    peer.send(json!({"jsonrpc": "2.0", "id": second["id"], "result": accept("now", "second")}));
    let done = peer.reply_to(call).await;
    assert_eq!(done["result"]["structuredContent"], json!({"value": [null, "now"]}), "{done}");
}

/// A client with pushed questions is asked the next question after a timeout, and cannot answer the
/// one before.
#[tokio::test]
async fn pushed_questions_go_on_after_a_timeout() {
    let fixture = Fixture::new();
    let mut peer = fixture.connect(json!({})).await;
    let started = peer.call("interaction.start", json!({"toolName": "hurries"})).await;
    let id = started["result"]["sessionId"].clone();
    fixture.pass_an_hour().await;
    let second = peer.find(|message| message["method"] == "interaction.continue").await;
    let prompt = &second["params"]["nextPrompt"];
    assert_eq!(prompt["message"], "Second?", "{second}");
    assert_eq!(prompt["metadata"]["turnId"], 1, "{second}");
    peer.send(json!({"jsonrpc": "2.0", "id": second["id"], "result": {"acknowledged": true}}));
    for (turn, value, is_accepted) in [(0, "late", false), (1, "now", true)] {
        let response = json!({"value": value, "turnId": turn});
        let params = json!({"sessionId": id, "response": response});
        let replied = peer.call("interaction.respond", params).await;
        assert_eq!(replied["result"]["accepted"] == true, is_accepted, "{replied}");
    }
    let done = peer.find(|message| message["method"] == "interaction.complete").await;
    assert_eq!(done["params"]["result"]["data"]["value"], json!([null, "now"]), "{done}");
}
