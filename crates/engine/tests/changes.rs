//! Flows whose code changes while sessions are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_engine::{AnswerReply, Definition, Engine, EngineError, Flow, FlowResult};
use mcp_flow_session::question::{confirm, text};
use mcp_flow_session::store::{Filter, PageRequest};
use mcp_flow_session::{JournalEvent, MemoryStore, SessionId, State, Store};
use serde_json::{Value, json};

use super::support::{ManualClock, NoParams, answer, fault, me, no_linger, open, result, start};

async fn before(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let first = flow.ask("a", text("First?")).await?;
    let second = flow.ask("b", text("Second?")).await?;
    Ok(json!([first, second, flow.ask("c", text("Third?")).await?]))
}

fn engine_of(store: &Arc<MemoryStore>, definition: Definition) -> Engine {
    let store = Arc::clone(store) as Arc<dyn Store>;
    Engine::builder(store).flow(Definition::new("other", before)).flow(definition).build()
}

async fn try_answer(engine: &Engine, id: SessionId) -> Result<AnswerReply, EngineError> {
    engine.respond(id, &me(), json!("y").into()).await
}

/// A session whose flow was changed is set aside with both sides, keeps its question and its journal,
/// and goes on when the code fits again. Others are not affected.
#[tokio::test]
async fn sessions_of_changed_flows_are_set_aside() {
    async fn other_key(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("a", text("First?")).await?;
        flow.ask("x", text("Second?")).await?;
        Ok(())
    }
    async fn other_type(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("a", confirm("Changed?")).await?;
        Ok(())
    }
    async fn shorter(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("a", text("First?")).await?;
        Ok(())
    }
    async fn failing(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("a", text("First?")).await?;
        flow.decline("changed")
    }
    async fn panicking(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.ask("a", text("First?")).await?;
        panic!("a bad deployment")
    }
    async fn draws_more(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.set("drawn", flow.random())?;
        flow.sleep(Duration::from_secs(1)).await
    }
    let changes = [
        (
            Definition::new("f", other_key),
            "turn 1 had `b` (Text \"Second?\") before and has `x` (Text \"Second?\") now",
        ),
        (
            Definition::new("f", other_type),
            "turn 0 had `a` (Text \"First?\") before and has `a` (Confirm \"Changed?\") now",
        ),
        (
            Definition::new("f", shorter),
            "turn 1 had `b` (Text \"Second?\") before and has `` (the end)",
        ),
        (
            Definition::new("f", failing),
            "turn 1 had `b` (Text \"Second?\") before and has `` (the end)",
        ),
        (
            Definition::new("f", panicking),
            "turn 1 had `b` (Text \"Second?\") before and has `` (the end)",
        ),
        (
            Definition::new("f", draws_more),
            "turn 0 had `a` (Text \"First?\") before and has `sleep 1000 ms` (a timer) now",
        ),
    ];
    for (changed, expected) in changes {
        let store = Arc::new(MemoryStore::new());
        let engine = engine_of(&store, Definition::new("f", before));
        let id = engine.start(start("f")).await.unwrap().id;
        let cancelled = engine.start(start("f")).await.unwrap().id;
        let other = engine.start(start("other")).await.unwrap().id;
        for id in [id, cancelled, other] {
            answer(&engine, id, json!("x")).await;
        }
        let journal = store.read(id).await.unwrap();

        let engine = engine_of(&store, changed);
        let mut notices = engine.subscribe(id, &me()).await.unwrap();
        for id in [id, id, cancelled] {
            let stuck = try_answer(&engine, id).await;
            assert!(
                matches!(&stuck, Err(EngineError::Stuck(difference))
                    if difference.to_string().contains(expected)),
                "{stuck:?}"
            );
        }
        assert!(matches!(notices.next().await, Some(mcp_flow_engine::Notice::Stuck(_))));
        let view = engine.view(id, &me()).await.unwrap();
        assert_eq!((open(&view).key.as_str(), view.deadline), ("b", None));
        assert!(view.stuck.unwrap().to_string().contains(expected));
        let kept = store.read(id).await.unwrap();
        assert_eq!(kept[..journal.len()], journal);
        assert!(matches!(kept[journal.len()..], [JournalEvent::Stuck { .. }]), "{kept:?}");
        assert_eq!(open(&answer(&engine, other, json!("y")).await).key, "c");
        let ended = engine.cancel(cancelled, &me(), None).await.unwrap();
        assert_eq!((ended.state, ended.stuck), (State::Cancelled, None));

        let engine = engine_of(&store, Definition::new("f", before));
        let view = answer(&engine, id, json!("y")).await;
        assert_eq!((open(&view).key.as_str(), &view.stuck), ("c", &None));
        assert_eq!(result(&answer(&engine, id, json!("z")).await), json!(["x", "y", "z"]));
    }
}

/// A stuck session wakes by itself when the code fits again, and its timer fires late rather than
/// never. Maintenance of a program whose code does not fit tries it once.
#[tokio::test]
async fn stuck_sessions_go_on_with_code_that_fits() {
    async fn sleeps(flow: Flow, _: NoParams) -> FlowResult<&'static str> {
        flow.step("before", || async { Ok::<_, String>(()) }).await?;
        flow.sleep(Duration::from_secs(60)).await?;
        Ok("awake")
    }
    async fn changed(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.step("renamed", || async { Ok::<_, String>(()) }).await
    }
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let engine = |definition| {
        Engine::builder(Arc::clone(&store) as Arc<dyn Store>)
            .clock(clock.clone())
            .limits(no_linger())
            .flow(definition)
            .build()
    };
    let id = engine(Definition::new("f", sleeps)).start(start("f")).await.unwrap().id;
    let broken = engine(Definition::new("f", changed));
    clock.forward(Duration::from_secs(60));
    for _ in 0..2 {
        broken.maintain().await.unwrap();
    }
    let page = PageRequest { after: None, most: 10 };
    let listed = broken.list_all(Filter::default(), page).await.unwrap();
    assert_eq!(listed[0].summary.stuck.as_ref().unwrap().recorded_key, "before");
    assert_eq!(listed[0].summary.state, State::Processing);
    let waited = broken.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
    assert!(waited.stuck.is_some() && !waited.is_asleep());
    let length = store.read(id).await.unwrap().len();
    // A new version is loaded, and fits.
    broken.add_flow(Definition::new("f", sleeps));
    broken.maintain().await.unwrap();
    let events = store.read(id).await.unwrap();
    assert!(events.len() == 1, "{length} events became {events:?}");
    assert_eq!(result(&broken.view(id, &me()).await.unwrap()), json!("awake"));
}

/// A step that was renamed or removed is a difference, too: what it did is not done again.
#[tokio::test]
async fn renamed_steps_do_not_run_again() {
    async fn books(flow: Flow, key: &'static str, runs: Arc<AtomicUsize>) -> FlowResult<()> {
        let book = || async { Ok::<_, String>(runs.fetch_add(1, Ordering::SeqCst)) };
        if !key.is_empty() {
            flow.step(key, book).await?;
        }
        flow.ask("next", text("Next?")).await?;
        Ok(())
    }
    for (after, expected) in [
        ("book2", "turn 0 had `book` (a step) before and has `book2` (a step) now"),
        ("", "turn 0 had `book` (a step) before and has `next` (Text \"Next?\") now"),
    ] {
        let (store, runs) = (Arc::new(MemoryStore::new()), Arc::<AtomicUsize>::default());
        let engine = |key| {
            let runs = Arc::clone(&runs);
            let flow = move |flow: Flow, _: NoParams| books(flow, key, Arc::clone(&runs));
            engine_of(&store, Definition::new("f", flow))
        };
        let first = engine("book");
        let id = first.start(start("f")).await.unwrap().id;
        first.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
        let stuck = try_answer(&engine(after), id).await.unwrap_err();
        assert!(stuck.to_string().contains(expected), "{stuck}");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// The wording and the rules of questions may change while sessions wait with them.
#[tokio::test]
async fn questions_may_be_reworded() {
    async fn before(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let first = flow.ask("a", text("First?")).await?;
        Ok(json!([first, flow.ask("b", text("Second?").length(1..=3)).await?]))
    }
    async fn after(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let first = flow.ask("a", text("The first one?").length(5..=9)).await?;
        Ok(json!([first, flow.ask("b", text("And the second?").placeholder("two")).await?]))
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = Engine::builder(Arc::clone(&store)).flow(Definition::new("f", before)).build();
    let id = engine.start(start("f")).await.unwrap().id;
    answer(&engine, id, json!("x")).await;
    let engine = Engine::builder(store).flow(Definition::new("f", after)).build();
    assert_eq!(result(&answer(&engine, id, json!("y")).await), json!(["x", "y"]));
}

/// A change with a version is not seen by sessions that have passed its place, also when they are
/// replayed again; others see it. Code without a version that is in use sets its sessions aside.
#[tokio::test]
async fn versions_keep_old_sessions_as_they_are() {
    async fn changed(flow: Flow, range: std::ops::RangeInclusive<u32>) -> FlowResult<Value> {
        let first = flow.ask("a", text("First?")).await?;
        let mut versions = Vec::new();
        let mut more = None;
        for _ in 0..2 {
            let version = flow.version("one more", range.clone()).await?;
            if version >= 2 && more.is_none() {
                more = Some(flow.ask("more", text("More?")).await?);
            }
            versions.push(version);
        }
        let second = flow.ask("b", text("Second?")).await?;
        versions.push(flow.version("one more", range).await?);
        let third = flow.ask("c", text("Third?")).await?;
        Ok(json!([first, more, second, third, versions]))
    }
    let version = |range: std::ops::RangeInclusive<u32>| {
        Definition::new("f", move |flow: Flow, _: NoParams| changed(flow, range.clone()))
    };
    for limits in [no_linger(), mcp_flow_engine::SessionLimits::default()] {
        let store = Arc::new(MemoryStore::new());
        let engine = |definition| {
            let store = Arc::clone(&store) as Arc<dyn Store>;
            Engine::builder(store).flow(definition).limits(limits.clone()).build()
        };
        let old = engine(Definition::new("f", before));
        let passed = old.start(start("f")).await.unwrap().id;
        answer(&old, passed, json!("1")).await;
        let waiting = old.start(start("f")).await.unwrap().id;

        let new = engine(version(1..=2));
        let fresh = new.start(start("f")).await.unwrap().id;
        for (id, key) in [(passed, "c"), (waiting, "more"), (fresh, "more")] {
            assert_eq!(open(&answer(&new, id, json!("x")).await).key, key);
        }
        let newest = engine(version(2..=3));
        let stuck = try_answer(&newest, passed).await.unwrap_err().to_string();
        let expected = "had `one more` (version 1) before and has `one more` (versions 2 to 3) now";
        assert!(stuck.contains(expected), "{stuck}");
        for id in [waiting, fresh] {
            answer(&newest, id, json!("m")).await;
            answer(&newest, id, json!("y")).await;
            let end = result(&answer(&newest, id, json!("z")).await);
            assert_eq!(end, json!(["x", "m", "y", "z", [2, 2, 2]]));
        }
        let end = result(&answer(&engine(version(1..=3)), passed, json!("z")).await);
        assert_eq!(end, json!(["1", null, "x", "z", [1, 1, 1]]));
    }
    let empty =
        engine_of(&Arc::new(MemoryStore::new()), version(std::ops::RangeInclusive::new(2, 1)));
    let id = empty.start(start("f")).await.unwrap().id;
    assert!(fault(&answer(&empty, id, json!("x")).await).message.contains("an empty range"));
}

/// A history is checked against the code without running a step or changing anything; the error has
/// the position of the difference.
#[tokio::test]
async fn histories_are_checked_against_the_code() {
    let runs = Arc::<AtomicUsize>::default();
    let flow = |key: &'static str| {
        let runs = Arc::clone(&runs);
        Definition::new("f", move |flow: Flow, _: NoParams| {
            let runs = Arc::clone(&runs);
            async move {
                let name = flow.ask("name", text("Name?")).await?;
                flow.step(key, || async { Ok::<_, String>(runs.fetch_add(1, Ordering::SeqCst)) })
                    .await?;
                flow.sleep(Duration::from_secs(86_400)).await?;
                Ok(name)
            }
        })
    };
    let store = Arc::new(MemoryStore::new());
    let engine = engine_of(&store, flow("book"));
    let id = engine.start(start("f")).await.unwrap().id;
    answer(&engine, id, json!("Ada")).await;
    let view = engine.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
    assert!(view.is_asleep());
    let journal = store.read(id).await.unwrap();
    for length in 0..=journal.len() {
        engine.check_history(&journal[..length]).unwrap();
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let changed = engine_of(&store, flow("book2"));
    let failure = changed.check_history(&journal).unwrap_err().to_string();
    assert!(failure.starts_with("event 5: turn 1 had `book` (a step) before"), "{failure}");
    changed.check_history(&journal[..4]).unwrap();
    let mut edited = journal.clone();
    edited.swap(2, 3);
    let failure = engine.check_history(&edited).unwrap_err().to_string();
    assert!(failure.contains("event 2 does not follow"), "{failure}");
    let unknown = Engine::builder(Arc::clone(&store) as Arc<dyn Store>).build();
    assert!(unknown.check_history(&journal).unwrap_err().to_string().contains("no flow `f`"));
    assert_eq!((runs.load(Ordering::SeqCst), store.read(id).await.unwrap()), (1, journal));
    engine.cancel(id, &me(), None).await.unwrap();
    changed.check_history(&store.read(id).await.unwrap()).unwrap();
}
