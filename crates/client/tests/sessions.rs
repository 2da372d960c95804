//! Interaction sessions whose question is superseded or that expire while a client waits.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::host::{Host, ServerIdentity};
use mcp_flow_client::interaction::{NextStep, PendingPrompt, PromptAnswer, ResponseOutcome};
use mcp_flow_client::{Client, ClientEvent, Error};
use mcp_flow_testkit::wait::within;
use serde_json::{Map, Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// A host that never answers a prompt.
struct Silent;

impl Host for Silent {
    fn answer_prompt<'a>(
        &'a self,
        _: &'a ServerIdentity,
        _: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
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

/// C-55: `interaction.expired` ends a wait for an answer at once, with the reason. A flow is
/// started again once, as after any other expiry (INT-088).
#[tokio::test]
async fn an_expired_session_ends_the_wait_for_an_answer() {
    let script = server();
    let client = Client::builder().host(Silent).connect(script.connector()).await.unwrap();
    let mut events = client.events();
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.run_flow("any", Map::new()).await }
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
            if let Some(ClientEvent::Warning(text)) = events.next().await {
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
    let mut session = client.start_session("any", Map::new()).await.unwrap();
    let NextStep::Prompt(_) = session.next().await.unwrap() else { panic!("it asks") };
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
    let mut session = client.start_session("any", Map::new()).await.unwrap();
    assert!(matches!(session.next().await.unwrap(), NextStep::Prompt(_)));
    push(&script, 1, "email").await;
    for _ in 0..2 {
        assert_eq!(session.answer(json!("Ada")).await.unwrap(), ResponseOutcome::Superseded);
    }
    assert_eq!(count(&script, "interaction.respond"), 0);

    let NextStep::Prompt(open) = session.next().await.unwrap() else { panic!("it asks") };
    assert_eq!(open.turn, Some(1));
    assert!(matches!(session.answer(json!("a")).await.unwrap(), ResponseOutcome::Rejected(_)));
    // The rejected question stays open.
    assert!(matches!(session.answer(json!("b")).await.unwrap(), ResponseOutcome::Rejected(_)));
    push(&script, 2, "age").await;
    assert_eq!(session.answer(json!("a@b.example")).await.unwrap(), ResponseOutcome::Superseded);
    assert_eq!(count(&script, "interaction.respond"), 2);
}

/// A host that answers every prompt with `yes`.
struct Obliging;

impl Host for Obliging {
    fn answer_prompt<'a>(
        &'a self,
        _: &'a ServerIdentity,
        _: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
        Box::pin(async { PromptAnswer::Value(json!("yes")) })
    }
}

/// INT-088: an expired session is restarted once, with a warning event.
#[tokio::test]
async fn an_expired_session_is_restarted_once() {
    for expiring in [1, 2] {
        let starts = AtomicU32::new(0);
        let script = Script::new(move |message, peer| match message["method"].as_str() {
            Some("capabilities") => peer.send(result(message, json!({"interactive": true}))),
            Some("interaction.start") => {
                let session = (starts.fetch_add(1, Ordering::Relaxed) + 1).to_string();
                let prompt = json!({"type": "text", "message": "Well?"});
                peer.send(result(message, json!({"sessionId": session, "initialPrompt": prompt})));
            }
            Some("interaction.respond") if starts.load(Ordering::Relaxed) <= expiring => {
                let data = json!({"name": "SESSION_EXPIRED"});
                peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32002, "message": "Session expired", "data": data}}));
            }
            Some("interaction.respond") => {
                let complete = json!({"result": {"success": true, "data": message["params"]}});
                let next = json!({"complete": complete});
                peer.send(result(message, json!({"accepted": true, "next": next})));
            }
            _ => handshake(message, peer),
        });
        let client = Client::builder().host(Obliging).connect(script.connector()).await.unwrap();
        let mut events = client.events();
        let held = client.run_flow("any", serde_json::Map::new()).await;
        let started = script.received().into_iter();
        let started = started.filter(|message| message["method"] == "interaction.start").count();
        assert_eq!(started, 2, "it is restarted once");
        let warned = within("a warning", events.next()).await;
        let Some(ClientEvent::Warning(told)) = warned else { panic!("no warning") };
        assert!(told.contains("expired"), "{told}");
        match expiring {
            1 => assert_eq!(held.unwrap().data["sessionId"], "2"),
            _ => assert_eq!(held.unwrap_err().server().unwrap().name(), Some("SESSION_EXPIRED")),
        }
    }
}

/// INT-096: a server that rejects every answer leads to an error, though all answers are valid.
#[tokio::test]
async fn endless_rejections_are_errors() {
    let script = Script::new(|message, peer| match message["method"].as_str() {
        Some("capabilities") => peer.send(result(message, json!({"interactive": true}))),
        Some("interaction.start") => peer.send(result(
            message,
            json!({"sessionId": "s", "initialPrompt": {"type": "text", "message": "Well?"}}),
        )),
        Some("interaction.respond") => peer.send(result(
            message,
            json!({"accepted": false, "validation": {"error": "never enough"}}),
        )),
        Some("interaction.cancel") => peer.send(result(message, json!({}))),
        _ => handshake(message, peer),
    });
    let client = Client::builder().host(Obliging).connect(script.connector()).await.unwrap();
    let error = client.run_flow("any", serde_json::Map::new()).await.unwrap_err();
    assert!(error.to_string().contains("too many invalid answers"), "{error}");
}
