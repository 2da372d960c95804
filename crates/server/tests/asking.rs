//! Whose state it is: callers, servers and keys.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::{
    ConnectionInfo, Context, Elicited, Handler, Outcome, Principal, Reply, Server,
    proto::{Params, RpcError},
    router::Era,
};
use mcp_flow_testkit::fixture::Fixture;
use mcp_flow_testkit::{Peer, memory};
use serde_json::{Value, json};

/// C-06, C-53: a state is worth nothing to anyone but the one it was given to.
#[tokio::test]
async fn a_state_is_good_for_one_principal() {
    let server = Fixture::new().server;
    let as_principal = |name: &str| {
        let principal = Principal::named(name);
        memory::connect_with(&server, ConnectionInfo { principal, ..ConnectionInfo::new("memory") })
    };
    let state = begin(&mut as_principal("alice")).await;
    let refused = go_on(&mut as_principal("bob"), &state).await;
    assert_eq!(refused["error"]["code"], -32602);
    let forged = go_on(&mut as_principal("bob"), &json!("AQ")).await;
    assert_eq!(refused["error"], forged["error"], "bob learns nothing about alice");
    assert_eq!(go_on(&mut as_principal("alice"), &state).await["result"]["isError"], false);
}

/// C-06, C-43: servers that share their keys go on with each other's calls, and a new key takes
/// over while states of the old one are still good.
#[tokio::test]
async fn keys_are_shared_and_rotated() {
    let key = |byte| Key::from_bytes([byte; 32]);
    let mut ring = KeyRing::new(key(1));
    let with = |ring: &KeyRing| Fixture::with(|builder| builder.sealing_keys(ring.clone())).server;
    let (one, two) = (with(&ring), with(&ring));
    let connect = |server: &Server| memory::connect(server);
    let state = begin(&mut connect(&one)).await;
    assert_eq!(go_on(&mut connect(&two), &state).await["result"]["isError"], false);

    ring.rotate(key(2));
    two.set_sealing_keys(ring.clone());
    assert_eq!(go_on(&mut connect(&two), &state).await["result"]["isError"], false);
    let newer = begin(&mut connect(&two)).await;
    assert_eq!(go_on(&mut connect(&one), &newer).await["error"]["code"], -32602);

    ring.keep(1);
    two.set_sealing_keys(ring);
    assert_eq!(go_on(&mut connect(&two), &state).await["error"]["code"], -32602);
    let stranger = Fixture::new().server;
    assert_eq!(go_on(&mut connect(&stranger), &newer).await["error"]["code"], -32602);
}

/// C-06: `prompts/get` and `resources/read` take rounds like `tools/call`, and nothing else does.
#[tokio::test]
async fn other_methods_take_rounds_where_they_may() {
    for (method, takes_rounds) in
        [("prompts/get", true), ("resources/read", true), ("other/method", false)]
    {
        let server = Server::builder("asking", "1.0.0").method(method, Era::Both, AskForName);
        let mut peer = memory::connect(&server.build().unwrap());
        let first = peer.call(method, params(json!({"uri": "file:///a"}))).await;
        if !takes_rounds {
            assert_eq!(
                first["error"]["data"]["details"],
                "the client cannot be asked anything while this method is served"
            );
            continue;
        }
        let state = &first["result"]["requestState"];
        let answers = json!({"elicitation": {"action": "accept", "content": {"name": "Al"}}});
        let again = |uri| json!({"uri": uri, "requestState": state, "inputResponses": answers});
        let last = peer.call(method, params(again("file:///a"))).await;
        assert_eq!(last["result"], "Al");
        let other = peer.call(method, params(again("file:///b"))).await;
        assert_eq!(other["error"]["code"], -32602);
        // Errors of other methods are not results; what the client lacks is told all the same.
        let mut unable = params(json!({"uri": "file:///a"}));
        unable["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        assert_eq!(peer.call(method, unable).await["error"]["code"], -32021);
    }
}

struct AskForName;

impl Handler for AskForName {
    fn call(&self, context: &Context, _: Params<'_>) -> Reply {
        let context = context.clone();
        Reply::Later(Box::pin(async move { ask_for_name(&context).await }))
    }
}

async fn ask_for_name(context: &Context) -> Outcome {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        name: String,
    }
    match context.elicit::<Person>("Who are you?").await {
        Ok(Elicited::Accepted(person)) => context.reply(&person.name),
        Ok(_) => context.reply("nobody"),
        Err(error) => Err(RpcError::internal().details(error.to_string())),
    }
}

async fn begin(peer: &mut Peer) -> Value {
    let first = peer.call("tools/call", params(json!({"name": "ask_name"}))).await;
    first["result"]["requestState"].clone()
}

async fn go_on(peer: &mut Peer, state: &Value) -> Value {
    let answers = json!({"name": {"action": "accept", "content": {"name": "Al"}}});
    let again = json!({"name": "ask_name", "requestState": state, "inputResponses": answers});
    peer.call("tools/call", params(again)).await
}

fn params(mut params: Value) -> Value {
    params["_meta"] = mcp_flow_testkit::scenario::stateless();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params
}
