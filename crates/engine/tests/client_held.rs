//! Client-held sessions: tokens, replay guard, turns whose caller goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{ManualClock, builder, me, open, result, start, within};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_flow_engine::{AnswerReply, BadToken, ClientHeldSessions, Definition, EngineError, Flow};
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::event::Limit;
use mcp_flow_session::question::integer;
use mcp_flow_session::store::{LastTurn, MemoryGuard, ReplayGuard, StoreFuture};
use mcp_flow_session::{MemoryStore, Owner, SessionId, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// INT-003, INT-129, INT-131: each turn runs in a process that has not seen the session.
#[tokio::test]
async fn a_token_contains_its_session() {
    let store = Arc::new(MemoryStore::new());
    let process = || ClientHeldSessions::new(&builder(store.clone()).build(), keys(1));
    let (view, token) = process().start(start("book_trip")).await.unwrap();
    assert_eq!(open(&view).key, "city");
    let (reply, rejected) = process().respond(&token, &me(), json!("x").into()).await.unwrap();
    assert!(matches!(reply, AnswerReply::Rejected { left: 9, .. }), "{reply:?}");
    let mut token = rejected;
    for value in [json!("Oslo"), json!("2099-01-01"), json!("Tent"), json!(2)] {
        (_, token) = process().respond(&token, &me(), value.into()).await.unwrap();
    }
    let session = process().inspect(&token, &me()).await.unwrap();
    assert_eq!((session.history.len(), session.state), (4, State::WaitingUser));
    let (reply, token) = process().respond(&token, &me(), json!(true).into()).await.unwrap();
    assert_eq!(result(reply.view())["receipt"], "Tent x 2");
    let over = process().respond(&token, &me(), json!(false).into()).await.unwrap_err();
    assert!(matches!(over, EngineError::Transition { from: State::Completed, .. }));
    assert!(store.is_empty(), "nothing is kept here");
}

/// INT-128, INT-130, INT-132: a token has three members, and any modified bit is detected.
#[tokio::test]
async fn a_modified_token_is_rejected() {
    let client_held = client_held();
    let (view, token) = client_held.start(start("register")).await.unwrap();
    let text = STANDARD.decode(&token).unwrap();
    let members: Value = serde_json::from_slice(&text).unwrap();
    let names: Vec<_> = members.as_object().unwrap().keys().collect();
    assert_eq!(names, ["sessionId", "state", "signature"]);
    assert_eq!(members["sessionId"], view.id.to_string());
    for place in 0..text.len() {
        let mut changed = text.clone();
        changed[place] ^= 1;
        let refused = client_held.view(&STANDARD.encode(&changed), &me()).await;
        assert!(matches!(refused, Err(EngineError::BadToken(_))), "byte {place}: {refused:?}");
    }
    for junk in ["", "x", "e30=", "====", &token[1..], &"A".repeat(5 << 20)] {
        let refused = client_held.respond(junk, &me(), json!("Ada").into()).await.unwrap_err();
        assert!(matches!(refused, EngineError::BadToken(BadToken::Malformed)));
    }
    // A rotated ring still has its old key; another ring does not.
    let mut rotated = keys(1);
    rotated.rotate(Key::from_bytes([2; 32]));
    let engine = builder(Arc::new(MemoryStore::new())).build();
    ClientHeldSessions::new(&engine, rotated).view(&token, &me()).await.unwrap();
    let refused = ClientHeldSessions::new(&engine, keys(2)).view(&token, &me()).await.unwrap_err();
    assert!(matches!(refused, EngineError::BadToken(BadToken::Forged)));
}

/// INT-133: a token is bound to its owner and expires.
#[tokio::test]
async fn a_token_is_bound_to_owner_and_time() {
    let clock = ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new())).clock(clock.clone()).build();
    let client_held = ClientHeldSessions::new(&engine, keys(1)).replay_guard(guard(10));
    let (_, token) = client_held.start(start("register")).await.unwrap();
    let eve = Owner::new("eve");
    let stolen = client_held.respond(&token, &eve, json!("Eve").into()).await.unwrap_err();
    assert!(matches!(stolen, EngineError::NotFound));
    clock.forward(Duration::from_secs(299));
    let (_, token) = client_held.respond(&token, &me(), json!("Ada").into()).await.unwrap();
    clock.forward(Duration::from_secs(300));
    let late = client_held.respond(&token, &me(), json!("a@b").into()).await.unwrap_err();
    assert!(matches!(late, EngineError::Expired(Limit::Inactivity)));
    let late = client_held.view(&token, &me()).await.unwrap_err();
    assert!(matches!(late, EngineError::Expired(Limit::Inactivity)));
    assert!(matches!(client_held.inspect(&token, &eve).await, Err(EngineError::NotFound)));
    assert_eq!(
        engine.denied_accesses(),
        2,
        "those who tried what is not theirs are counted (C-53)"
    );
}

/// INT-133: with a guard a turn runs once, and a cancelled session stays cancelled.
#[tokio::test]
async fn a_guard_rejects_outdated_tokens() {
    let loose = client_held();
    let (_, first) = loose.start(start("register")).await.unwrap();
    loose.respond(&first, &me(), json!("Ada").into()).await.unwrap();
    loose.respond(&first, &me(), json!("Bob").into()).await.unwrap();

    let guarded = client_held().replay_guard(guard(100));
    let (_, first) = guarded.start(start("register")).await.unwrap();
    let (_, second) = guarded.respond(&first, &me(), json!("Ada").into()).await.unwrap();
    let again = guarded.respond(&first, &me(), json!("Bob").into()).await.unwrap_err();
    assert!(matches!(again, EngineError::Outdated));
    // An outdated token does not show a past state either.
    assert!(matches!(guarded.view(&first, &me()).await, Err(EngineError::Outdated)));
    assert!(matches!(guarded.inspect(&first, &me()).await, Err(EngineError::Outdated)));
    assert_eq!(guarded.inspect(&second, &me()).await.unwrap().history.len(), 1);
    let (view, _) = guarded.cancel(&second, &me(), None).await.unwrap();
    assert_eq!(view.state, State::Cancelled);
    let again = guarded.respond(&second, &me(), json!("a@b").into()).await.unwrap_err();
    assert!(matches!(again, EngineError::Outdated));
}

/// A rejected request does not use up the turn.
#[tokio::test]
async fn a_rejected_request_can_be_repeated() {
    let guarded = client_held().replay_guard(guard(100));
    let (_, token) = guarded.start(start("register")).await.unwrap();
    let early = guarded.finish(&token, &me()).await.unwrap_err();
    assert!(matches!(early, EngineError::NotEarly));
    guarded.respond(&token, &me(), json!("Ada").into()).await.unwrap();
}

/// INT-133, C-43: a turn whose request was dropped is completed and recorded, so that the same
/// token cannot run its steps again.
#[tokio::test]
async fn a_turn_whose_caller_goes_away_is_recorded() {
    let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    let (started, released, counted) = (begun.clone(), release.clone(), runs.clone());
    let pay = move |flow: Flow, _: Nothing| {
        let (begun, release, runs) = (started.clone(), released.clone(), counted.clone());
        async move {
            flow.ask("amount", integer("How much?")).await?;
            let work = || async {
                runs.fetch_add(1, Ordering::SeqCst);
                begun.notify_one();
                release.notified().await;
                std::io::Result::Ok(())
            };
            flow.step("pay", work).await
        }
    };
    let recorded = Arc::new(Recorded { guard: MemoryGuard::new(10), turns: Notify::new() });
    let engine = builder(Arc::new(MemoryStore::new())).flow(Definition::new("pay", pay)).build();
    let client_held = ClientHeldSessions::new(&engine, keys(1)).replay_guard(recorded.clone());
    let (_, token) = client_held.start(start("pay")).await.unwrap();
    let caller = me();
    tokio::select! {
        _ = client_held.respond(&token, &caller, json!(5).into()) => panic!("the step is waiting"),
        () = begun.notified() => {}
    }
    let again = client_held.respond(&token, &me(), json!(5).into()).await.unwrap_err();
    assert!(matches!(again, EngineError::Outdated), "its turn is in progress: {again:?}");
    release.notify_one();
    within("the turn to be recorded", recorded.turns.notified()).await;
    let again = client_held.respond(&token, &me(), json!(5).into()).await.unwrap_err();
    assert!(matches!(again, EngineError::Outdated), "{again:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A shutdown interrupts a turn in progress instead of waiting for its steps.
#[tokio::test]
async fn a_shutdown_interrupts_a_turn() {
    let begun = Arc::new(Notify::new());
    let started = begun.clone();
    let wait = move |flow: Flow, _: Nothing| {
        let begun = started.clone();
        async move {
            flow.ask("amount", integer("How much?")).await?;
            let work = || async {
                begun.notify_one();
                std::future::pending::<std::io::Result<()>>().await
            };
            flow.step("pay", work).await
        }
    };
    let engine = builder(Arc::new(MemoryStore::new())).flow(Definition::new("wait", wait)).build();
    let client_held = ClientHeldSessions::new(&engine, keys(1)).replay_guard(guard(10));
    let (_, token) = client_held.start(start("wait")).await.unwrap();
    let (me, shutdown) = (me(), async {
        begun.notified().await;
        engine.shutdown().await;
    });
    let respond = client_held.respond(&token, &me, json!(5).into());
    let (interrupted, ()) = within("the shutdown", async { tokio::join!(respond, shutdown) }).await;
    assert!(matches!(interrupted, Err(EngineError::ShuttingDown)), "{interrupted:?}");
}

/// A guard in memory that signals each recorded turn.
#[derive(Debug)]
struct Recorded {
    guard: MemoryGuard,
    turns: Notify,
}

impl ReplayGuard for Recorded {
    fn last_turn(&self, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        self.guard.last_turn(id)
    }

    fn keep_turn(&self, turn: LastTurn) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.guard.keep_turn(turn).await?;
            self.turns.notify_one();
            Ok(())
        })
    }
}

#[derive(Deserialize)]
struct Nothing {}

fn client_held() -> ClientHeldSessions {
    ClientHeldSessions::new(&builder(Arc::new(MemoryStore::new())).build(), keys(1))
}

fn guard(sessions: usize) -> Arc<MemoryGuard> {
    Arc::new(MemoryGuard::new(sessions))
}

fn keys(number: u8) -> KeyRing {
    KeyRing::new(Key::from_bytes([number; 32]))
}
