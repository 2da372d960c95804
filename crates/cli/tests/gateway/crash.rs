//! `kill -9` of the gateway, or of the upstream, while a question is open, in every combination of
//! revisions.

use std::path::Path;
use std::process::Command;

use mcp_flow::Revision;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::wait::{output, within};
use serde_json::{Value, json};

use super::{PROGRAM, earlier_upstream, servers, stateless, stateless_upstream};

fn start(folder: &Path, upstream: &Value) -> (Program, Peer) {
    start_with(folder, upstream, "redb")
}

/// Starts the gateway with a kind of store.
fn start_with(folder: &Path, upstream: &Value, store: &str) -> (Program, Peer) {
    let file = servers(folder, upstream).display().to_string();
    let store = format!("{store}:{}", folder.join("journal").display());
    Program::start(PROGRAM, &["stdio", "--no-examples", "--gateway", &file, "--store", &store])
}

async fn initialize(peer: &mut Peer) {
    let capabilities = json!({"elicitation": {}});
    peer.initialize_with(Revision::V2025_11_25, capabilities).await;
}

/// Asks a client of an earlier revision by calling a tool, and returns the question.
async fn question(peer: &mut Peer, tool: &str) -> Value {
    peer.ask("tools/call", json!({"name": tool, "arguments": {}}));
    peer.find(|message| message["method"] == "elicitation/create").await
}

/// Waits until the only session is in a state.
async fn session_in(peer: &mut Peer, state: &str) -> Value {
    // Lists start the upstreams, and the recovery.
    peer.call("tools/list", json!({})).await;
    let found = async {
        loop {
            let listed = peer.call("interaction.list", json!({})).await["result"].clone();
            let session = listed["sessions"][0].clone();
            assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
            if session["state"] == state {
                return session;
            }
        }
    };
    within(format!("a session in the state {state}"), found).await
}

/// Both sides are lost, and recorded as lost.
#[tokio::test]
async fn an_earlier_client_and_an_earlier_upstream_lose_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = earlier_upstream(folder.path());
    let (mut program, mut peer) = start(folder.path(), &upstream);
    initialize(&mut peer).await;
    question(&mut peer, "up.greet").await;
    program.kill().await;

    let (_program, mut peer) = start(folder.path(), &upstream);
    initialize(&mut peer).await;
    let session = session_in(&mut peer, "error").await;
    let params = json!({"sessionId": session["sessionId"]});
    let state = peer.call("interaction.getState", params).await["result"].clone();
    let message = state["metadata"]["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("UPSTREAM_LOST"), "{state}");
}

/// The client's request is gone. The question survives, somebody answers it later, and the result is
/// kept.
#[tokio::test]
async fn a_question_of_a_stateless_upstream_is_answered_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = stateless_upstream(folder.path());
    let (mut program, mut peer) = start(folder.path(), &upstream);
    initialize(&mut peer).await;
    question(&mut peer, "up.register").await;
    program.kill().await;

    let (_program, mut peer) = start(folder.path(), &upstream);
    initialize(&mut peer).await;
    let session = session_in(&mut peer, "waiting_user").await;
    let id = session["sessionId"].clone();
    for answer in [json!({"name": "Ada"}), json!({"email": "ada@example.com"})] {
        let accepted = async {
            loop {
                let params = json!({"sessionId": id, "response": {"value": answer}});
                let answered = peer.call("interaction.respond", params).await;
                if answered["result"]["accepted"] == true {
                    break;
                }
                // The answer before is still at work.
                assert_eq!(
                    answered["error"]["data"]["name"], "INVALID_STATE_TRANSITION",
                    "{answered}"
                );
            }
        };
        within("the accepted answer", accepted).await;
    }
    session_in(&mut peer, "completed").await;
    let state = peer.call("interaction.getState", json!({"sessionId": id})).await["result"].clone();
    let result = state["result"]["data"]["result"].to_string();
    assert!(result.contains("ada@example.com"), "{state}");
}

/// An answer is recorded in the store while no server runs, which then goes on with the call.
#[tokio::test]
async fn a_question_is_answered_while_no_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = stateless_upstream(folder.path());
    let (mut program, mut peer) = start(folder.path(), &upstream);
    initialize(&mut peer).await;
    question(&mut peer, "up.register").await;
    let session = session_in(&mut peer, "waiting_user").await;
    let id = session["sessionId"].as_str().unwrap();
    program.kill().await;
    let store = format!("redb:{}", folder.path().join("journal").display());
    let answer = r#"{"name": "Ada"}"#;
    let mut command = Command::new(PROGRAM);
    let answered = output(command.args(["sessions", "answer", id, answer, "--store", &store]));
    let said = String::from_utf8_lossy(&answered.stdout).into_owned();
    assert!(said.contains("continues when its server runs"), "{answered:?}");

    let (_program, mut peer) = start(folder.path(), &upstream);
    initialize(&mut peer).await;
    let params = json!({"sessionId": id, "response": {"value": {"email": "ada@example.com"}}});
    within("the next question", async {
        while peer.call("interaction.respond", params.clone()).await["result"]["accepted"] != true {
        }
    })
    .await;
    within("the result", session_in(&mut peer, "completed")).await;
}

/// The client repeats its request after a crash as if nothing had happened.
#[tokio::test]
async fn a_stateless_client_and_a_stateless_upstream_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = stateless_upstream(folder.path());
    let (mut program, mut peer) = start(folder.path(), &upstream);
    let mut result = call(&mut peer, "up.register", None, &json!({})).await["result"].clone();
    for answer in [json!({"name": "Ada"}), json!({"email": "ada@example.com"})] {
        assert_eq!(result["resultType"], "input_required", "{result}");
        program.kill().await;
        (program, peer) = start(folder.path(), &upstream);
        let (state, responses) = (result["requestState"].clone(), answers(&result, &answer));
        let answered = call(&mut peer, "up.register", Some(&state), &responses).await;
        // A repeated turn has the same outcome.
        let again = call(&mut peer, "up.register", Some(&state), &responses).await;
        result = answered["result"].clone();
        assert_eq!(again["result"]["inputRequests"], result["inputRequests"], "{again}");
        assert_eq!(again["result"]["content"], result["content"], "{again}");
    }
    assert!(result["content"].to_string().contains("ada@example.com"), "{result}");
}

/// The upstream's call died with its pipe, and that is what the client hears; tools in `rerun` are
/// called again. So it is at once after the crash, while a shared store still counts the process that
/// was killed among those that are alive.
#[tokio::test]
async fn a_stateless_client_hears_that_an_earlier_upstream_was_lost() {
    for (store, is_rerun, tool) in [
        ("redb", false, "greet"),
        ("redb", true, "greet"),
        ("redb", true, "hello"),
        ("sqlite", false, "greet"),
        ("sqlite", true, "greet"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut upstream = earlier_upstream(folder.path());
        if is_rerun {
            // By its own name, whatever it is called here.
            upstream["rerun"] = json!(["greet"]);
            upstream["rename"] = json!({"greet": tool});
        }
        let name = format!("up.{tool}");
        let (mut program, mut peer) = start_with(folder.path(), &upstream, store);
        let asked = call(&mut peer, &name, None, &json!({})).await["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        program.kill().await;

        let (_program, mut peer) = start_with(folder.path(), &upstream, store);
        // The recovery runs meanwhile. It leaves what is called again.
        for _ in 0..50 {
            peer.call("tools/list", stateless(json!({}))).await;
        }
        let responses = answers(&asked, &json!({"name": "Ada"}));
        let answered = call(&mut peer, &name, Some(&asked["requestState"]), &responses);
        let answered = within("the outcome", answered).await;
        let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
        if is_rerun {
            assert_eq!(answered["result"]["content"][0]["text"], "Hello, Ada!", "{answered}");
            assert_eq!(calls.lines().count(), 2);
        } else {
            let data = &answered["error"]["data"];
            assert_eq!(data["name"], "UPSTREAM_LOST", "{answered}");
            assert_eq!((&data["domain"], &data["server"]), (&json!("gateway"), &json!("up")));
            assert_eq!(calls.lines().count(), 1);
        }
    }
}

/// An upstream that notes the id of its process in the file `process`.
fn noting_its_process(folder: &Path, mut upstream: Value) -> Value {
    let file = folder.join("process").display().to_string();
    let mut words = vec![json!("-c"), json!("echo $$ > \"$0\"; exec \"$@\""), json!(file)];
    words.push(upstream["command"].take());
    words.extend(upstream["args"].as_array().cloned().unwrap_or_default());
    (upstream["command"], upstream["args"]) = (json!("sh"), Value::Array(words));
    upstream
}

/// Kills the upstream as the system would. What is sent to one that goes on is lost until the gateway has
/// noticed, so this waits until another process has answered.
async fn kill_upstream(peer: &mut Peer, folder: &Path, tool: &str, params: fn(Value) -> Value) {
    let process = std::fs::read_to_string(folder.join("process")).unwrap();
    let killed = output(Command::new("kill").args(["-9", process.trim()]));
    assert!(killed.status.success(), "{killed:?}");
    if tool != "up.register" {
        return;
    }
    let sum = json!({"name": "up.calculator.add", "arguments": {"a": 2, "b": 3}});
    let restarted = async {
        while peer.call("tools/call", params(sum.clone())).await["result"]["content"].is_null() {}
    };
    within("the next process of the upstream", restarted).await;
}

/// A stateless upstream goes on in another process, with the answers to its questions; a call of an
/// earlier one is lost with its process, and every client hears that.
#[tokio::test]
async fn a_killed_upstream_goes_on_or_is_lost() {
    for is_client_stateless in [false, true] {
        for is_upstream_stateless in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (upstream, tool) = match is_upstream_stateless {
                true => (stateless_upstream(folder.path()), "up.register"),
                false => (earlier_upstream(folder.path()), "up.greet"),
            };
            let upstream = noting_its_process(folder.path(), upstream);
            let (_program, mut peer) = start(folder.path(), &upstream);
            let given = [json!({"name": "Ada"}), json!({"email": "ada@example.com"})];
            let answered = match is_client_stateless {
                true => repeated(&mut peer, folder.path(), tool, &given).await,
                false => asked(&mut peer, folder.path(), tool, &given).await,
            };
            if is_upstream_stateless {
                let content = answered["result"]["content"].to_string();
                assert!(content.contains("ada@example.com"), "{is_client_stateless} {answered}");
            } else {
                let name = &answered["error"]["data"]["name"];
                assert_eq!(name, "UPSTREAM_LOST", "{is_client_stateless} {answered}");
            }
            // It is started again for the next call.
            let again = match is_client_stateless {
                true => call(&mut peer, tool, None, &json!({})).await["result"].clone(),
                false => question(&mut peer, tool).await["params"].clone(),
            };
            assert!(again.to_string().contains("message"), "{again}");
        }
    }
}

/// Repeats a request with the answers to its questions. Before each, the upstream is killed.
async fn repeated(peer: &mut Peer, folder: &Path, tool: &str, given: &[Value]) -> Value {
    let mut answered = call(peer, tool, None, &json!({})).await;
    for answer in given {
        let result = answered["result"].clone();
        if result["resultType"] != "input_required" {
            break;
        }
        kill_upstream(peer, folder, tool, stateless).await;
        let responses = answers(&result, answer);
        answered = call(peer, tool, Some(&result["requestState"]), &responses).await;
    }
    answered
}

/// Answers the questions of a call, which come as requests. Before each, the upstream is killed.
async fn asked(peer: &mut Peer, folder: &Path, tool: &str, given: &[Value]) -> Value {
    initialize(peer).await;
    let id = peer.ask("tools/call", json!({"name": tool, "arguments": {}}));
    let is_next =
        |message: &Value| message["method"] == "elicitation/create" || message["id"] == id;
    for answer in given {
        let question = peer.find(is_next).await;
        if question.get("method").is_none() {
            return question;
        }
        kill_upstream(peer, folder, tool, |params| params).await;
        peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result":
            {"action": "accept", "content": answer}}));
    }
    peer.reply_to(id).await
}

pub(super) async fn call(
    peer: &mut Peer,
    tool: &str,
    state: Option<&Value>,
    answers: &Value,
) -> Value {
    let mut params = json!({"name": tool, "arguments": {}});
    if let Some(state) = state {
        params["requestState"] = state.clone();
        params["inputResponses"] = answers.clone();
    }
    peer.call("tools/call", stateless(params)).await
}

/// The same content for every question of a result.
pub(super) fn answers(result: &Value, content: &Value) -> Value {
    let keys = result["inputRequests"].as_object().unwrap().keys();
    let answer = json!({"action": "accept", "content": content});
    Value::Object(keys.map(|key| (key.clone(), answer.clone())).collect())
}
