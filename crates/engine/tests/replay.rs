//! Interrupted flows: replay, recovery and concurrent writers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{
    CrashStore, NoParams, answer, builder, ended, me, no_linger, open, result, start,
};
use futures_util::future::{Either, join};
use mcp_flow_engine::{
    AnswerReply, Definition, Engine, EngineError, Flow, FlowResult, SessionStatus,
};
use mcp_flow_session::question::{confirm, text};
use mcp_flow_session::{MemoryStore, SessionId, State, Store};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// A flow has the same result in memory and replayed at every turn.
#[tokio::test]
async fn replaying_makes_no_difference() {
    let answers = [json!("Oslo"), json!("2099-01-01"), json!("Oslo Inn"), json!(3), json!(true)];
    let mut ends = Vec::new();
    for limits in [mcp_flow_engine::SessionLimits::default(), no_linger()] {
        let engine = builder(Arc::new(MemoryStore::new())).limits(limits).build();
        let mut view = engine.start(start("book_trip")).await.unwrap();
        for value in &answers {
            view = answer(&engine, view.id, value.clone()).await;
        }
        ends.push(result(&view));
    }
    assert_eq!(ends[0], json!({"receipt": "Oslo Inn x 3", "day": "2099-01-01"}));
    assert_eq!(ends[0], ends[1]);
}

/// A process killed after any number of writes loses nothing it acknowledged, and the next one
/// resumes; an answer that was lost has no effect.
#[tokio::test]
async fn a_crash_after_any_write_loses_nothing_acknowledged() {
    let answers = [json!("Oslo"), json!("2099-01-01"), json!("Tent"), json!(2), json!(true)];
    for writes in 0..12 {
        let kept = Arc::new(MemoryStore::new());
        let crashing = builder(CrashStore::stopping_after(&kept, writes)).build();
        let mut acknowledged = 0;
        let id = match crashing.start(start("book_trip")).await {
            Ok(view) => view.id,
            Err(_) => {
                assert!(kept.is_empty());
                continue;
            }
        };
        for value in &answers {
            match crashing.respond(id, &me(), value.clone().into()).await {
                Ok(AnswerReply::Accepted(_)) => acknowledged += 1,
                Err(EngineError::Store(_)) => break,
                other => panic!("{other:?}"),
            }
        }
        crashing.shutdown().await;
        let next = builder(kept).start();
        let mut view = next.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
        if let SessionStatus::Waiting(open) = &view.status {
            let turn = usize::try_from(open.turn).unwrap();
            assert!(turn >= acknowledged, "lost an answer after {writes} writes");
            for value in &answers[turn..] {
                view = answer(&next, id, value.clone()).await;
            }
        }
        assert_eq!(result(&view)["receipt"], "Tent x 2", "after {writes} writes");
        next.shutdown().await;
    }
}

/// An interrupted step runs again with the same idempotency key.
#[tokio::test]
async fn interrupted_steps_run_again_under_the_same_key() {
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let (begun, hang) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(1)));
    let flow = {
        let (keys, begun, hang) = (Arc::clone(&keys), Arc::clone(&begun), Arc::clone(&hang));
        move |flow: Flow, _: NoParams| {
            let (keys, begun, hang) = (Arc::clone(&keys), Arc::clone(&begun), Arc::clone(&hang));
            async move {
                flow.ask("pay", confirm("Pay?")).await?;
                for _ in 0..2 {
                    flow.step_with_key("pay", |key| async {
                        keys.lock().unwrap().push(key);
                        if hang.fetch_sub(1, Ordering::SeqCst) == 0 {
                            begun.notify_one();
                            std::future::pending::<()>().await;
                        }
                        Ok::<_, String>(())
                    })
                    .await?;
                }
                flow.ask("thanks", text("Thanks?")).await
            }
        }
    };
    let store = Arc::new(MemoryStore::new());
    let first = builder(Arc::clone(&store) as Arc<dyn Store>)
        .flow(Definition::new("pay", flow.clone()))
        .build();
    let id = first.start(start("pay")).await.unwrap().id;
    answer(&first, id, json!(true)).await;
    crate::support::within("the payment to begin", begun.notified()).await;
    first.shutdown().await;
    drop(first);

    let next = builder(store).flow(Definition::new("pay", flow)).start();
    let view = next.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(open(&view).key, "thanks");
    let keys = keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert_ne!(keys[0], keys[1], "two steps of one name are two steps");
    assert_eq!(keys[1], keys[2]);
    next.shutdown().await;
}

/// The error of a step is recorded, and returned when the flow is replayed.
#[tokio::test]
async fn errors_of_steps_are_recorded() {
    let runs = Arc::new(AtomicUsize::new(0));
    let flow = {
        let runs = Arc::clone(&runs);
        move |flow: Flow, _: NoParams| {
            let runs = Arc::clone(&runs);
            async move {
                let failed: FlowResult<()> = flow
                    .step("fragile", || async {
                        runs.fetch_add(1, Ordering::SeqCst);
                        Err("broken")
                    })
                    .await;
                let error = failed.unwrap_err().to_string();
                flow.ask("ok", text(format!("{error}: what now?"))).await?;
                Ok(error)
            }
        }
    };
    let engine = builder(Arc::new(MemoryStore::new()))
        .limits(no_linger())
        .flow(Definition::new("fragile", flow))
        .build();
    let view = engine.start(start("fragile")).await.unwrap();
    let view = answer(&engine, view.id, json!("go on")).await;
    assert_eq!(result(&view), json!("step `fragile` failed: broken"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Time and random numbers are recorded, and the same in a replay.
#[tokio::test]
async fn time_and_randomness_are_recorded() {
    async fn draws(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let before = (flow.now().as_millis(), flow.random());
        flow.set("before", before)?;
        flow.ask("next", text("?")).await?;
        Ok(json!({"before": before, "other": flow.random()}))
    }
    let clock = crate::support::ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new()))
        .limits(no_linger())
        .clock(clock.clone())
        .flow(Definition::new("draws", draws))
        .build();
    let view = engine.start(start("draws")).await.unwrap();
    let before = engine.inspect(view.id, &me()).await.unwrap().data["before"].clone();
    clock.forward(std::time::Duration::from_secs(60));
    let result = result(&answer(&engine, view.id, json!("x")).await);
    assert_eq!(result["before"], before);
    assert_ne!(result["other"], before[1]);
}

/// Concurrent steps and questions replay, whichever finished first.
#[tokio::test]
async fn concurrent_branches_replay_in_any_order() {
    async fn both(flow: Flow, slow: Arc<Notify>) -> FlowResult<Value> {
        let first = async {
            flow.step("slow", || async {
                slow.notified().await;
                slow.notify_one();
                Ok::<_, String>(1)
            })
            .await?;
            flow.ask("first", text("First?")).await
        };
        let second = async {
            flow.step("quick", || async { Ok::<_, String>(2) }).await?;
            flow.ask("second", text("Second?")).await
        };
        let (first, second) = join(first, second).await;
        let last = flow.ask("last", text("Last?")).await?;
        Ok(json!([first?, second?, last]))
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let slow = Arc::new(Notify::new());
    let make = || {
        let slow = Arc::clone(&slow);
        let flow = move |flow: Flow, _: NoParams| both(flow, Arc::clone(&slow));
        builder(Arc::clone(&store)).limits(no_linger()).flow(Definition::new("both", flow)).start()
    };
    let engine = make();
    let id = engine.start(start("both")).await.unwrap().id;
    let view = engine.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(open(&view).key, "second", "the quick part asks first");
    answer(&engine, id, json!("b")).await;
    slow.notify_one();
    let view = engine.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(open(&view).key, "first");
    engine.shutdown().await;
    // In the journal `second` comes before `first`; in a replay both branches are ready at once.
    let engine = make();
    let view = answer(&engine, id, json!("a")).await;
    assert_eq!(open(&view).key, "last");
    let view = answer(&engine, id, json!("c")).await;
    assert_eq!(result(&view), json!(["a", "b", "c"]));
    engine.shutdown().await;
}

/// A nested flow has its own keys, and parameters reach it by their full key.
#[tokio::test]
async fn a_flow_can_call_a_flow() {
    async fn twice(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let one = flow.call("one", crate::support::register, NoParams {}).await?;
        let two = flow.call("two", crate::support::register, NoParams {}).await?;
        Ok(json!([one["name"], two["name"]]))
    }
    let engine = builder(Arc::new(MemoryStore::new()))
        .limits(no_linger())
        .flow(Definition::new("twice", twice))
        .build();
    let given = crate::support::params(json!({"one.name": "Ada", "two.email": "b@c"}));
    let view = engine.start(start("twice").params(given)).await.unwrap();
    assert_eq!(open(&view).key, "one.email");
    let view = answer(&engine, view.id, json!("a@b")).await;
    assert_eq!(open(&view).key, "two.name");
    let view = answer(&engine, view.id, json!("Bob")).await;
    assert_eq!(result(&view), json!(["Ada", "Bob"]));
}

/// Steps of one key in concurrent branches keep their outcomes, whichever finished first.
#[tokio::test]
async fn steps_of_one_key_are_told_apart() {
    async fn both(flow: Flow, gates: Arc<[Notify; 2]>) -> FlowResult<Value> {
        let branch = async |index: usize| {
            let gate = &gates[index];
            flow.step("work", || async {
                gate.notified().await;
                Ok::<_, String>(index)
            })
            .await
        };
        let (first, second) = join(branch(0), branch(1)).await;
        let last = flow.ask("last", text("Last?")).await?;
        Ok(json!([first?, second?, last]))
    }
    let gates: Arc<[Notify; 2]> = Arc::default();
    let flow = {
        let gates = Arc::clone(&gates);
        move |flow: Flow, _: NoParams| both(flow, Arc::clone(&gates))
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine =
        builder(Arc::clone(&store)).limits(no_linger()).flow(Definition::new("both", flow)).build();
    let id = engine.start(start("both")).await.unwrap().id;
    let mut changes = engine.changes();
    gates[1].notify_one();
    while store.read(id).await.unwrap().len() < 3 {
        crate::support::within("the second step to be recorded", changes.next()).await;
    }
    gates[0].notify_one();
    let view = engine.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(open(&view).key, "last");
    assert_eq!(result(&answer(&engine, id, json!("x")).await), json!([0, 1, "x"]));
    engine.shutdown().await;
}

/// A step that finishes when an answer has arrived comes after it, in the first run and in a replay.
#[tokio::test]
async fn a_race_of_a_step_and_an_answer_has_one_winner() {
    async fn race(flow: Flow, gate: Arc<Notify>) -> FlowResult<Value> {
        let step = flow.step("step", || async {
            gate.notified().await;
            Ok::<_, String>("step".to_owned())
        });
        let ask = flow.ask("ask", text("Ask?"));
        let winner = match futures_util::future::select(Box::pin(step), Box::pin(ask)).await {
            Either::Left((step, _)) => step?,
            Either::Right((answer, _)) => answer?,
        };
        let last = flow.ask("last", text("Last?")).await?;
        Ok(json!([winner, last]))
    }
    for limits in [no_linger(), mcp_flow_engine::SessionLimits::default()] {
        let gate = Arc::<Notify>::default();
        let flow = {
            let gate = Arc::clone(&gate);
            move |flow: Flow, _: NoParams| race(flow, Arc::clone(&gate))
        };
        let engine = builder(Arc::new(MemoryStore::new()))
            .limits(limits)
            .flow(Definition::new("race", flow))
            .build();
        let id = engine.start(start("race")).await.unwrap().id;
        // The flow is polled when both are ready: the only thread is busy until then.
        gate.notify_one();
        let view = answer(&engine, id, json!("answer")).await;
        assert_eq!(open(&view).key, "last");
        assert_eq!(result(&answer(&engine, id, json!("x")).await), json!(["answer", "x"]));
        engine.shutdown().await;
    }
}

/// A flow may wait for a step while it does not look at a question that is answered.
#[tokio::test]
async fn steps_do_not_wait_for_answers_that_the_flow_ignores() {
    async fn later(flow: Flow, gate: Arc<Semaphore>) -> FlowResult<Value> {
        let ask = Box::pin(flow.ask("ask", text("Ask?")));
        let soon = Box::pin(flow.step("soon", || async { Ok::<_, String>(1) }));
        let ask = match futures_util::future::select(soon, ask).await {
            Either::Left((_, ask)) => ask,
            Either::Right(_) => return flow.decline("it was not asked yet"),
        };
        for _ in 0..2 {
            flow.step("work", || async { gate.acquire().await.map(SemaphorePermit::forget) })
                .await?;
        }
        let answer = ask.await?;
        Ok(json!([answer, flow.ask("last", text("Last?")).await?]))
    }
    let gate = Arc::new(Semaphore::new(0));
    let flow = {
        let gate = Arc::clone(&gate);
        move |flow: Flow, _: NoParams| later(flow, Arc::clone(&gate))
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let make = || builder(Arc::clone(&store)).flow(Definition::new("later", flow.clone())).build();
    let engine = make();
    let id = engine.start(start("later")).await.unwrap().id;
    answer(&engine, id, json!("answer")).await;
    let mut notices = engine.subscribe(id, &me()).await.unwrap();
    gate.add_permits(2);
    crate::support::within("the last question", notices.next()).await;
    engine.shutdown().await;
    let end = answer(&make(), id, json!("x")).await;
    assert_eq!(result(&end), json!(["answer", "x"]));
}

/// Two engines share a store: the second writer reads again.
#[tokio::test]
async fn two_engines_share_a_session() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (one, two) = (builder(Arc::clone(&store)).build(), builder(store).build());
    let id = one.start(start("register")).await.unwrap().id;
    assert_eq!(open(&two.view(id, &me()).await.unwrap()).key, "name");
    answer(&two, id, json!("Ada")).await;
    // The first has an outdated slot in memory.
    let view = answer(&one, id, json!("a@b")).await;
    assert_eq!(result(&view)["name"], "Ada");
    let refused = two.respond(id, &me(), json!("c@d").into()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Transition { .. }), "{refused:?}");
}

/// INT-053: cancelling ends a session that another process has changed meanwhile.
#[tokio::test]
async fn cancelling_ignores_concurrent_changes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (one, two) = (builder(Arc::clone(&store)).build(), builder(store).build());
    let id = one.start(start("register")).await.unwrap().id;
    answer(&two, id, json!("Ada")).await;
    let view = one.cancel(id, &me(), None).await.unwrap();
    assert_eq!((view.state, ended(&view).turns), (State::Cancelled, 1));
}

/// Sessions of a flow that this program does not have are left as they are.
#[tokio::test]
async fn sessions_of_unknown_flows_are_left_alone() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let id = builder(Arc::clone(&store)).build().start(start("register")).await.unwrap().id;
    let other = Engine::builder(Arc::clone(&store)).build();
    let refused = other.respond(id, &me(), json!("Ada").into()).await.unwrap_err();
    assert!(matches!(refused, EngineError::UnknownFlow(name) if name == "register"));
    let view = answer(&builder(store).build(), id, json!("Ada")).await;
    assert_eq!(open(&view).key, "email");
    let refused = other.start(start("register")).await.unwrap_err();
    assert!(matches!(refused, EngineError::UnknownFlow(_)));
    let unknown = other.view(SessionId::from_random(7), &me()).await.unwrap_err();
    assert!(matches!(unknown, EngineError::NotFound));
}

/// The number of sessions in memory is limited; the others are loaded when needed.
#[tokio::test]
async fn sessions_in_memory_are_limited() {
    let limits =
        mcp_flow_engine::SessionLimits { live: 10, ..mcp_flow_engine::SessionLimits::default() };
    let engine = builder(Arc::new(MemoryStore::new())).limits(limits).build();
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(engine.start(start("register")).await.unwrap().id);
        assert!(engine.live() <= 10);
    }
    for id in ids {
        answer(&engine, id, json!("Ada")).await;
        let view = answer(&engine, id, json!("a@b")).await;
        assert_eq!(ended(&view).turns, 2);
    }
}

/// INT-074: a turn whose caller goes away is completed or resumed.
#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_undone() {
    async fn pays(flow: Flow, _: NoParams) -> FlowResult<String> {
        flow.ask("pay", confirm("Pay?")).await?;
        flow.step("pay", || async { Ok::<_, String>("paid".to_owned()) }).await
    }
    let store = Arc::new(crate::support::SlowStore::default());
    let engine = Engine::builder(Arc::clone(&store) as Arc<dyn Store>)
        .flow(Definition::new("pays", pays))
        .build();
    let id = engine.start(start("pays")).await.unwrap().id;
    store.hold();
    let owner = me();
    let responding = engine.respond(id, &owner, json!(true).into());
    let gone = tokio::time::timeout(std::time::Duration::ZERO, responding).await;
    assert!(gone.is_err(), "the store is slow");
    // The append was handed to the store when the caller left. Until it is written, the session is
    // not resumed from a journal that is about to change.
    engine.maintain().await.unwrap();
    assert_eq!(engine.live(), 1);
    store.release().await;
    assert_eq!(engine.view(id, &me()).await.unwrap().state, State::Processing);
    engine.maintain().await.unwrap();
    let view = engine.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(result(&view), json!("paid"));
    engine.shutdown().await;
}
