//! Flows on a disk that fails at any moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Disk, keys};
use mcp_flow_engine::model::question::{confirm, text};
use mcp_flow_engine::model::{Owner, SessionId};
use mcp_flow_engine::{
    AnswerReply, Definition, Engine, EngineError, Flow, FlowResult, SessionStatus, StartRequest,
};
use mcp_flow_store_redb::{RedbStore, StoreOpenError};
use serde_json::{Value, json};

/// Payments made, and their idempotency keys.
type Payments = Arc<Mutex<Vec<String>>>;

/// INT-098: after a crash at any moment, the next process resumes from the last acknowledged turn;
/// a payment is made only for an accepted answer, always with the same key.
#[tokio::test]
async fn flows_survive_crashes() {
    let mut completed = false;
    let mut operations = 0;
    while !completed {
        assert!(operations < 10_000, "it is never done");
        let (disk, payments) = (Disk::new(), Payments::default());
        drop(open(&disk).unwrap());
        disk.stop_after(operations);
        let mut reached = None;
        if let Ok(store) = open(&disk) {
            let engine = engine(store, &payments);
            reached = run_session(&engine, None).await;
            engine.shutdown().await;
        }
        completed = matches!(reached, Some((_, TURNS)));
        let paid_before = payments.lock().unwrap().len();
        disk.crash(operations % 2 == 0);

        let engine = engine(open(&disk).unwrap(), &payments);
        let (id, turns) = reached.unwrap_or((SessionId::from_random(0), 0));
        if turns > 0 || reached.is_some() {
            let view = engine.wait(id, &Owner::local(), Duration::from_secs(60)).await.unwrap();
            match &view.status {
                SessionStatus::Waiting(open) => {
                    assert!(open.turn >= turns, "lost an answer after {operations} operations");
                    let paying = open.key == "sure" && paid_before > 0;
                    assert!(!paying, "paid for an answer that was lost");
                }
                SessionStatus::Ended(_) => {}
                SessionStatus::Working(_) => panic!("it is not resumed"),
            }
            let done = run_session(&engine, Some(id)).await;
            assert_eq!(done, Some((id, TURNS)));
            let paid = payments.lock().unwrap().clone();
            assert!(!paid.is_empty() && paid.iter().all(|key| *key == paid[0]), "{paid:?}");
        }
        engine.shutdown().await;
        operations += 1;
    }
    assert!(operations > 30, "it should have been pulled in the middle of something");
}

/// INT-101: concurrent sessions share commits and stay separate.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_sessions_stay_separate() {
    let engine = engine(open(&Disk::new()).unwrap(), &Payments::default());
    let answered = Arc::new(AtomicUsize::new(0));
    let mut talks = tokio::task::JoinSet::new();
    for number in 0..64 {
        let (engine, answered) = (engine.clone(), Arc::clone(&answered));
        talks.spawn(async move {
            let owner = Owner::new(&format!("owner {number}"));
            let id = engine.start(StartRequest::new("pay", owner.clone())).await.unwrap().id;
            let name = json!(format!("name {number}"));
            engine.respond(id, &owner, name.clone().into()).await.unwrap();
            assert_eq!(engine.inspect(id, &owner).await.unwrap().data["name"], name);
            engine.respond(id, &owner, json!(true).into()).await.unwrap();
            answered.fetch_add(2, Ordering::Relaxed);
        });
    }
    talks.join_all().await;
    assert_eq!(answered.load(Ordering::Relaxed), 128);
    engine.shutdown().await;
}

/// Runs a session as far as possible, from its start or its current turn. Returns its id and the
/// number of acknowledged answers.
async fn run_session(engine: &Engine, id: Option<SessionId>) -> Option<(SessionId, u32)> {
    let owner = Owner::local();
    let id = match id {
        Some(id) => id,
        None => engine.start(StartRequest::new("pay", owner.clone())).await.ok()?.id,
    };
    let mut acknowledged = 0;
    loop {
        let view = engine.wait(id, &owner, Duration::from_secs(60)).await.unwrap();
        let answer: Value = match &view.status {
            SessionStatus::Waiting(open) if open.key == "name" => json!("Ada"),
            SessionStatus::Waiting(open) => {
                acknowledged = acknowledged.max(open.turn);
                json!(true)
            }
            SessionStatus::Ended(ended) => return Some((id, ended.turns)),
            SessionStatus::Working(_) => panic!("it is not resumed"),
        };
        match engine.respond(id, &owner, answer.into()).await {
            Ok(AnswerReply::Accepted(_)) => acknowledged += 1,
            Err(EngineError::Store(_)) => return Some((id, acknowledged)),
            other => panic!("{other:?}"),
        }
    }
}

fn engine(store: RedbStore, payments: &Payments) -> Engine {
    let payments = Arc::clone(payments);
    let pay = move |flow: Flow, _: Params| {
        let payments = Arc::clone(&payments);
        async move { pay(flow, payments).await }
    };
    Engine::builder(Arc::new(store)).flow(Definition::new("pay", pay)).start()
}

#[derive(serde::Deserialize)]
struct Params {}

async fn pay(flow: Flow, payments: Payments) -> FlowResult<String> {
    let name = flow.ask("name", text("Your name?")).await?;
    if !flow.ask("sure", confirm(format!("Pay, {name}?"))).await? {
        return flow.decline("nothing was paid");
    }
    flow.step_with_key("pay", |key| async {
        payments.lock().unwrap().push(key);
        Ok::<_, String>(format!("{name} has paid"))
    })
    .await
}

fn open(disk: &Disk) -> Result<RedbStore, StoreOpenError> {
    let disk = disk.clone();
    RedbStore::open_from(move |builder| builder.create_with_backend(disk.plug()), keys(1))
}

const TURNS: u32 = 2;
