//! Interaction sessions whose question is superseded or that expire while a client waits.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::host::{Asker, Host};
use mcp_flow_client::interaction::{PromptAnswer, Question, Turn, Verdict};
use mcp_flow_client::{Client, Error, Event};
use mcp_flow_testkit::wait::within;
use serde_json::{Map, Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// A host that never answers a prompt.
struct Silent;

impl Host for Silent {
    fn answer<'a>(&'a self, _: &'a Asker, _: &'a Question) -> BoxFuture<'a, PromptAnswer> {
        Box::pin(std::future::pending())
    }
}

fn prompt(turn: u64, message: &str) -> Value {
    json!({"type": "text", "message": message, "metadata": {"key": message, "turnId": turn}})
}

/// Starts sessions `s1`, `s2`, …, each with one open prompt, and rejects every answer.
fn server() -> Script {
    let started = AtomicU32::new(0);
    Script::new(move |message, peer: &Scripted| match message["method"].as_str() {
        Some("capabilities") => peer.send(result(message, json!({"interactive": true}))),
        Some("interaction.start") => {
            let session = format!("s{}", started.fetch_add(1, Ordering::Relaxed) + 1);
            let first = prompt(0, "name");
            peer.send(result(message, json!({"sessionId": session, "initialPrompt": first})));
        }
        Some("interaction.respond") => {
            let validation = json!({"valid": false, "error": "too short"});
            peer.send(result(message, json!({"accepted": false, "validation": validation})));
        }
        Some("ping") => peer.send(result(message, json!({}))),
        Some("interaction.continue") => {
            peer.send(result(message, json!({"state": "processing", "next": {"pending": true}})));
        }
        _ => handshake(message, peer),
    })
}

fn expire(script: &Script, session: &str) {
    let params = json!({"sessionId": session, "expiredAt": 1000, "limit": "inactivity"});
    script.send(json!({"jsonrpc": "2.0", "method": "interaction.expired", "params": params}));
}

/// Pushes a prompt and waits until the client has acknowledged it.
async fn push(script: &Script, turn: u64, message: &str) {
    let id = format!("push-{turn}");
    let params = json!({"sessionId": "s1", "prompt": prompt(turn, message)});
    script.send(
        json!({"jsonrpc": "2.0", "id": id, "method": "interaction.prompt", "params": params}),
    );
    script.until(|message| message["id"] == id.as_str()).await;
}

fn count(script: &Script, method: &str) -> usize {
    script.received().iter().filter(|message| message["method"] == method).count()
}

#[track_caller]
fn assert_expired(error: &Error) {
    let error = error.server().expect("the server's error");
    assert_eq!(error.name(), Some("SESSION_EXPIRED"));
    assert_eq!(error.data["limit"], "inactivity");
    assert!(error.to_string().contains("no answer was given in time"), "{error}");
}

/// C-55: `interaction.expired` ends a wait for an answer at once, with the reason. A flow is started
/// again once, as after any other expiry (INT-088).
#[tokio::test]
async fn an_expired_session_ends_the_wait_for_an_answer() {
    let script = server();
    let client = Client::builder().host(Silent).connect(script.connector()).await.unwrap();
    let mut events = client.events();
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.converse("any", Map::new()).await }
    });
    for number in 1..=2 {
        let start = |message: &Value| message["method"] == "interaction.start";
        while count(&script, "interaction.start") < number {
            script.until(start).await;
            tokio::task::yield_now().await;
        }
        // An unknown session changes nothing.
        expire(&script, "s3");
        expire(&script, &format!("s{number}"));
    }
    let ended = within("the expiry", running).await.unwrap();
    assert_expired(&ended.unwrap_err());
    let warned = async {
        loop {
            if let Some(Event::Warning(text)) = events.next().await {
                return text;
            }
        }
    };
    assert!(within("a warning", warned).await.contains("expired"));
}

/// C-55: a caller that waits for the next question learns of the expiry without asking the server,
/// and so does one that answers.
#[tokio::test(start_paused = true)]
async fn waiting_and_answering_fail_after_the_expiry() {
    let script = server();
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut session = client.begin("any", Map::new()).await.unwrap();
    let Turn::Question(_) = session.next().await.unwrap() else { panic!("it asks") };
    expire(&script, "s1");
    client.ping().await.unwrap();
    assert_expired(&session.next().await.unwrap_err());
    assert_expired(&session.answer(json!("Ada")).await.unwrap_err());
    assert_eq!(count(&script, "interaction.respond"), 0);
    assert_eq!(count(&script, "interaction.continue"), 0);
}

/// An answer is sent only for the question that the caller has seen: not for one that was pushed
/// since, however often the caller tries, and not for one that followed a rejection.
#[tokio::test]
async fn an_answer_to_a_superseded_question_is_not_sent() {
    let script = server();
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut session = client.begin("any", Map::new()).await.unwrap();
    assert!(matches!(session.next().await.unwrap(), Turn::Question(_)));
    push(&script, 1, "email").await;
    for _ in 0..2 {
        assert_eq!(session.answer(json!("Ada")).await.unwrap(), Verdict::Superseded);
    }
    assert_eq!(count(&script, "interaction.respond"), 0);

    let Turn::Question(open) = session.next().await.unwrap() else { panic!("it asks") };
    assert_eq!(open.turn, Some(1));
    assert!(matches!(session.answer(json!("a")).await.unwrap(), Verdict::Rejected(_)));
    // The rejected question stays open.
    assert!(matches!(session.answer(json!("b")).await.unwrap(), Verdict::Rejected(_)));
    push(&script, 2, "age").await;
    assert_eq!(session.answer(json!("a@b.example")).await.unwrap(), Verdict::Superseded);
    assert_eq!(count(&script, "interaction.respond"), 2);
}
