//! Sealed request states: principals, servers and keys.

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::{
    AskError, ConnectionInfo, Context, Elicited, Handler, Principal, Prompt, Reply,
    ResourceTemplate, Server,
    proto::{Params, Revision, RpcError, model::PromptMessage},
    router::Era,
};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// C-06, C-53: a state is valid only for the principal it was issued to.
#[tokio::test]
async fn a_state_is_valid_for_one_principal_only() {
    let server = Fixture::new().server;
    let as_principal = |name: &str| {
        let principal = Principal::named(name);
        memory::connect_with(&server, ConnectionInfo { principal, ..ConnectionInfo::new("memory") })
    };
    let state = begin(&mut as_principal("alice")).await;
    let refused = resume(&mut as_principal("bob"), &state).await;
    assert_eq!(refused["error"]["code"], -32602);
    let forged = resume(&mut as_principal("bob"), &json!("AQ")).await;
    assert_eq!(refused["error"], forged["error"], "bob learns nothing about alice");
    assert_eq!(resume(&mut as_principal("alice"), &state).await["result"]["isError"], false);
}

/// C-06, C-43: servers with shared keys continue each other's calls, and states of an old key stay
/// valid while it is in the ring.
#[tokio::test]
async fn keys_are_shared_and_rotated() {
    let key = |byte| Key::from_bytes([byte; 32]);
    let mut ring = KeyRing::new(key(1));
    let with = |ring: &KeyRing| Fixture::with(|builder| builder.sealing_keys(ring.clone())).server;
    let (one, two) = (with(&ring), with(&ring));
    let connect = |server: &Server| memory::connect(server);
    let state = begin(&mut connect(&one)).await;
    assert_eq!(resume(&mut connect(&two), &state).await["result"]["isError"], false);

    ring.rotate(key(2));
    two.set_sealing_keys(ring.clone());
    assert_eq!(resume(&mut connect(&two), &state).await["result"]["isError"], false);
    let newer = begin(&mut connect(&two)).await;
    assert_eq!(resume(&mut connect(&one), &newer).await["error"]["code"], -32602);

    ring.keep(1);
    two.set_sealing_keys(ring);
    assert_eq!(resume(&mut connect(&two), &state).await["error"]["code"], -32602);
    let other_server = Fixture::new().server;
    assert_eq!(resume(&mut connect(&other_server), &newer).await["error"]["code"], -32602);
}

/// C-06, C-62: `prompts/get` and `resources/read` take rounds like `tools/call`, and ignore answers
/// to questions that were not asked.
#[tokio::test]
async fn prompts_and_resources_take_rounds() {
    let prompt = Prompt::builder("who").get(async |context: Context, _: Subject| {
        ask_for_name(&context).await.map(|name| vec![PromptMessage::user(name)])
    });
    let resource = ResourceTemplate::builder("file:///{of}")
        .read(async |context: Context, _: Subject| ask_for_name(&context).await);
    let server = Server::builder("asking", "1.0.0").prompts(prompt).resources(resource);
    let mut peer = memory::connect(&server.build().unwrap());
    let prompt = |of: &str| json!({"name": "who", "arguments": {"of": of}});
    let resource = |of: &str| json!({"uri": format!("file:///{of}")});
    for (method, own, foreign, found) in [
        ("prompts/get", prompt("a"), prompt("b"), "/messages/0/content/text"),
        ("resources/read", resource("a"), resource("b"), "/contents/0/text"),
    ] {
        let mut early = own.clone();
        early["inputResponses"] =
            json!({"elicitation": {"action": "accept", "content": {"name": "Al"}}});
        let first = peer.call(method, params(early)).await;
        assert_eq!(first["result"]["resultType"], "input_required", "{first}");
        let state = first["result"]["requestState"].clone();
        let again = |mut of: Value| {
            of["requestState"] = state.clone();
            of["inputResponses"] =
                json!({"elicitation": {"action": "accept", "content": {"name": "Al"}}});
            params(of)
        };
        let last = peer.call(method, again(own.clone())).await;
        assert_eq!(last["result"].pointer(found), Some(&json!("Al")), "{last}");
        assert_eq!(peer.call(method, again(foreign)).await["error"]["code"], -32602);
        // Their failures are errors, not results; a missing capability is reported all the same.
        let mut unable = params(own);
        unable["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        assert_eq!(peer.call(method, unable).await["error"]["code"], -32021);
    }
}

/// C-62: a response that was received before its request was sent guesses its id, and is ignored.
#[tokio::test]
async fn a_request_is_not_answered_before_it_is_sent() {
    let mut peer = memory::connect(&Fixture::new().server);
    peer.initialize_with(Revision::V2025_11_25, json!({"elicitation": {}})).await;
    let accept = |id: &Value, name: &str| {
        let result = json!({"action": "accept", "content": {"name": name}});
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    };
    for number in 1..4 {
        let call = peer.ask("tools/call", json!({"name": "ask_name"}));
        peer.send(accept(&number.into(), "Mallory"));
        let asked = peer.find(|message| message["method"] == "elicitation/create").await;
        assert_eq!(asked["id"], number, "the guess was right");
        peer.send(accept(&asked["id"], "Al"));
        let reply = peer.reply_to(call).await;
        assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains("Al"), "{reply}");
    }
}

/// C-06: no other method takes rounds.
#[tokio::test]
async fn other_methods_take_no_rounds() {
    let server = Server::builder("asking", "1.0.0").method("other/method", Era::Both, AskForName);
    let mut peer = memory::connect(&server.build().unwrap());
    let refused = peer.call("other/method", params(json!({}))).await;
    assert_eq!(
        refused["error"]["data"]["details"],
        "the client cannot be asked anything while this method is served"
    );
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Subject {
    #[expect(dead_code, reason = "it only tells two requests apart")]
    of: String,
}

struct AskForName;

impl Handler for AskForName {
    fn call(&self, context: &Context, _: Params<'_>) -> Reply {
        let context = context.clone();
        Reply::Later(Box::pin(async move {
            match ask_for_name(&context).await {
                Ok(name) => context.reply(&name),
                Err(error) => Err(RpcError::internal().details(error.to_string())),
            }
        }))
    }
}

async fn ask_for_name(context: &Context) -> Result<String, AskError> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        name: String,
    }
    match context.elicit::<Person>("Who are you?").await? {
        Elicited::Accepted(person) => Ok(person.name),
        _ => Ok("nobody".to_owned()),
    }
}

async fn begin(peer: &mut Peer) -> Value {
    let first = peer.call("tools/call", params(json!({"name": "ask_name"}))).await;
    first["result"]["requestState"].clone()
}

async fn resume(peer: &mut Peer, state: &Value) -> Value {
    let answers = json!({"name": {"action": "accept", "content": {"name": "Al"}}});
    let again = json!({"name": "ask_name", "requestState": state, "inputResponses": answers});
    peer.call("tools/call", params(again)).await
}

fn params(mut params: Value) -> Value {
    params["_meta"] = mcp_flow_testkit::stateless_meta();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params
}
