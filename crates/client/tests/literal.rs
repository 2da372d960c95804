//! A server that implements seed 000 only: prompts without turn or key, prompts repeated after a
//! rejection, and a pushed completion.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::Client;
use mcp_flow_client::host::{Host, ServerIdentity};
use mcp_flow_client::interaction::{NextStep, PendingPrompt, PromptAnswer, ResponseOutcome};
use mcp_flow_testkit::wait::within;
use serde_json::{Map, Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// Gives these answers in order, and then none; records the prompts.
#[derive(Clone, Default)]
struct Typing {
    answers: Arc<Mutex<Vec<&'static str>>>,
    asked: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Typing {
    fn of(answers: &[&'static str]) -> Self {
        let answers = answers.iter().rev().copied().collect();
        Self { answers: Arc::new(Mutex::new(answers)), asked: Arc::default() }
    }

    /// Messages of the prompts, and whether each followed a rejection.
    fn asked(&self) -> Vec<(String, bool)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Host for Typing {
    fn answer_prompt<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
        assert_eq!(question.session.as_deref(), Some("s"));
        let rejected = question.rejection.is_some();
        self.asked.lock().unwrap().push((question.prompt.message.clone(), rejected));
        let answer = self.answers.lock().unwrap().pop();
        Box::pin(async move {
            match answer {
                Some(answer) => {
                    tokio::time::sleep(TYPING).await;
                    PromptAnswer::Value(json!(answer))
                }
                None => std::future::pending().await,
            }
        })
    }
}

/// Time to type an answer, on the paused clock.
const TYPING: Duration = Duration::from_secs(2);

fn push(peer: &Scripted, id: &str, method: &str, mut params: Value) {
    params["sessionId"] = "s".into();
    peer.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
}

fn prompt(peer: &Scripted, id: &str, message: &str) {
    let prompt = json!({"type": "text", "message": message});
    push(peer, id, "interaction.prompt", json!({"prompt": prompt}));
}

fn complete(peer: &Scripted) {
    let end = json!({"result": {"success": true, "data": {"done": true}}, "summary": "done"});
    push(peer, "end", "interaction.complete", end);
}

/// Serves the session `s` until it ends.
fn begin(message: &Value, peer: &Scripted) {
    match message["method"].as_str() {
        Some("capabilities") => peer.send(result(message, json!({"interactive": true}))),
        Some("interaction.start") => {
            peer.send(result(message, json!({"sessionId": "s", "state": "idle"})));
            prompt(peer, "first", "Enter email");
        }
        Some("interaction.getState") => {
            peer.send(result(message, json!({"sessionId": "s", "state": "processing"})));
        }
        Some("interaction.continue") => peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
            "error": {"code": -32601, "message": "Method not found"}})),
        _ => handshake(message, peer),
    }
}

/// INT-087: a prompt repeated after a rejection is asked once, with the rejection, whether it
/// arrives before the response, after it, or while the question is already asked again.
#[tokio::test(start_paused = true)]
async fn a_repeated_prompt_is_one_question() {
    for order in ["before", "after", "late", "never"] {
        let script = Script::new(move |message, peer: &Scripted| {
            let response = &message["params"]["response"]["value"];
            match (message["method"].as_str(), response.as_str()) {
                (Some("interaction.respond"), Some("bad")) => {
                    if order == "before" {
                        prompt(peer, "again", "Invalid. Enter email");
                    }
                    let validation = json!({"valid": false, "error": "Invalid format"});
                    let rejected = json!({"accepted": false, "validation": validation});
                    peer.send(result(message, rejected));
                    match order {
                        "after" => prompt(peer, "again", "Invalid. Enter email"),
                        "late" => {
                            let peer = peer.clone();
                            tokio::spawn(async move {
                                tokio::time::sleep(TYPING / 2).await;
                                prompt(&peer, "again", "Invalid. Enter email");
                            });
                        }
                        _ => {}
                    }
                }
                (Some("interaction.respond"), _) => {
                    peer.send(result(message, json!({"accepted": true})));
                    complete(peer);
                }
                _ => begin(message, peer),
            }
        });
        let host = Typing::of(&["bad", "a@b.example", "c@d.example"]);
        let client =
            Client::builder().host(host.clone()).connect(script.connector()).await.unwrap();
        let finished = client.run_flow("any", Map::new()).await.unwrap();
        assert_eq!(finished.session.as_deref(), Some("s"));
        assert_eq!(finished.data, json!({"done": true}), "{order}");
        let again = match order {
            "before" | "after" => "Invalid. Enter email",
            _ => "Enter email",
        };
        let expected = [("Enter email".to_owned(), false), (again.to_owned(), true)];
        assert_eq!(host.asked(), expected, "{order}");
    }
}

/// INT-047: a completion that arrives while a prompt is open ends the session and withdraws the
/// prompt.
#[tokio::test]
async fn completion_withdraws_the_open_prompt() {
    let script = Script::new(|message, peer: &Scripted| match message["id"].as_str() {
        // The prompt has arrived and is not answered.
        Some("first") => complete(peer),
        _ => begin(message, peer),
    });
    let client = Client::builder().host(Typing::of(&[])).connect(script.connector()).await.unwrap();
    let held = within("the end", client.run_flow("any", Map::new())).await;
    assert_eq!(held.unwrap().summary.as_deref(), Some("done"));
}

/// An answer is not sent after the session has ended or asks another question.
#[tokio::test]
async fn a_late_answer_is_not_sent() {
    let script = Script::new(begin);
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut session = client.start_session("any", Map::new()).await.unwrap();
    let NextStep::Prompt(question) = session.next().await.unwrap() else { panic!("it asks") };
    assert_eq!(question.prompt.message, "Enter email");
    for (method, id) in [("interaction.prompt", "other"), ("interaction.complete", "end")] {
        let other = json!({"type": "number", "message": "How many?"});
        let params = json!({"sessionId": "s", "prompt": other, "result": {"success": true}});
        script.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        script.until(|message| message["id"] == id).await;
        assert_eq!(
            session.answer(json!("a@b.example")).await.unwrap(),
            ResponseOutcome::Superseded
        );
        match (session.next().await.unwrap(), id) {
            (NextStep::Prompt(question), "other") => {
                assert_eq!(question.prompt.message, "How many?");
            }
            (NextStep::Finished(finished), "end") => assert!(finished.success),
            (turn, _) => panic!("{turn:?}"),
        }
    }
    let responds = script.received();
    assert!(!responds.iter().any(|message| message["method"] == "interaction.respond"));
}

/// INT-056: a final state without a result, as in seed 000, ends the session.
#[tokio::test(start_paused = true)]
async fn a_completion_that_was_not_pushed_is_read_from_the_state() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("interaction.respond") => peer.send(result(message, json!({"accepted": true}))),
        Some("interaction.getState") => {
            let state = json!({"state": "completed", "accumulatedData": {"email": "a@b.example"}});
            peer.send_after(Duration::from_millis(1), result(message, state));
        }
        _ => begin(message, peer),
    });
    let host = Typing::of(&["a@b.example"]);
    let client = Client::builder().host(host).connect(script.connector()).await.unwrap();
    let finished = client.run_flow("any", Map::new()).await.unwrap();
    assert!(finished.success);
    assert_eq!(finished.data, json!({"email": "a@b.example"}));
}
