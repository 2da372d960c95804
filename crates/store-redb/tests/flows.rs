//! Flows on a disk that is unplugged at any moment.

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

/// What the world outside saw: which payments were made, and under which keys.
type World = Arc<Mutex<Vec<String>>>;

/// INT-098: whenever the plug is pulled, the next process goes on where the user was told it
/// stands; a payment is made for an answer that counts, and under one key however often it is
/// tried.
#[tokio::test]
async fn flows_survive_the_plug_being_pulled() {
    let mut completed = false;
    let mut operations = 0;
    while !completed {
        assert!(operations < 10_000, "it is never done");
        let (disk, world) = (Disk::new(), World::default());
        drop(open(&disk).unwrap());
        disk.stop_after(operations);
        let mut told = None;
        if let Ok(store) = open(&disk) {
            let engine = engine(store, &world);
            told = talk(&engine, None).await;
            engine.shutdown().await;
        }
        completed = matches!(told, Some((_, TURNS)));
        let paid_before = world.lock().unwrap().len();
        disk.crash(operations % 2 == 0);

        let engine = engine(open(&disk).unwrap(), &world);
        let (id, turns) = told.unwrap_or((SessionId::from_random(0), 0));
        if turns > 0 || told.is_some() {
            let view = engine.wait(id, &Owner::local(), Duration::from_secs(60)).await.unwrap();
            match &view.status {
                SessionStatus::Waiting(open) => {
                    assert!(open.turn >= turns, "lost an answer after {operations} operations");
                    let paying = open.key == "sure" && paid_before > 0;
                    assert!(!paying, "paid for an answer that was lost");
                }
                SessionStatus::Ended(_) => {}
                SessionStatus::Working(_) => panic!("nobody goes on with it"),
            }
            let done = talk(&engine, Some(id)).await;
            assert_eq!(done, Some((id, TURNS)));
            let paid = world.lock().unwrap().clone();
            assert!(!paid.is_empty() && paid.iter().all(|key| *key == paid[0]), "{paid:?}");
        }
        engine.shutdown().await;
        operations += 1;
    }
    assert!(operations > 30, "it should have been pulled in the middle of something");
}

/// Many sessions at once share their commits and do not mix (INT-101).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_at_once_do_not_mix() {
    let engine = engine(open(&Disk::new()).unwrap(), &World::default());
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

/// Goes as far as it can, from the start or from where a session stands. Says which session, and
/// how many answers were acknowledged.
async fn talk(engine: &Engine, id: Option<SessionId>) -> Option<(SessionId, u32)> {
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
            SessionStatus::Working(_) => panic!("nobody goes on with it"),
        };
        match engine.respond(id, &owner, answer.into()).await {
            Ok(AnswerReply::Accepted(_)) => acknowledged += 1,
            Err(EngineError::Store(_)) => return Some((id, acknowledged)),
            other => panic!("{other:?}"),
        }
    }
}

fn engine(store: RedbStore, world: &World) -> Engine {
    let world = Arc::clone(world);
    let pay = move |flow: Flow, _: Params| {
        let world = Arc::clone(&world);
        async move { pay(flow, world).await }
    };
    Engine::builder(Arc::new(store)).flow(Definition::new("pay", pay)).start()
}

#[derive(serde::Deserialize)]
struct Params {}

async fn pay(flow: Flow, world: World) -> FlowResult<String> {
    let name = flow.ask("name", text("Your name?")).await?;
    if !flow.ask("sure", confirm(format!("Pay, {name}?"))).await? {
        return flow.decline("nothing was paid");
    }
    flow.step_with_key("pay", |key| async {
        world.lock().unwrap().push(key);
        Ok::<_, String>(format!("{name} has paid"))
    })
    .await
}

fn open(disk: &Disk) -> Result<RedbStore, StoreOpenError> {
    let disk = disk.clone();
    RedbStore::open_from(move |builder| builder.create_with_backend(disk.plug()), keys(1))
}

const TURNS: u32 = 2;
