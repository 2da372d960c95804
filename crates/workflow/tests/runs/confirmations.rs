//! Confirmations of runs by `interaction.respond`.

use mcp_flow_interaction::Interaction;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::Server;
use mcp_flow_testkit::Peer;
use mcp_flow_workflow::runs::Runs;
use mcp_flow_workflow::{Library, Origin};
use serde_json::{Value, json};

use super::{World, agent, call, structured};

/// C-56, C-62: a confirmation is given neither before it is asked, by a response that was sent ahead,
/// nor by guessing its turn. After the reply that tells of it, or `getState`, it is.
#[tokio::test]
async fn a_step_is_not_confirmed_before_it_is_asked() {
    let world = World::new();
    let server = server(&world);
    let mut peer = agent(&server, json!({})).await;
    for turn in [Value::Null, json!(2)] {
        let second = second_step(&mut peer).await;
        let work = json!({"token": second["token"], "output": "work"});
        let work = json!({"name": "workflow_continue", "arguments": work});
        let response = json!({"value": true, "turnId": turn});
        let confirm = json!({"sessionId": second["runId"], "response": response});
        // Both are received before the first reply is sent.
        let continued = peer.ask("tools/call", work);
        let confirmed = peer.ask("interaction.respond", confirm.clone());
        let waiting = peer.reply_to(continued).await;
        let waiting = structured(&waiting["result"]);
        assert_eq!(waiting["status"], "waiting_for_confirmation", "{waiting}");
        let refused = peer.reply_to(confirmed).await;
        let (error, reason) = (&refused["error"], &refused["error"]["data"]["reason"]);
        assert_eq!((&error["code"], reason), (&json!(-32003), &json!("turn")), "{refused}");
        assert_eq!(status(&mut peer, &second).await["status"], "waiting_for_confirmation");

        let accepted = peer.call("interaction.respond", confirm).await;
        assert_eq!(accepted["result"]["accepted"], true, "{accepted}");
        assert_eq!(status(&mut peer, &second).await["step"]["id"], "three");
    }
}

/// C-62: the id of an elicitation can be guessed, but not answered before it is sent.
#[tokio::test]
async fn a_form_is_not_confirmed_before_it_is_sent() {
    let world = World::new();
    let server = server(&world);
    let mut peer = agent(&server, json!({"elicitation": {}})).await;
    let second = second_step(&mut peer).await;
    let work = json!({"token": second["token"], "output": "work"});
    let id = peer.ask("tools/call", json!({"name": "workflow_continue", "arguments": work}));
    let agree = |id: Value, agree: bool| {
        let result = json!({"action": "accept", "content": {"agree": agree}});
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    };
    peer.send(agree(json!(1), true));
    let asked = peer.find(|message| message["method"] == "elicitation/create").await;
    assert_eq!(asked["id"], 1, "the guess was right");
    peer.send(agree(asked["id"].clone(), false));
    let reply = peer.reply_to(id).await;
    assert_eq!(structured(&reply["result"])["step"]["id"], "two", "the user declined: {reply}");
}

/// A server of runs whose sessions can be answered with `interaction.respond`.
fn server(world: &World) -> Server {
    let library = Library::open([(Origin::Named, world.folder.path().into())]).unwrap();
    let runs = Runs::new(library, KeyRing::new(Key::from_bytes([7; 32])));
    let run = runs.flow();
    let sessions = Interaction::builder().engine(move |engine| engine.flow(run)).build();
    let told = sessions.clone();
    let runs = runs.on_sending(move |context, view| told.record_sent(context, view));
    let server = sessions.add_to(Server::builder("test", "1.0.0"));
    runs.add_to(sessions.engine(), server).build().unwrap()
}

async fn second_step(peer: &mut Peer) -> Value {
    let started = call(peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let done = json!({"token": structured(&started)["token"], "output": "done"});
    let second = call(peer, "workflow_continue", done).await;
    structured(&second).clone()
}

async fn status(peer: &mut Peer, run: &Value) -> Value {
    let status = call(peer, "workflow_status", json!({"runId": run["runId"]})).await;
    structured(&status).clone()
}
