//! Timeouts of flows, as clients see them (C-41).

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::SessionLimits;
use mcp_flow_interaction::InteractionBuilder;
use mcp_flow_proto::Revision;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::store::ReplayGuard;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

use crate::sessions::guard;

/// INT-083, C-41: a step that times out ends the session; requests that wait for it, and later
/// ones, get the error.
#[tokio::test(start_paused = true)]
async fn a_step_that_times_out_is_named() {
    let fixture = Fixture::interactive_with(|flows| {
        flows.limits(short()).response_timeouts(Duration::from_secs(60), Duration::from_secs(60))
    });
    let mut peer = connect(&fixture).await;
    let id = start(&mut peer).await["sessionId"].clone();
    for answer in ["one", "two"] {
        let late = respond(&mut peer, &json!({"sessionId": id}), answer).await;
        is_timeout(&late, "work", "error");
        assert_eq!(late["error"]["data"]["sessionId"], id);
    }
}

/// INT-083, C-41, C-43: a timeout does not change a client-held session; the same answer can be
/// sent again.
#[tokio::test(start_paused = true)]
async fn a_client_held_session_survives_a_slow_step() {
    for is_guarded in [false, true] {
        // The timeout of the step, or that of the call.
        for (operation, call) in [(1, 600), (60, 1)] {
            let guard = is_guarded.then(guard);
            let fixture = Fixture::interactive_as(
                |flows| client_held(flows, guard).limits(limits(Duration::from_secs(operation))),
                |server| {
                    let call_time = Duration::from_secs(call);
                    server.limits(mcp_flow_server::Limits { call_time, ..Default::default() })
                },
            );
            let mut peer = connect(&fixture).await;
            let started = start(&mut peer).await;
            let by_token = json!({"sessionToken": started["sessionToken"]});
            let late = respond(&mut peer, &by_token, "one").await;
            is_timeout(&late, "work", "waiting_user");
            assert_eq!(late["error"]["data"]["sessionId"], started["sessionId"]);
            fixture.gate.release_one();
            let taken = respond(&mut peer, &by_token, "one").await;
            assert_eq!(taken["result"]["next"]["prompt"]["message"], "Second?", "{taken}");
        }
    }
}

/// INT-083: a start that times out creates no session.
#[tokio::test(start_paused = true)]
async fn a_client_held_session_that_times_out_does_not_begin() {
    let fixture = Fixture::interactive_with(|flows| client_held(flows, None).limits(short()));
    let mut peer = connect(&fixture).await;
    let late = peer.call("interaction.start", json!({"toolName": "thinks"})).await;
    is_timeout(&late, "think", "error");
    assert_eq!(late["error"]["data"].get("sessionId"), None, "{late}");
}

#[track_caller]
fn is_timeout(reply: &Value, operation: &str, state: &str) {
    let error = &reply["error"];
    assert_eq!(
        (&error["code"], &error["data"]["name"]),
        (&json!(-32005), &json!("TIMEOUT")),
        "{reply}"
    );
    assert_eq!(error["data"]["operation"], operation, "{reply}");
    assert_eq!(error["data"]["sessionState"], state, "{reply}");
}

fn short() -> SessionLimits {
    limits(Duration::from_secs(1))
}

fn limits(operation: Duration) -> SessionLimits {
    SessionLimits { operation, ..SessionLimits::default() }
}

fn client_held(
    flows: InteractionBuilder,
    guard: Option<Arc<dyn ReplayGuard>>,
) -> InteractionBuilder {
    flows.client_held(KeyRing::new(Key::from_bytes([7; 32])), guard)
}

/// Connects a client with inline delivery.
async fn connect(fixture: &Fixture) -> Peer {
    let mut peer = memory::connect(&fixture.server).timeout(Duration::from_secs(3600));
    let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
    peer.initialize_with(Revision::V2025_11_25, inline).await;
    peer
}

async fn start(peer: &mut Peer) -> Value {
    let reply = peer.call("interaction.start", json!({"toolName": "works"})).await;
    assert!(reply.get("result").is_some(), "{reply}");
    reply["result"].clone()
}

async fn respond(peer: &mut Peer, session: &Value, value: &str) -> Value {
    let mut params = session.clone();
    params["response"] = json!({"value": value});
    peer.call("interaction.respond", params).await
}
