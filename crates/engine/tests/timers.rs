//! Timers: durable sleeps and timeouts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;
use mcp_flow_engine::{
    AnswerRequest, ClientHeldSessions, Definition, Engine, EngineError, Flow, FlowResult,
    SessionLimits, SessionStatus, View,
};
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::question::text;
use mcp_flow_session::store::{Filter, PageRequest};
use mcp_flow_session::{MemoryStore, SessionId, State, Store, Timestamp};
use mcp_flow_testkit_store::SharedMemory;
use serde_json::{Value, json};

use super::support::{
    CrashStore, ManualClock, NoParams, answer, builder, ended, fault, me, no_linger, open, result,
    start, within,
};

/// Limits under which ended sessions are not erased, however far the clock is set, and sessions are
/// replayed at each turn.
fn forgetful() -> SessionLimits {
    let mut limits = no_linger();
    limits.bounds.retention = 10_000 * DAY;
    limits
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Sleeps, works, and sleeps again.
async fn reminder(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let began = flow.now();
    flow.sleep(3 * DAY).await?;
    let first: u64 = flow.step("remind", || async { Ok::<_, String>(1) }).await?;
    flow.sleep_until(began.after(30 * DAY)).await?;
    Ok(json!([first, "done"]))
}

fn engine_of(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>, name: &str) -> Engine {
    builder(Arc::clone(store) as Arc<dyn Store>)
        .clock(Arc::clone(clock) as Arc<dyn mcp_flow_engine::Clock>)
        .limits(forgetful())
        .flow(Definition::new("reminder", reminder))
        .flow(Definition::new(name.to_owned(), reminder))
        .build()
}

async fn view(engine: &Engine, id: SessionId) -> View {
    engine.view(id, &me()).await.unwrap()
}

/// A sleeping flow is not in memory, says when it wakes, and wakes then and not before, in whichever
/// process there is.
#[tokio::test]
async fn a_flow_sleeps_without_memory_and_wakes_on_time() {
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let engine = engine_of(&store, &clock, "reminder");
    let started = engine.start(start("reminder")).await.unwrap();
    assert!(started.is_asleep());
    let wakes = started.created.after(3 * DAY);
    assert_eq!((started.wakes, started.state), (Some(wakes), State::Processing));
    assert_eq!(engine.live(), 0, "a sleeping flow is in memory");
    engine.shutdown().await;

    let engine = engine_of(&store, &clock, "reminder");
    clock.forward(3 * DAY - Duration::from_millis(1));
    engine.maintain().await.unwrap();
    assert_eq!(view(&engine, started.id).await.wakes, Some(wakes));
    let page = PageRequest { after: None, most: 10 };
    let listed = engine.list_all(Filter::default(), page).await.unwrap();
    assert_eq!((listed[0].summary.wakes, listed[0].summary.deadline), (Some(wakes), None));
    clock.forward(Duration::from_millis(1));
    engine.maintain().await.unwrap();
    let woken = view(&engine, started.id).await;
    assert_eq!(woken.wakes, Some(started.created.after(30 * DAY)));
    clock.forward(27 * DAY);
    engine.maintain().await.unwrap();
    // Longer than the longest duration of a session: time asleep does not count.
    assert!(27 * DAY > SessionLimits::default().duration.unwrap());
    assert_eq!(result(&view(&engine, started.id).await), json!([1, "done"]));
}

/// A process that is killed at any append loses no timer, and none fires twice.
#[tokio::test]
async fn timers_survive_a_crash_at_every_append() {
    for writes in 0..8 {
        let (kept, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
        let crashing = builder(CrashStore::stopping_after(&kept, writes))
            .clock(clock.clone())
            // The clock goes on while nobody works on the session.
            .limits(SessionLimits { duration: None, ..forgetful() })
            .flow(Definition::new("reminder", reminder))
            .build();
        let Ok(started) = crashing.start(start("reminder")).await else {
            assert!(kept.is_empty());
            continue;
        };
        for _ in 0..2 {
            clock.forward(30 * DAY);
            let _ = crashing.maintain().await;
        }
        crashing.shutdown().await;
        let next = engine_of(&kept, &clock, "reminder");
        next.start_maintenance();
        for _ in 0..2 {
            clock.forward(30 * DAY);
            next.maintain().await.unwrap();
        }
        let end = next.wait(started.id, &me(), Duration::from_secs(60)).await.unwrap();
        assert_eq!(result(&end), json!([1, "done"]), "after {writes} writes");
        next.shutdown().await;
    }
}

/// Asks with a timeout, then asks something else.
async fn impatient(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let first = flow.timeout(HOUR, flow.ask("first", text("First?"))).await;
    let first = match first {
        Ok(answer) => Some(answer?),
        Err(_) => None,
    };
    let second = flow.ask("second", text("Second?")).await?;
    Ok(json!([first, second]))
}

/// A question that is answered in time is as without a timeout. One that is not is withdrawn, and an
/// answer to it is rejected: it does not answer the next question.
#[tokio::test]
async fn questions_time_out() {
    for (limits, is_late) in [
        (no_linger(), false),
        (no_linger(), true),
        (SessionLimits::default(), false),
        (SessionLimits::default(), true),
    ] {
        // The default is shorter than the timeout of the flow, and does not end the session before.
        let inactivity = limits.inactivity.filter(|_| is_late);
        let clock = ManualClock::new();
        let engine = builder(Arc::new(MemoryStore::new()))
            .clock(clock.clone())
            .limits(SessionLimits { inactivity, ..limits })
            .flow(Definition::new("impatient", impatient))
            .build();
        let started = engine.start(start("impatient")).await.unwrap();
        let id = started.id;
        assert_eq!(started.wakes, Some(started.created.after(HOUR)));
        assert!(!started.is_asleep(), "it waits for an answer");
        let first = open(&started).clone();
        if is_late {
            clock.forward(HOUR);
            engine.maintain().await.unwrap();
            let second = view(&engine, id).await;
            assert_eq!((open(&second).key.as_str(), open(&second).turn), ("second", 1));
            assert_eq!(second.wakes, None);
            let late = AnswerRequest::from(json!("late")).for_turn(first.turn);
            let late = engine.respond(id, &me(), late).await;
            assert!(matches!(late, Err(EngineError::Transition { .. })), "{late:?}");
        } else {
            let second = answer(&engine, id, json!("in time")).await;
            assert_eq!((open(&second).turn, second.wakes), (1, None));
            // The timer is gone: it withdraws nothing else.
            clock.forward(2 * HOUR);
            engine.maintain().await.unwrap();
        }
        let last = AnswerRequest::from(json!("now")).for_turn(1);
        let end = engine.respond(id, &me(), last.clone()).await.unwrap();
        let expected = if is_late { json!([null, "now"]) } else { json!(["in time", "now"]) };
        assert_eq!(result(end.view()), expected);
        assert_eq!(ended(end.view()).turns, 2);
        // A retry of the last answer is recognised.
        assert_eq!(result(engine.respond(id, &me(), last).await.unwrap().view()), expected);
    }
}

/// A step that takes too long is interrupted. It does not run again in a replay, since it lost the
/// race with its timer.
#[tokio::test]
async fn an_interrupted_step_does_not_run_again() {
    for limits in [no_linger(), SessionLimits::default()] {
        let runs = Arc::new(AtomicUsize::new(0));
        let slow = {
            let runs = Arc::clone(&runs);
            move |flow: Flow, _: NoParams| {
                let runs = Arc::clone(&runs);
                async move {
                    let step = flow.step("slow", || async {
                        runs.fetch_add(1, Ordering::SeqCst);
                        std::future::pending::<Result<(), String>>().await
                    });
                    let timed = flow.timeout(HOUR, step).await;
                    let message = timed.unwrap_err().to_string();
                    let name = flow.ask("name", text("Name?")).await?;
                    Ok(json!([message, name]))
                }
            }
        };
        let clock = ManualClock::new();
        let limits = SessionLimits { operation: DAY, ..limits };
        let engine = builder(Arc::new(MemoryStore::new()))
            .clock(clock.clone())
            .limits(limits)
            .flow(Definition::new("slow", slow))
            .build();
        let view_at_work = engine.start(start("slow")).await.unwrap();
        assert!(view_at_work.wakes.is_some() && !view_at_work.is_asleep(), "its step is running");
        let id = view_at_work.id;
        clock.forward(HOUR);
        engine.maintain().await.unwrap();
        assert_eq!(open(&view(&engine, id).await).key, "name");
        let end = answer(&engine, id, json!("Ada")).await;
        assert_eq!(result(&end), json!(["it took longer than 3600 s", "Ada"]));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        within("the end of all tasks", engine.shutdown()).await;
    }
}

/// Sleeps of nothing and into the past return at once; a thousand years are kept; what lies beyond
/// any date is an error of that session.
#[tokio::test]
async fn extreme_sleeps() {
    async fn none(flow: Flow, _: NoParams) -> FlowResult<&'static str> {
        flow.sleep(Duration::ZERO).await?;
        flow.sleep_until(Timestamp::from_millis(0)).await?;
        flow.sleep_until(flow.now()).await?;
        assert!(flow.timeout(Duration::ZERO, std::future::pending::<()>()).await.is_err());
        assert!(flow.timeout(Duration::MAX, std::future::ready(())).await.is_ok());
        Ok("awake")
    }
    async fn millennium(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.sleep(1_000 * 365 * DAY).await
    }
    async fn forever(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.sleep(Duration::MAX).await
    }
    async fn never(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.sleep_until(Timestamp::NEVER).await
    }
    let clock = ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new()))
        .clock(clock.clone())
        .limits(no_linger())
        .flow(Definition::new("none", none))
        .flow(Definition::new("millennium", millennium))
        .flow(Definition::new("forever", forever))
        .flow(Definition::new("never", never))
        .build();
    assert_eq!(result(&engine.start(start("none")).await.unwrap()), json!("awake"));
    let sleeping = engine.start(start("millennium")).await.unwrap();
    assert!(sleeping.wakes.unwrap().to_iso8601().starts_with("3023-"), "{:?}", sleeping.wakes);
    clock.forward(999 * 365 * DAY);
    engine.maintain().await.unwrap();
    assert!(view(&engine, sleeping.id).await.is_asleep());
    clock.forward(365 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(result(&view(&engine, sleeping.id).await), json!(null));
    for flow in ["forever", "never"] {
        let failed = engine.start(start(flow)).await.unwrap();
        assert!(fault(&failed).message.contains("after the year 9999"), "{}", fault(&failed));
    }
}

/// A clock that is set back delays a timer, and one that is set forward fires it; the times of a
/// session never go back.
#[tokio::test]
async fn timers_follow_a_clock_that_jumps() {
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let engine = engine_of(&store, &clock, "reminder");
    let started = engine.start(start("reminder")).await.unwrap();
    clock.back(400 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(view(&engine, started.id).await.wakes, started.wakes);
    clock.forward(404 * DAY);
    engine.maintain().await.unwrap();
    let woken = view(&engine, started.id).await;
    assert_eq!(woken.wakes, Some(started.created.after(30 * DAY)));
    clock.back(4 * DAY);
    engine.maintain().await.unwrap();
    let events = store.read(started.id).await.unwrap();
    assert!(events.is_sorted_by_key(mcp_flow_session::JournalEvent::at), "{events:?}");
    clock.forward(40 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(result(&view(&engine, started.id).await), json!([1, "done"]));
}

/// A changed duration is no divergence: the timer that was set counts.
#[tokio::test]
async fn durations_may_change() {
    async fn longer(flow: Flow, _: NoParams) -> FlowResult<&'static str> {
        flow.sleep(300 * DAY).await?;
        Ok("new code")
    }
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let id = engine_of(&store, &clock, "reminder").start(start("reminder")).await.unwrap().id;
    let engine = builder(Arc::clone(&store) as Arc<dyn Store>)
        .clock(clock.clone())
        .flow(Definition::new("reminder", longer))
        .build();
    clock.forward(3 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(result(&view(&engine, id).await), json!("new code"));
}

/// Branches that sleep at once replay, though their steps finish in another order then.
#[tokio::test]
async fn concurrent_branches_sleep() {
    async fn branches(flow: Flow, gate: Arc<tokio::sync::Notify>) -> FlowResult<Value> {
        let log: Mutex<Vec<&str>> = Mutex::default();
        let first = async {
            flow.step("slow", || async {
                gate.notified().await;
                gate.notify_one();
                Ok::<_, String>(())
            })
            .await?;
            flow.sleep(HOUR).await?;
            log.lock().unwrap().push("first");
            flow.sleep(3 * HOUR).await
        };
        let second = async {
            flow.sleep(2 * HOUR).await?;
            log.lock().unwrap().push("second");
            FlowResult::Ok(())
        };
        let (first, second) = join(first, second).await;
        first?;
        second?;
        let name = flow.ask("name", text("Name?")).await?;
        Ok(json!([log.into_inner().unwrap(), name]))
    }
    for limits in [no_linger(), SessionLimits::default()] {
        let gate = Arc::new(tokio::sync::Notify::new());
        let flow = {
            let gate = Arc::clone(&gate);
            move |flow: Flow, _: NoParams| branches(flow, Arc::clone(&gate))
        };
        let clock = ManualClock::new();
        let engine = builder(Arc::new(MemoryStore::new()))
            .clock(clock.clone())
            .limits(limits)
            .flow(Definition::new("branches", flow))
            .build();
        let started = engine.start(start("branches")).await.unwrap();
        let mut notices = engine.subscribe(started.id, &me()).await.unwrap();
        gate.notify_one();
        within("the first branch to sleep", notices.next()).await;
        for _ in 0..4 {
            clock.forward(HOUR);
            engine.maintain().await.unwrap();
        }
        let end = answer(&engine, started.id, json!("Ada")).await;
        assert_eq!(result(&end), json!([["first", "second"], "Ada"]));
        engine.shutdown().await;
    }
}

/// Timers of one duration in concurrent branches are told apart, whichever branch set its timer
/// first.
#[tokio::test]
async fn equal_sleeps_of_branches_are_told_apart() {
    async fn branches(flow: Flow, gate: Arc<tokio::sync::Notify>) -> FlowResult<Value> {
        let first = async {
            flow.step("slow", || async {
                gate.notified().await;
                Ok::<_, String>(())
            })
            .await?;
            flow.sleep(HOUR).await?;
            flow.ask("first", text("First?")).await
        };
        let second = async {
            flow.step("quick", || async { Ok::<_, String>(()) }).await?;
            flow.sleep(HOUR).await?;
            flow.ask("second", text("Second?")).await
        };
        let (first, second) = join(first, second).await;
        Ok(json!([first?, second?]))
    }
    for limits in [no_linger(), SessionLimits::default()] {
        let gate = Arc::new(tokio::sync::Notify::new());
        let flow = {
            let gate = Arc::clone(&gate);
            move |flow: Flow, _: NoParams| branches(flow, Arc::clone(&gate))
        };
        let clock = ManualClock::new();
        let engine = builder(Arc::new(MemoryStore::new()))
            .clock(clock.clone())
            .limits(SessionLimits { inactivity: None, ..limits })
            .flow(Definition::new("branches", flow))
            .build();
        let started = engine.start(start("branches")).await.unwrap();
        assert!(started.wakes.is_some(), "the quick branch sleeps");
        let mut notices = engine.subscribe(started.id, &me()).await.unwrap();
        clock.forward(HOUR / 2);
        gate.notify_one();
        within("the slow branch to sleep", notices.next()).await;
        for key in ["second", "first"] {
            clock.forward(HOUR / 2);
            engine.maintain().await.unwrap();
            let view = view(&engine, started.id).await;
            assert!(view.questions().any(|question| question.key == key), "{view:?}");
        }
        answer(&engine, started.id, json!("two")).await;
        let end = answer(&engine, started.id, json!("one")).await;
        assert_eq!(result(&end), json!(["one", "two"]));
        engine.shutdown().await;
    }
}

/// Sessions that a newer version wrote do not keep the others from waking.
#[tokio::test]
async fn sessions_of_newer_versions_do_not_block_others() {
    let (kept, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let store = CrashStore::stopping_after(&kept, usize::MAX);
    let engine = builder(Arc::clone(&store) as Arc<dyn Store>)
        .clock(clock.clone())
        .limits(forgetful())
        .flow(Definition::new("reminder", reminder))
        .build();
    for _ in 0..300 {
        let id = engine.start(start("reminder")).await.unwrap().id;
        store.newer.lock().unwrap().insert(id);
    }
    clock.forward(DAY);
    let id = engine.start(start("reminder")).await.unwrap().id;
    clock.forward(3 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(
        view(&engine, id).await.wakes,
        Some(view(&engine, id).await.created.after(30 * DAY))
    );
}

/// Sessions whose flow this program lacks do not keep the others from waking, and wake when there is
/// the flow.
#[tokio::test]
async fn unknown_flows_do_not_block_others() {
    const EACH: usize = 300;
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let before = engine_of(&store, &clock, "legacy");
    let mut unknown = Vec::new();
    for _ in 0..EACH {
        unknown.push(before.start(start("legacy")).await.unwrap().id);
    }
    let engine = engine_of(&store, &clock, "reminder");
    clock.forward(DAY);
    let id = engine.start(start("reminder")).await.unwrap().id;
    clock.forward(40 * DAY);
    for _ in 0..3 {
        engine.maintain().await.unwrap();
        clock.forward(40 * DAY);
    }
    assert_eq!(result(&view(&engine, id).await), json!([1, "done"]));
    assert!(view(&engine, unknown[0]).await.is_asleep());
    engine.add_flow(Definition::new("legacy", reminder));
    for _ in 0..2 {
        engine.maintain().await.unwrap();
    }
    for id in unknown {
        assert_eq!(result(&view(&engine, id).await), json!([1, "done"]));
    }
}

/// Any node wakes a session, each one once, also if the node that it was started on is gone.
#[tokio::test(flavor = "multi_thread")]
async fn any_node_wakes_a_session() {
    const SESSIONS: usize = 40;
    let store = SharedMemory::create();
    let (clock, woken) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let node = || {
        let woken = Arc::clone(&woken);
        let flow = move |flow: Flow, _: NoParams| {
            let woken = Arc::clone(&woken);
            async move {
                flow.sleep(DAY).await?;
                flow.step("wake", || async {
                    Ok::<_, String>(woken.fetch_add(1, Ordering::SeqCst))
                })
                .await
            }
        };
        let connection: Arc<dyn Store> = store.connect();
        Engine::builder(connection).clock(clock.clone()).flow(Definition::new("wake", flow)).start()
    };
    let (first, second, third) = (node(), node(), node());
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        ids.push(first.start(start("wake")).await.unwrap().id);
    }
    first.shutdown().await;
    clock.forward(DAY);
    for id in ids {
        let woken = async {
            let mut notices = second.subscribe(id, &me()).await.unwrap();
            while !matches!(view(&second, id).await.status, SessionStatus::Ended(_)) {
                notices.next().await;
            }
        };
        within("a session to wake", woken).await;
    }
    assert_eq!(woken.load(Ordering::SeqCst), SESSIONS);
    second.shutdown().await;
    third.shutdown().await;
}

/// A node wakes the sessions whose steps it runs, whichever node their ids belong to: only it may.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_wakes_the_sessions_it_works_on() {
    async fn hurries(flow: Flow, _: NoParams) -> FlowResult<bool> {
        let step = flow.step("slow", std::future::pending::<Result<(), String>>);
        Ok(flow.timeout(HOUR, step).await.is_err())
    }
    let (store, clock) = (SharedMemory::create(), ManualClock::new());
    let node = || {
        let connection: Arc<dyn Store> = store.connect();
        let engine = Engine::builder(connection).clock(clock.clone());
        engine.flow(Definition::new("hurries", hurries)).start()
    };
    let first = node();
    assert!(first.cluster().unwrap().joined().await);
    let second = node();
    assert!(second.cluster().unwrap().joined().await);
    // The first pass of a node looks at all sessions.
    second.maintain().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(second.start(start("hurries")).await.unwrap().id);
    }
    clock.forward(HOUR);
    second.maintain().await.unwrap();
    for id in ids {
        assert_eq!(result(&view(&second, id).await), json!(true));
    }
    within("the end of all tasks", join(first.shutdown(), second.shutdown())).await;
}

/// A short sleep in a token-carried session is waited for; during a long one nothing could wake it.
#[tokio::test]
async fn token_carried_sessions_sleep_only_within_a_request() {
    async fn naps(flow: Flow, _: NoParams) -> FlowResult<String> {
        let name = flow.ask("name", text("Name?")).await?;
        flow.sleep(Duration::from_millis(20)).await?;
        let long = flow.ask("long", text("Long?")).await?;
        if long == "yes" {
            flow.sleep(DAY).await?;
        }
        Ok(name)
    }
    let engine = builder(Arc::new(MemoryStore::new())).flow(Definition::new("naps", naps)).build();
    let sessions = ClientHeldSessions::new(&engine, KeyRing::new(Key::from_bytes([1; 32])));
    let (_, token) = sessions.start(start("naps")).await.unwrap();
    let (replied, token) = sessions.respond(&token, &me(), json!("Ada").into()).await.unwrap();
    assert_eq!(open(replied.view()).key, "long");
    let limit = Duration::from_secs(5);
    let refused = sessions.respond_within(limit, &token, &me(), json!("yes").into()).await;
    assert!(matches!(&refused, Err(EngineError::Timeout { operation }) if operation == "sleep"));
    let (replied, _) = sessions.respond(&token, &me(), json!("no").into()).await.unwrap();
    assert_eq!(result(replied.view()), json!("Ada"));
}
