//! Signals: events from outside that a flow waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join};
use mcp_flow_engine::{
    ClientHeldSessions, Definition, Engine, EngineError, Flow, FlowResult, Notice, SessionLimits,
    SessionStatus,
};
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::question::text;
use mcp_flow_session::session::MAX_SIGNALS;
use mcp_flow_session::{JournalEvent, MemoryStore, Owner, SessionId, State, Store};
use mcp_flow_testkit_store::SharedMemory;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::{
    CrashStore, ManualClock, NoParams, answer, builder, fault, me, no_linger, open, result, start,
    within,
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Asks for a name, waits for two payments, ships, and asks again.
async fn order(flow: Flow, shipped: Arc<AtomicUsize>) -> FlowResult<Value> {
    let name = flow.ask("name", text("Name?")).await?;
    let first: u64 = flow.wait_for("paid").await?;
    let second: u64 = flow.wait_for("paid").await?;
    let ship = || async { Ok::<_, String>(shipped.fetch_add(1, Ordering::SeqCst)) };
    let _: usize = flow.step("ship", ship).await?;
    let note = flow.ask("note", text("Anything else?")).await?;
    Ok(json!([name, first, second, note]))
}

fn order_definition() -> Definition {
    let shipped = Arc::<AtomicUsize>::default();
    Definition::new("order", move |flow, _: NoParams| order(flow, Arc::clone(&shipped)))
}

fn engine_of(store: Arc<dyn Store>, clock: &Arc<ManualClock>, limits: SessionLimits) -> Engine {
    builder(store).clock(clock.clone()).limits(limits).flow(order_definition()).build()
}

/// An engine of one flow.
fn engine_with(limits: SessionLimits, definition: Definition) -> Engine {
    builder(Arc::new(MemoryStore::new())).limits(limits).flow(definition).build()
}

async fn signal(engine: &Engine, id: SessionId, name: &str, value: Value) -> bool {
    engine.signal(id, &me(), name, value).await.unwrap().is_kept
}

/// A signal that arrives early is kept until the flow waits; each one is taken once, in order.
#[tokio::test]
async fn signals_arrive_before_and_while_the_flow_waits() {
    for limits in [no_linger(), SessionLimits::default()] {
        for early in 0..=2 {
            let clock = ManualClock::new();
            let engine = engine_of(Arc::new(MemoryStore::new()), &clock, limits.clone());
            let id = engine.start(start("order")).await.unwrap().id;
            for amount in 1..=early {
                assert!(signal(&engine, id, "paid", json!(amount)).await, "it is kept");
            }
            answer(&engine, id, json!("Ada")).await;
            for amount in early + 1..=2 {
                let waiting = engine.view(id, &me()).await.unwrap();
                assert_eq!(waiting.awaits, ["paid"]);
                assert!(waiting.is_asleep() && waiting.wakes.is_none(), "{waiting:?}");
                assert!(!signal(&engine, id, "paid", json!(amount)).await, "it is taken");
            }
            assert_eq!(&*open(&engine.view(id, &me()).await.unwrap()).key, "note");
            // One that the flow never waits for does no harm.
            assert!(signal(&engine, id, "paid", json!(3)).await);
            let end = answer(&engine, id, json!("no")).await;
            assert_eq!(result(&end), json!(["Ada", 1, 2, "no"]));
        }
    }
}

/// A flow that waits is not in memory, does not expire, and goes on in another process.
#[tokio::test]
async fn a_flow_waits_without_memory_and_without_end() {
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let engine = engine_of(store.clone(), &clock, no_linger());
    let id = engine.start(start("order")).await.unwrap().id;
    let waiting = answer(&engine, id, json!("Ada")).await;
    assert_eq!((waiting.state, waiting.deadline), (State::Processing, None));
    assert_eq!(engine.live(), 0, "a waiting flow is in memory");
    engine.shutdown().await;

    let engine = engine_of(store, &clock, no_linger());
    engine.start_maintenance();
    clock.forward(30 * DAY);
    engine.maintain().await.unwrap();
    assert!(!signal(&engine, id, "paid", json!(1)).await);
    clock.forward(30 * DAY);
    assert!(!signal(&engine, id, "paid", json!(2)).await);
    // Longer than the longest duration of a session: time asleep does not count.
    assert!(60 * DAY > SessionLimits::default().duration.unwrap());
    let end = answer(&engine, id, json!("no")).await;
    assert_eq!(result(&end), json!(["Ada", 1, 2, "no"]));
    engine.shutdown().await;
}

/// Subscribers learn that a flow waits, and of what follows a signal.
#[tokio::test]
async fn subscribers_learn_of_waits() {
    let clock = ManualClock::new();
    let engine = engine_of(Arc::new(MemoryStore::new()), &clock, no_linger());
    let id = engine.start(start("order")).await.unwrap().id;
    let mut notices = engine.subscribe(id, &me()).await.unwrap();
    answer(&engine, id, json!("Ada")).await;
    assert_eq!(within("the answer", notices.next()).await, Some(Notice::Accepted));
    assert_eq!(within("the wait", notices.next()).await, Some(Notice::Sleeping(None)));
    // Nobody waits for a signal that may never come.
    let waiting = within("a wait", engine.wait(id, &me(), DAY)).await.unwrap();
    assert_eq!(waiting.awaits, ["paid"]);
}

/// Values of another type are rejected while the flow waits, and passed over if they came before.
#[tokio::test]
async fn signals_of_the_wrong_type_do_no_harm() {
    let clock = ManualClock::new();
    let engine = engine_of(Arc::new(MemoryStore::new()), &clock, no_linger());
    let id = engine.start(start("order")).await.unwrap().id;
    for early in [json!("much"), json!(1), json!(null)] {
        assert!(signal(&engine, id, "paid", early).await);
    }
    answer(&engine, id, json!("Ada")).await;
    let before = engine.journal(id, &me()).await.unwrap();
    let refused = engine.signal(id, &me(), "paid", json!("more")).await;
    let Err(EngineError::BadSignal { name, reason }) = refused else { panic!("{refused:?}") };
    assert_eq!((&*name, &*reason), ("paid", "invalid type: string \"more\", expected u64"));
    assert_eq!(engine.journal(id, &me()).await.unwrap(), before, "it is not recorded");
    assert!(!signal(&engine, id, "paid", json!(2)).await);
    let session = engine.inspect(id, &me()).await.unwrap();
    let kept: Vec<_> = session.signals.iter().map(|kept| &kept.value).collect();
    assert_eq!(kept, [&json!("much"), &json!(null)]);
    assert_eq!(result(&answer(&engine, id, json!("no")).await), json!(["Ada", 1, 2, "no"]));
}

/// Signals have bounds, which never end the session.
#[tokio::test]
async fn too_many_and_too_large_signals_are_refused() {
    let clock = ManualClock::new();
    let engine = engine_of(Arc::new(MemoryStore::new()), &clock, no_linger());
    let id = engine.start(start("order")).await.unwrap().id;
    for _ in 0..MAX_SIGNALS {
        assert!(signal(&engine, id, "other", Value::Null).await);
    }
    let full = engine.signal(id, &me(), "paid", json!(1)).await;
    assert!(matches!(full, Err(EngineError::TooManySignals)), "{full:?}");
    let huge = json!("x".repeat(10 * 1024 * 1024));
    let large = engine.signal(id, &me(), "other", huge).await;
    assert!(matches!(large, Err(EngineError::TooLarge { most: 262_144, .. })), "{large:?}");
    for name in ["", "a\nb", &"x".repeat(201)] {
        let bad = engine.signal(id, &me(), name, Value::Null).await;
        assert!(matches!(bad, Err(EngineError::BadSignal { .. })), "{bad:?}");
    }
    answer(&engine, id, json!("Ada")).await;
    // The flow waits for these.
    assert!(!signal(&engine, id, "paid", json!(1)).await);
    assert!(!signal(&engine, id, "paid", json!(2)).await);
    let full = engine.signal(id, &me(), "paid", json!(1)).await;
    assert!(matches!(full, Err(EngineError::TooManySignals)), "{full:?}");
    assert_eq!(result(&answer(&engine, id, json!("no")).await), json!(["Ada", 1, 2, "no"]));

    // A session that can hold no more events refuses them as well.
    for (events, bytes) in [(4, usize::MAX), (usize::MAX, 4_000)] {
        let mut limits = no_linger();
        (limits.bounds.events, limits.bounds.bytes) = (events, bytes);
        let engine = engine_of(Arc::new(MemoryStore::new()), &clock, limits);
        let id = engine.start(start("order")).await.unwrap().id;
        let full = loop {
            match engine.signal(id, &me(), "paid", json!("x".repeat(1_000))).await {
                Ok(reply) => assert!(reply.is_kept),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, EngineError::TooManySignals), "{full:?}");
        assert_eq!(&*open(&engine.view(id, &me()).await.unwrap()).key, "name");
    }
}

/// Nobody signals a session that has ended, or that is another's.
#[tokio::test]
async fn signals_need_a_live_session_of_their_sender() {
    let clock = ManualClock::new();
    let engine = engine_of(Arc::new(MemoryStore::new()), &clock, no_linger());
    let id = engine.start(start("order")).await.unwrap().id;
    let other = engine.signal(id, &Owner::new("eve"), "paid", json!(1)).await;
    assert!(matches!(other, Err(EngineError::NotFound)), "{other:?}");
    assert_eq!(engine.denied_accesses(), 1);
    let unknown: SessionId = format!("session_{:032x}", 7).parse().unwrap();
    let unknown = engine.signal(unknown, &me(), "paid", json!(1)).await;
    assert!(matches!(unknown, Err(EngineError::NotFound)), "{unknown:?}");
    assert!(engine.inspect(id, &me()).await.unwrap().signals.is_empty());

    engine.cancel(id, &me(), None).await.unwrap();
    let late = engine.signal(id, &me(), "paid", json!(1)).await;
    assert!(matches!(late, Err(EngineError::AlreadyCancelled)), "{late:?}");
    let id = engine.start(start("order")).await.unwrap().id;
    clock.forward(HOUR);
    let late = engine.signal(id, &me(), "paid", json!(1)).await;
    assert!(matches!(late, Err(EngineError::Expired(_))), "{late:?}");
    let registered = engine.start(start("register")).await.unwrap().id;
    answer(&engine, registered, json!("Ada")).await;
    answer(&engine, registered, json!("ada@a.example")).await;
    let late = engine.signal(registered, &me(), "paid", json!(1)).await;
    assert!(matches!(late, Err(EngineError::Transition { .. })), "{late:?}");
    engine.drain(Duration::ZERO).await;
    let late = engine.signal(id, &me(), "paid", json!(1)).await;
    assert!(matches!(late, Err(EngineError::ShuttingDown)), "{late:?}");
}

/// A question races a signal, within a timeout. What loses is withdrawn; a signal that comes too late
/// is kept for the next wait.
#[tokio::test]
async fn signals_race_questions_and_timers() {
    async fn racing(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let asked: BoxFuture<'_, _> = Box::pin(flow.ask("code", text("Code?")));
        let first = flow.race([asked, Box::pin(flow.wait_for("code"))]).await?;
        let second = flow.timeout(HOUR, flow.wait_for::<String>("code")).await;
        let second = second.ok().transpose()?;
        flow.ask("next", text("Next?")).await?;
        let third: String = flow.wait_for("code").await?;
        Ok(json!([first, second, third]))
    }
    for limits in [no_linger(), SessionLimits::default()] {
        for by_signal in [true, false] {
            let (clock, flow) = (ManualClock::new(), Definition::new("racing", racing));
            let engine = builder(Arc::new(MemoryStore::new()));
            let engine = engine.clock(clock.clone()).limits(limits.clone()).flow(flow).build();
            let view = engine.start(start("racing")).await.unwrap();
            let id = view.id;
            // Waiting for the signal, it does not expire by a default that nobody chose.
            let ends = view.created.after(SessionLimits::default().duration.unwrap());
            assert!(view.may_withdraw() && view.deadline == Some(ends), "{view:?}");
            let question = open(&view).id();
            if by_signal {
                assert!(!signal(&engine, id, "code", json!("1")).await);
                let late = mcp_flow_engine::AnswerRequest::from(json!("2")).for_question(question);
                let late = engine.respond(id, &me(), late).await;
                assert!(matches!(late, Err(EngineError::QuestionClosed(_))), "{late:?}");
            } else {
                answer(&engine, id, json!("1")).await;
            }
            let waiting = engine.view(id, &me()).await.unwrap();
            assert!(waiting.is_asleep() && waiting.awaits == ["code"] && waiting.wakes.is_some());
            clock.forward(HOUR);
            engine.maintain().await.unwrap();
            assert_eq!(engine.view(id, &me()).await.unwrap().awaits, [""; 0]);
            assert!(signal(&engine, id, "code", json!("3")).await, "it came too late");
            let end = answer(&engine, id, json!("go")).await;
            assert_eq!(result(&end), json!(["1", null, "3"]));
        }
    }
}

/// Branches that wait for signals of one name get them in the order in which they began to wait; a
/// branch with another type gets the one that fits.
#[tokio::test]
async fn branches_wait_side_by_side() {
    async fn branches(flow: Flow, gate: Arc<Notify>) -> FlowResult<Value> {
        let late = async {
            flow.step("slow", || async {
                gate.notified().await;
                Ok::<_, String>(())
            })
            .await?;
            flow.wait_for::<Value>("go").await
        };
        let early = flow.wait_for::<Value>("go");
        let number = flow.wait_for::<u64>("go");
        let (late, (early, number)) = join(late, join(early, number)).await;
        Ok(json!([late?, early?, number?]))
    }
    for limits in [no_linger(), SessionLimits::default()] {
        let gate = Arc::new(Notify::new());
        let branch = Arc::clone(&gate);
        let flow = move |flow, _: NoParams| branches(flow, Arc::clone(&branch));
        let engine = engine_with(limits, Definition::new("branches", flow));
        let started = engine.start(start("branches")).await.unwrap();
        let id = started.id;
        assert_eq!((started.is_asleep(), started.awaits), (false, vec!["go".to_owned()]));
        assert!(!signal(&engine, id, "go", json!("first")).await);
        let refused = engine.signal(id, &me(), "go", json!("second")).await;
        assert!(matches!(refused, Err(EngineError::BadSignal { .. })), "{refused:?}");
        assert!(!signal(&engine, id, "go", json!(2)).await);
        let mut notices = engine.subscribe(id, &me()).await.unwrap();
        gate.notify_one();
        within("the slow branch to wait", notices.next()).await;
        let end = engine.signal(id, &me(), "go", json!("third")).await.unwrap();
        assert_eq!(result(&end.view), json!(["third", "first", 2]));
    }
}

/// A nested flow waits for signals with its prefix.
#[tokio::test]
async fn nested_flows_have_their_own_signals() {
    async fn inner(flow: Flow, _: ()) -> FlowResult<u64> {
        flow.wait_for("paid").await
    }
    async fn outer(flow: Flow, _: NoParams) -> FlowResult<u64> {
        flow.call("deposit", inner, ()).await
    }
    let engine = engine_with(no_linger(), Definition::new("outer", outer));
    let started = engine.start(start("outer")).await.unwrap();
    assert_eq!(started.awaits, ["deposit.paid"]);
    assert!(signal(&engine, started.id, "paid", json!(1)).await);
    let end = engine.signal(started.id, &me(), "deposit.paid", json!(7)).await.unwrap();
    assert_eq!(result(&end.view), json!(7));
}

/// A session that was rewound has the signals again that came since.
#[tokio::test]
async fn rewinding_loses_no_signal() {
    async fn paid(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let name = flow.ask("name", text("Name?")).await?;
        let first: u64 = flow.wait_for("paid").await?;
        let second: u64 = flow.wait_for("paid").await?;
        let sure = flow.ask("sure", text("Sure?")).await?;
        Ok(json!([name, first, second, sure]))
    }
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let engine = || {
        let flow = Definition::new("paid", paid);
        builder(store.clone()).clock(clock.clone()).limits(no_linger()).flow(flow).build()
    };
    let first = engine();
    let id = first.start(start("paid")).await.unwrap().id;
    assert!(signal(&first, id, "paid", json!(1)).await);
    answer(&first, id, json!("Ada")).await;
    let rewound = first.rewind(id, &me(), "name").await.unwrap();
    assert_eq!(&*open(&rewound).key, "name");
    assert_eq!(rewound.awaits, [""; 0]);
    assert_eq!(first.inspect(id, &me()).await.unwrap().signals.len(), 1);
    let waiting = answer(&first, id, json!("Bob")).await;
    assert_eq!(waiting.awaits, ["paid"]);
    assert!(!signal(&first, id, "paid", json!(2)).await);
    first.rewind(id, &me(), "name").await.unwrap();
    first.shutdown().await;
    // What was taken before is taken again, by another process.
    let second = engine();
    assert_eq!(&*open(&answer(&second, id, json!("Eve")).await).key, "sure");
    second.check_history(&second.journal(id, &me()).await.unwrap()).unwrap();
    let end = answer(&second, id, json!("yes")).await;
    assert_eq!(result(&end), json!(["Eve", 1, 2, "yes"]));
}

/// A stuck session keeps signals, and takes them when code that fits runs. Code that waits for another
/// type than it got is an error of the flow.
#[tokio::test]
async fn stuck_sessions_keep_signals() {
    async fn changed(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("name", text("Name?")).await?;
        flow.wait_for::<u64>("shipped").await?;
        Ok(())
    }
    async fn retyped(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("name", text("Name?")).await?;
        flow.wait_for::<String>("paid").await?;
        Ok(())
    }
    let store = Arc::new(MemoryStore::new());
    let engine_of =
        |definition| builder(store.clone()).limits(no_linger()).flow(definition).build();
    let engine = engine_of(order_definition());
    let id = engine.start(start("order")).await.unwrap().id;
    answer(&engine, id, json!("Ada")).await;
    let engine = engine_of(Definition::new("order", changed));
    for amount in [1, 2] {
        assert!(signal(&engine, id, "paid", json!(amount)).await);
    }
    let stuck = engine.view(id, &me()).await.unwrap().stuck.unwrap();
    let difference = stuck.to_string();
    assert!(difference.contains("`paid` (a signal) before and has `shipped` (a signal) now"));
    let engine = engine_of(order_definition());
    engine.maintain().await.unwrap();
    assert_eq!(&*open(&engine.view(id, &me()).await.unwrap()).key, "note");

    let engine = engine_of(Definition::new("order", retyped));
    let failed = engine.respond(id, &me(), json!("no").into()).await;
    assert!(matches!(failed, Err(EngineError::Stuck(_))), "{failed:?}");
    let id = engine.start(start("order")).await.unwrap().id;
    answer(&engine, id, json!("Ada")).await;
    let end = engine.signal(id, &me(), "paid", json!("x")).await.unwrap();
    assert_eq!(end.view.state, State::Completed);
}

/// A signal that a changed flow reads as another type fails the flow, which can handle that.
#[tokio::test]
async fn recorded_signals_of_another_type_are_errors() {
    async fn before(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.wait_for::<u64>("paid").await?;
        flow.ask("name", text("Name?")).await?;
        Ok(())
    }
    async fn after(flow: Flow, _: NoParams) -> FlowResult<()> {
        let paid = flow.wait_for::<String>("paid").await;
        flow.ask("name", text("Name?")).await?;
        paid.map(drop)
    }
    let store = Arc::new(MemoryStore::new());
    let engine_of =
        |definition| builder(store.clone()).limits(no_linger()).flow(definition).build();
    let engine = engine_of(Definition::new("f", before));
    let id = engine.start(start("f")).await.unwrap().id;
    signal(&engine, id, "paid", json!(1)).await;
    let engine = engine_of(Definition::new("f", after));
    let end = answer(&engine, id, json!("Ada")).await;
    let message = &fault(&end).message;
    assert!(message.starts_with("the signal `paid` does not fit the type it has now"), "{message}");
}

/// A process that is killed at any append loses no signal that it accepted, and none is taken twice.
#[tokio::test]
async fn signals_survive_a_crash_at_every_append() {
    let mut crashes = 0;
    for writes in 0..12 {
        let (kept, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
        let crashing = engine_of(CrashStore::stopping_after(&kept, writes), &clock, no_linger());
        let Ok(started) = crashing.start(start("order")).await else {
            assert!(kept.is_empty());
            continue;
        };
        let id = started.id;
        let mut accepted = Vec::new();
        for amount in [1, 2] {
            if crashing.signal(id, &me(), "paid", json!(amount)).await.is_ok() {
                accepted.push(amount);
            }
            let _ = crashing.respond(id, &me(), json!("Ada").into()).await;
        }
        crashing.shutdown().await;

        let next = engine_of(kept.clone(), &clock, no_linger());
        next.start_maintenance();
        next.maintain().await.unwrap();
        let journal = kept.read(id).await.unwrap();
        if matches!(journal.last(), Some(JournalEvent::Ended(_))) {
            continue;
        }
        crashes += 1;
        let arrived: Vec<_> = journal
            .iter()
            .filter_map(|event| match event {
                JournalEvent::Signalled { value, .. } => value.as_u64(),
                _ => None,
            })
            .collect();
        // One may have arrived although its sender was not told.
        assert!(arrived.starts_with(&accepted), "after {writes} writes: {journal:?}");
        for number in 1..journal.len() {
            next.check_history(&journal[..number]).unwrap();
        }
        // It goes on, with what was lost sent again.
        let view = next.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
        if matches!(&view.status, SessionStatus::Waiting(open) if open.key == "name") {
            answer(&next, id, json!("Ada")).await;
        }
        for amount in [1, 2].into_iter().skip(arrived.len()) {
            signal(&next, id, "paid", json!(amount)).await;
        }
        next.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
        let end = answer(&next, id, json!("Ada")).await;
        assert_eq!(result(&end), json!(["Ada", 1, 2, "Ada"]), "after {writes} writes");
        next.shutdown().await;
    }
    assert!(crashes >= 5, "{crashes}");
}

/// A signal reaches the node that works on the session, or one that has its flow.
#[tokio::test(start_paused = true)]
async fn signals_reach_the_node_that_can_take_them() {
    async fn beside(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let told = Notify::new();
        let work = flow.step("work", || async {
            told.notified().await;
            Ok::<_, String>("worked".to_owned())
        });
        let wait = async {
            let paid: FlowResult<u64> = flow.wait_for("paid").await;
            told.notify_one();
            paid
        };
        let (worked, paid) = join(work, wait).await;
        Ok(json!([worked?, paid?]))
    }
    let store = SharedMemory::create();
    let node = |has_flow| {
        let engine = builder(store.connect() as Arc<dyn Store>);
        let flow = Definition::new("beside", beside);
        if has_flow { engine.flow(flow).start() } else { engine.start() }
    };
    let (one, two, without) = (node(true), node(true), node(false));
    for sender in [&two, &without] {
        let id = one.start(start("beside")).await.unwrap().id;
        let refused = sender.signal(id, &me(), "paid", json!("much")).await;
        assert!(matches!(refused, Err(EngineError::BadSignal { .. })), "{refused:?}");
        let replied = sender.signal(id, &me(), "paid", json!(7)).await.unwrap();
        assert!(!replied.is_kept);
        let end = within("the end", async {
            loop {
                let view = sender.wait(id, &me(), HOUR).await.unwrap();
                if matches!(view.status, SessionStatus::Ended(_)) {
                    return view;
                }
            }
        });
        assert_eq!(result(&end.await), json!(["worked", 7]));
    }
    // Nobody has the flow: the sender has to try again.
    let id = one.start(start("beside")).await.unwrap().id;
    join(one.shutdown(), two.shutdown()).await;
    let refused = without.signal(id, &me(), "paid", json!(7)).await;
    assert!(matches!(refused, Err(EngineError::UnknownFlow(_))), "{refused:?}");
    without.shutdown().await;
}

/// Nothing can signal a session that only its client has.
#[tokio::test]
async fn token_carried_sessions_do_not_wait_for_signals() {
    let engine = builder(Arc::new(MemoryStore::new())).flow(order_definition()).build();
    let sessions = ClientHeldSessions::new(&engine, KeyRing::new(Key::from_bytes([1; 32])));
    let (_, token) = sessions.start(start("order")).await.unwrap();
    let refused = sessions.respond(&token, &me(), json!("Ada").into()).await;
    assert!(
        matches!(&refused, Err(EngineError::Timeout { operation }) if operation == "signal"),
        "{refused:?}"
    );
}
