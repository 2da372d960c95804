//! Compensations: steps are undone when their session ends without success.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_flow_engine::{
    Definition, Engine, EngineError, Flow, FlowResult, Retry, SessionLimits, SessionStatus, View,
};
use mcp_flow_session::event::{Ending, FaultName, Limit};
use mcp_flow_session::question::{confirm, text};
use mcp_flow_session::session::Bounds;
use mcp_flow_session::store::{Filter, PageRequest};
use mcp_flow_session::{JournalEvent, MemoryStore, SessionId, State, Store, Timestamp};
use mcp_flow_testkit_store::SharedMemory;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::support::{
    CrashStore, ManualClock, NoParams, answer, ended, fault, me, no_linger, open, params, start,
    within,
};

/// Effects in the order in which they were made and undone.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    fn add(&self, effect: impl Into<String>) {
        self.0.lock().unwrap().push(effect.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Makes an effect in a step that can be undone.
    async fn make(&self, flow: &Flow, effect: &'static str) -> FlowResult<()> {
        let (made, undone) = (self.clone(), self.clone());
        let step = flow.step(effect, || async move {
            made.add(effect);
            Ok::<_, String>(())
        });
        step.compensate(move || {
            undone.add(format!("no {effect}"));
            async { Ok::<_, String>(()) }
        })
        .await
    }
}

#[derive(Deserialize)]
struct Trip {
    end: String,
}

/// A flow with three effects, two of them concurrent, that ends as its parameter says.
fn trip(effects: &Effects) -> Definition {
    let effects = effects.clone();
    Definition::new("trip", move |flow: Flow, Trip { end }: Trip| {
        let effects = effects.clone();
        async move {
            effects.make(&flow, "hotel").await?;
            flow.all(["flight", "train"].map(|effect| effects.make(&flow, effect))).await?;
            match end.as_str() {
                "fails" => flow.step("pay", || async { Err::<(), _>("no money") }).await?,
                "panics" => panic!("it was asked to"),
                "hangs" => flow.step("pay", std::future::pending::<Result<(), String>>).await?,
                "grows" => flow.set("all", "x".repeat(5_000))?,
                "declines" => return flow.decline("not today"),
                _ => {}
            }
            flow.ask("sure", confirm("Sure?")).await
        }
    })
}

fn limits() -> SessionLimits {
    let bounds = Bounds { bytes: 4_000, ..Bounds::default() };
    SessionLimits { bounds, operation: Duration::from_millis(50), ..no_linger() }
}

fn engine(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>, flow: Definition) -> Engine {
    Engine::builder(Arc::clone(store) as Arc<dyn Store>)
        .clock(clock.clone())
        .limits(limits())
        .flow(flow)
        .build()
}

async fn wait(engine: &Engine, id: SessionId) -> View {
    within("the session", engine.wait(id, &me(), Duration::from_secs(50))).await.unwrap()
}

/// However a session ends without success, what its steps did is undone, the last first.
#[tokio::test]
async fn compensations_run_in_reverse_order_before_every_end_without_success() {
    let undone = ["hotel", "flight", "train", "no train", "no flight", "no hotel"];
    for end in ["fails", "panics", "hangs", "grows", "cancelled", "expires", "wrong answers"] {
        let (effects, clock) = (Effects::default(), ManualClock::new());
        let engine = engine(&Arc::default(), &clock, trip(&effects));
        let request = start("trip").params(params(json!({"end": end})));
        let id = engine.start(request).await.unwrap().id;
        match end {
            "cancelled" => drop(engine.cancel(id, &me(), Some("too far".into())).await.unwrap()),
            "expires" => {
                clock.forward(Duration::from_secs(60 * 60));
                engine.maintain().await.unwrap();
            }
            "wrong answers" => {
                for _ in 0..10 {
                    engine.respond(id, &me(), json!("?").into()).await.unwrap();
                }
            }
            _ => {}
        }
        let view = wait(&engine, id).await;
        assert_eq!(effects.all(), undone, "{end}");
        let end_of = ended(&view);
        assert_eq!(end_of.uncompensated, Vec::<String>::new(), "{end}");
        match (&end_of.ending, end) {
            (Ending::Cancelled { reason }, "cancelled") => {
                assert_eq!(reason.as_deref(), Some("too far"));
            }
            (Ending::Expired(limit), "expires") => assert_eq!(*limit, Limit::Inactivity),
            (Ending::Failed(fault), _) => {
                let expected = match end {
                    "fails" => FaultName::Failed,
                    "panics" => FaultName::Panicked,
                    "hangs" => FaultName::Timeout,
                    "grows" => FaultName::TooMuchData,
                    _ => FaultName::TooManyAttempts,
                };
                assert_eq!(fault.name, expected, "{end}");
            }
            (ending, _) => panic!("{end}: {ending:?}"),
        }
        engine.shutdown().await;
    }
}

/// Nothing is undone after a success, and declining is one.
#[tokio::test]
async fn successful_flows_are_not_compensated() {
    for end in ["succeeds", "declines"] {
        let (effects, clock) = (Effects::default(), ManualClock::new());
        let engine = engine(&Arc::default(), &clock, trip(&effects));
        let request = start("trip").params(params(json!({"end": end})));
        let view = engine.start(request).await.unwrap();
        let view = match view.status {
            SessionStatus::Ended(_) => view,
            _ => answer(&engine, view.id, json!(true)).await,
        };
        assert_eq!(view.state, State::Completed);
        assert_eq!(ended(&view).uncompensated, Vec::<String>::new());
        assert_eq!(effects.all(), ["hotel", "flight", "train"], "{end}");
        engine.shutdown().await;
    }
}

/// A session that was stored is undone by whichever process cancels it, from its journal.
#[tokio::test]
async fn a_session_is_compensated_after_a_restart() {
    let (effects, clock, store) = (Effects::default(), ManualClock::new(), Arc::default());
    let first = engine(&store, &clock, trip(&effects));
    let request = start("trip").params(params(json!({"end": "asks"})));
    let id = first.start(request).await.unwrap().id;
    first.shutdown().await;
    let second = engine(&store, &clock, trip(&effects));
    let view = second.cancel(id, &me(), None).await.unwrap();
    assert_eq!(view.state, State::Cancelled);
    assert_eq!(effects.all()[3..], ["no train", "no flight", "no hotel"]);
    second.shutdown().await;
}

/// A process that is killed at any append: each effect is undone at least once, and the session ends
/// as it would have.
#[tokio::test]
async fn compensations_survive_a_crash_at_every_append() {
    let mut completed = false;
    let mut writes = 0;
    while !completed {
        let (effects, clock, kept) = (Effects::default(), ManualClock::new(), Arc::default());
        let store = CrashStore::stopping_after(&kept, writes);
        let builder = |store: Arc<dyn Store>| {
            let limits = SessionLimits { bounds: Bounds::default(), ..limits() };
            Engine::builder(store).clock(clock.clone()).limits(limits).flow(trip(&effects))
        };
        let crashing = builder(store).build();
        let request = start("trip").params(params(json!({"end": "fails"})));
        let started = crashing.start(request).await;
        completed = started.is_ok_and(|view| matches!(view.status, SessionStatus::Ended(_)));
        crashing.shutdown().await;
        let page = PageRequest { after: None, most: 1 };
        if let Some(listed) = kept.list(Filter::default(), page).await.unwrap().first() {
            let next = builder(Arc::clone(&kept) as Arc<dyn Store>).start();
            let view = wait(&next, listed.id).await;
            assert_eq!(fault(&view).message, "step `pay` failed: no money", "{writes} writes");
            assert_eq!(ended(&view).uncompensated, Vec::<String>::new());
            let all = effects.all();
            for effect in ["hotel", "flight", "train"] {
                let (made, undone) = (effect.to_owned(), format!("no {effect}"));
                let last = |one: &String| all.iter().rposition(|other| other == one);
                assert!(last(&made) < last(&undone), "{effect} after {writes} writes: {all:?}");
            }
            next.shutdown().await;
        }
        writes += 1;
    }
    assert!(writes > 8, "only {writes} appends");
}

/// A compensation that fails runs again by the policy of its step, asleep in between. One that fails
/// for good is named, and the others run.
#[tokio::test]
async fn failed_compensations_are_retried_and_named() {
    let clock = ManualClock::new();
    let store: Arc<MemoryStore> = Arc::default();
    let runs = Arc::<AtomicU32>::default();
    let counted = Arc::clone(&runs);
    let flow = move |flow: Flow, _: NoParams| {
        let counted = Arc::clone(&counted);
        async move {
            let retry = Retry::fixed(3).initial(Duration::from_secs(60));
            let ok = || async { Ok::<_, String>(()) };
            let attempts = Arc::clone(&counted);
            let flaky = move || {
                let run = attempts.fetch_add(1, Ordering::SeqCst);
                async move { if run < 2 { Err("closed") } else { Ok(()) } }
            };
            flow.step("flaky", ok).compensate(flaky).retry(retry).await?;
            flow.step("broken", ok).compensate(|| async { Err::<(), _>("refused") }).await?;
            let panics = || async { if true { panic!("a bug") } else { Ok::<_, String>(()) } };
            flow.step("buggy", ok).compensate(panics).await?;
            let hangs = std::future::pending::<Result<(), String>>;
            let short = Duration::from_millis(1);
            flow.step("slow", ok).compensate(hangs).timeout(short).await?;
            flow.step("endless", ok).compensate(hangs).await?;
            flow.ask("name", text("Name?")).await
        }
    };
    let engine = engine(&store, &clock, Definition::new("flow", flow));
    let id = engine.start(start("flow")).await.unwrap().id;
    engine.cancel(id, &me(), None).await.unwrap();
    let mut view = engine.wait(id, &me(), Duration::from_secs(5)).await.unwrap();
    for attempt in 1..=2 {
        assert!(view.is_asleep(), "{view:?}");
        assert_eq!((view.state, view.deadline), (State::Processing, None));
        assert_eq!(runs.load(Ordering::SeqCst), attempt);
        let again = engine.cancel(id, &me(), None).await;
        assert!(matches!(again, Err(EngineError::AlreadyCancelled)), "{again:?}");
        let late = engine.respond(id, &me(), json!("Ada").into()).await;
        assert!(matches!(late, Err(EngineError::AlreadyCancelled)), "{late:?}");
        let rewound = engine.rewind(id, &me(), "name").await;
        assert!(matches!(rewound, Err(EngineError::Transition { .. })), "{rewound:?}");
        engine.check_history(&store.read(id).await.unwrap()).unwrap();
        clock.forward(Duration::from_secs(60));
        engine.maintain().await.unwrap();
        view = engine.wait(id, &me(), Duration::from_secs(5)).await.unwrap();
    }
    assert_eq!(view.state, State::Cancelled);
    let expected = [
        "`broken`: refused",
        "`buggy`: it panicked",
        "`slow`: it took longer than 0.001 s",
        "`endless`: it took longer than 0.05 s",
    ];
    assert_eq!(ended(&view).uncompensated, expected);
    engine.shutdown().await;
}

/// The code of a stuck session cannot run: a person who cancels it learns which steps are not undone,
/// also if it was closing.
#[tokio::test]
async fn stuck_sessions_name_what_was_not_compensated() {
    for is_closing in [false, true] {
        let (effects, clock, kept) = (Effects::default(), ManualClock::new(), Arc::default());
        let first = engine(&kept, &clock, trip(&effects));
        let request = start("trip").params(params(json!({"end": "asks"})));
        let id = first.start(request).await.unwrap().id;
        first.shutdown().await;
        if is_closing {
            let store: Arc<dyn Store> = CrashStore::stopping_after(&kept, 1);
            let crashing = Engine::builder(store).clock(clock.clone()).flow(trip(&effects)).build();
            crashing.cancel(id, &me(), None).await.unwrap_err();
            crashing.shutdown().await;
        }
        let last = kept.read(id).await.unwrap().pop();
        assert_eq!(matches!(last, Some(JournalEvent::EndBegun { .. })), is_closing, "{last:?}");
        let other = |flow: Flow, _: Value| async move { flow.ask("age", text("Age?")).await };
        let second = engine(&kept, &clock, Definition::new("trip", other));
        let begun = second.respond(id, &me(), json!(true).into()).await;
        assert!(matches!(begun, Err(EngineError::Stuck(_))), "{begun:?}");
        let view = second.cancel(id, &me(), Some("by hand".into())).await.unwrap();
        let not_undone = ["hotel", "flight", "train"]
            .map(|step| format!("`{step}`: its compensation has not run"));
        assert_eq!(ended(&view).uncompensated, not_undone);
        assert_eq!(view.state, State::Cancelled);
        second.shutdown().await;
    }
}

/// A flow that ends while answers wait for it, and one whose branches still ask, both close; and each
/// of their journals replays.
#[tokio::test]
async fn flows_with_branches_are_compensated() {
    let (effects, clock) = (Effects::default(), ManualClock::new());
    let store = Arc::new(MemoryStore::new());
    let gate = Arc::new(Semaphore::new(0));
    let (made, opened) = (effects.clone(), Arc::clone(&gate));
    let flow = move |flow: Flow, _: NoParams| {
        let (made, opened) = (made.clone(), Arc::clone(&opened));
        async move {
            made.make(&flow, "hotel").await?;
            let asks = async { flow.ask("name", text("Name?")).await };
            let sleeps = async {
                flow.sleep(Duration::from_secs(60 * 60)).await?;
                Ok(String::new())
            };
            let fails = async {
                let work = || async { opened.acquire().await.map(|_| ()) };
                flow.step("wait", work).await?;
                made.make(&flow, "flight").await?;
                flow.step("pay", || async { Err::<String, _>("no money") }).await
            };
            let branches: [std::pin::Pin<Box<dyn Future<Output = _> + Send>>; 3] =
                [Box::pin(asks), Box::pin(sleeps), Box::pin(fails)];
            flow.all(branches).await
        }
    };
    let limits = SessionLimits { operation: Duration::from_secs(60), ..limits() };
    let engine = Engine::builder(Arc::clone(&store) as Arc<dyn Store>)
        .clock(clock.clone())
        .limits(limits)
        .flow(Definition::new("flow", flow))
        .build();
    let view = engine.start(start("flow")).await.unwrap();
    assert_eq!(open(&view).key, "name");
    gate.add_permits(1);
    let view = within("the end", async {
        let mut notices = engine.subscribe(view.id, &me()).await.unwrap();
        loop {
            let view = engine.view(view.id, &me()).await.unwrap();
            if matches!(view.status, SessionStatus::Ended(_)) {
                break view;
            }
            notices.next().await;
        }
    })
    .await;
    assert_eq!(fault(&view).message, "step `pay` failed: no money");
    assert_eq!(effects.all(), ["hotel", "flight", "no flight", "no hotel"]);
    engine.shutdown().await;
}

/// A cancel interrupts the step in progress, also one of another node, and undoes those before it.
#[tokio::test]
async fn a_session_at_work_is_compensated() {
    for is_elsewhere in [false, true] {
        let (effects, store) = (Effects::default(), SharedMemory::create());
        let node = || {
            let made = effects.clone();
            let flow = move |flow: Flow, _: NoParams| {
                let made = made.clone();
                async move {
                    made.make(&flow, "hotel").await?;
                    flow.step("work", std::future::pending::<Result<(), String>>).await
                }
            };
            let store = store.connect() as Arc<dyn Store>;
            Engine::builder(store).flow(Definition::new("flow", flow)).start()
        };
        let (one, two) = (node(), node());
        let id = one.start(start("flow")).await.unwrap().id;
        let at_work = async {
            let is_at_work = |events: Vec<JournalEvent>| {
                events.iter().any(
                    |event| matches!(event, JournalEvent::StepBegun { key, .. } if key == "work"),
                )
            };
            while !is_at_work(one.journal(id, &me()).await.unwrap()) {
                tokio::task::yield_now().await;
            }
        };
        within("the step", at_work).await;
        let canceller = if is_elsewhere { &two } else { &one };
        canceller.cancel(id, &me(), None).await.unwrap();
        let view = wait(canceller, id).await;
        assert_eq!(view.state, State::Cancelled);
        assert_eq!(effects.all(), ["hotel", "no hotel"]);
        one.shutdown().await;
        two.shutdown().await;
    }
}

/// A journal that is full still closes: compensations and their attempts have room.
#[tokio::test]
async fn full_sessions_are_compensated() {
    let (effects, clock) = (Effects::default(), ManualClock::new());
    let store = Arc::new(MemoryStore::new());
    let made = effects.clone();
    let flow = move |flow: Flow, _: NoParams| {
        let made = made.clone();
        async move {
            for _ in 0..100 {
                made.make(&flow, "one").await?;
            }
            Ok(())
        }
    };
    let bounds = Bounds { events: 20, ..Bounds::default() };
    let engine = Engine::builder(Arc::clone(&store) as Arc<dyn Store>)
        .clock(clock.clone())
        .limits(SessionLimits { bounds, ..limits() })
        .flow(Definition::new("flow", flow))
        .build();
    let id = engine.start(start("flow")).await.unwrap().id;
    let view = wait(&engine, id).await;
    assert_eq!(fault(&view).name, FaultName::TooMuchData);
    let all = effects.all();
    let made = all.iter().filter(|effect| *effect == "one").count();
    assert!((15..25).contains(&made), "{made} steps");
    assert_eq!(made, all.len() - made, "each step that ran is undone: {all:?}");
    engine.shutdown().await;
}

/// Events of compensations are of a format that older programs leave alone.
#[test]
fn older_programs_leave_closing_sessions_alone() {
    let ending = Ending::Cancelled { reason: None };
    let begun = JournalEvent::EndBegun { ending, at: Timestamp::from_millis(1) };
    assert_eq!(begun.format(), 4);
    let json = serde_json::to_value(&begun).unwrap();
    assert_eq!(json, json!({"end_begun": {"ending": {"cancelled": {}}, "at": 1}}));
}

/// A session that closes waits for no signal any more: its compensations run, also in another
/// process, and neither signals nor links reach it.
#[tokio::test]
async fn sessions_that_wait_for_signals_are_compensated() {
    async fn order(flow: Flow, gate: Arc<Semaphore>) -> FlowResult<u64> {
        let book = flow.step("book", || async { Ok::<_, String>(()) });
        let undo = move || {
            let gate = Arc::clone(&gate);
            async move { gate.acquire().await.map(drop) }
        };
        book.compensate(undo).await?;
        flow.set("url", flow.link("paid")?)?;
        flow.wait_for("paid").await
    }
    for restarts in [false, true] {
        let (store, gate) = (Arc::new(MemoryStore::new()), Arc::new(Semaphore::new(0)));
        let build = || {
            let gate = Arc::clone(&gate);
            let order = move |flow, _: NoParams| order(flow, Arc::clone(&gate));
            let engine = Engine::builder(Arc::clone(&store) as Arc<dyn Store>).limits(no_linger());
            let engine = engine.flow(Definition::new("order", order)).build();
            engine.set_link_base("https://h");
            engine
        };
        let mut engine = build();
        let id = engine.start(start("order")).await.unwrap().id;
        let data = engine.inspect(id, &me()).await.unwrap().data;
        let token = data["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        engine.cancel(id, &me(), None).await.unwrap();
        if restarts {
            engine.shutdown().await;
            engine = build();
            engine.start_maintenance();
        }
        let closing = engine.view(id, &me()).await.unwrap();
        assert!(!closing.is_asleep() && closing.awaits.is_empty(), "{closing:?}");
        let late = engine.signal(id, &me(), "paid", json!(1)).await;
        assert!(matches!(late, Err(EngineError::AlreadyCancelled)), "{late:?}");
        let late = engine.use_link(&token, json!(1), None).await;
        assert!(matches!(late, Err(EngineError::NotFound)), "{late:?}");
        gate.add_permits(1);
        let end = wait(&engine, id).await;
        assert!(matches!(ended(&end).ending, Ending::Cancelled { .. }), "{end:?}");
        engine.shutdown().await;
    }
}
