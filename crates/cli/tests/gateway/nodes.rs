//! Two gateways that share a store: the calls of each survive the other, and are answered at either.

use std::path::Path;

use mcp_flow::Revision;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};

use super::crash::{answers, call};
use super::{PROGRAM, earlier_upstream, servers};

fn start(folder: &Path, upstream: &Value) -> (Program, Peer) {
    let file = servers(folder, upstream).display().to_string();
    let store = format!("sqlite:{}", folder.join("journal.db").display());
    Program::start(PROGRAM, &["stdio", "--no-examples", "--gateway", &file, "--store", &store])
}

async fn initialize(peer: &mut Peer) {
    peer.initialize_with(Revision::V2025_11_25, json!({"elicitation": {}})).await;
}

/// Sessions of the gateway that are in a state, seen from a peer.
async fn sessions_in(peer: &mut Peer, state: &str) -> usize {
    let listed = peer.call("interaction.list", json!({})).await;
    let sessions = listed["result"]["sessions"].as_array().cloned().unwrap_or_default();
    sessions.iter().filter(|session| session["state"] == state).count()
}

/// An answer at another process reaches the call, which goes on where it is.
#[tokio::test]
async fn a_live_call_is_answered_at_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = earlier_upstream(folder.path());
    let (_one, mut one) = start(folder.path(), &upstream);
    let asked = call(&mut one, "up.greet", None, &json!({})).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (_two, mut two) = start(folder.path(), &upstream);
    // Its first list ends what processes left that are gone.
    call(&mut two, "up.none", None, &json!({})).await;
    let responses = answers(&asked, &json!({"name": "Ada"}));
    for peer in [&mut two, &mut one] {
        let answered = call(peer, "up.greet", Some(&asked["requestState"]), &responses);
        let answered = within("the result", answered).await;
        assert_eq!(answered["result"]["content"][0]["text"], "Hello, Ada!", "{answered}");
    }
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 1);
}

/// A process that starts leaves the questions of others alone, and reports them as lost once their
/// process is gone.
#[tokio::test]
async fn live_calls_are_lost_with_their_process_only() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = earlier_upstream(folder.path());
    let (mut program, mut one) = start(folder.path(), &upstream);
    initialize(&mut one).await;
    one.ask("tools/call", json!({"name": "up.greet", "arguments": {}}));
    let question = one.find(|message| message["method"] == "elicitation/create").await;
    let (_two, mut two) = start(folder.path(), &upstream);
    initialize(&mut two).await;
    two.call("tools/list", json!({})).await;
    // The second process has looked at the session when it has ended one of its own.
    two.ask("tools/call", json!({"name": "up.greet", "arguments": {}}));
    let other = two.find(|message| message["method"] == "elicitation/create").await;
    two.send(json!({"jsonrpc": "2.0", "id": other["id"], "result":
        {"action": "accept", "content": {"name": "Bob"}}}));
    let greeted = two.find(|message| message["result"]["content"].is_array()).await;
    assert_eq!(greeted["result"]["content"][0]["text"], "Hello, Bob!", "{greeted}");
    assert_eq!(sessions_in(&mut two, "waiting_user").await, 1);

    one.send(json!({"jsonrpc": "2.0", "id": question["id"], "result":
        {"action": "accept", "content": {"name": "Ada"}}}));
    let greeted = one.find(|message| message["result"]["content"].is_array()).await;
    assert_eq!(greeted["result"]["content"][0]["text"], "Hello, Ada!", "{greeted}");

    one.ask("tools/call", json!({"name": "up.greet", "arguments": {}}));
    one.find(|message| message["method"] == "elicitation/create").await;
    assert_eq!(sessions_in(&mut two, "waiting_user").await, 1);
    program.kill().await;
    within("the report of the loss", async { while sessions_in(&mut two, "error").await != 1 {} })
        .await;
}
