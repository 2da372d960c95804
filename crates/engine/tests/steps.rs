//! Steps: retries, timeouts, causes of errors, and concurrent branches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcp_flow_engine::{Definition, Engine, Flow, FlowResult, Retry, SessionLimits, View};
use mcp_flow_session::event::{FaultName, StepFailure};
use mcp_flow_session::question::text;
use mcp_flow_session::{JournalEvent, MemoryStore, SessionId, Store};
use serde_json::{Value, json};

use super::support::{
    CrashStore, ManualClock, NoParams, answer, builder, fault, me, no_linger, open, result, start,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Less than a retry waits, so that a sleeping session is not waited for.
const PROMPTLY: Duration = Duration::from_secs(5);

/// Error with causes.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the bank is closed")]
    Closed(#[source] io::Error),
    #[error("the card was declined")]
    Declined,
}

fn closed() -> Trouble {
    Trouble::Closed(io::Error::other("connection refused"))
}

async fn view(engine: &Engine, id: SessionId) -> View {
    engine.view(id, &me()).await.unwrap()
}

/// A flow with one step that fails a number of times, and counts its runs.
fn charging(runs: &Arc<AtomicU32>, failures: u32) -> Definition {
    let runs = Arc::clone(runs);
    Definition::new("charge", move |flow: Flow, _: NoParams| {
        let runs = Arc::clone(&runs);
        async move {
            let retry = Retry::exponential(5)
                .initial(Duration::from_secs(10))
                .max(Duration::from_secs(30))
                .unless(|error| matches!(error.downcast_ref(), Some(Trouble::Declined)));
            let step = flow.step_with_key("charge", |key| {
                let run = runs.fetch_add(1, Ordering::SeqCst);
                async move { if run < failures { Err(closed()) } else { Ok(key) } }
            });
            let key = step.retry(retry).await?;
            let name = flow.ask("name", text("Name?")).await?;
            Ok(json!([key.rsplit('/').next(), name]))
        }
    })
}

/// A step runs again after it failed, waits longer each time, and sleeps in between; each failure is
/// in the journal with its causes.
#[tokio::test]
async fn failed_steps_run_again() {
    for limits in [no_linger(), SessionLimits::default()] {
        let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
        let runs = Arc::<AtomicU32>::default();
        let engine = builder(Arc::clone(&store) as Arc<dyn Store>)
            .clock(clock.clone())
            .limits(limits)
            .flow(charging(&runs, 4))
            .build();
        let id = engine.start(start("charge")).await.unwrap().id;
        for (attempt, seconds) in [(1, 10), (2, 20), (3, 30), (4, 30)] {
            let sleeping = engine.wait(id, &me(), PROMPTLY).await.unwrap();
            assert!(sleeping.is_asleep(), "{sleeping:?}");
            assert_eq!(runs.load(Ordering::SeqCst), attempt);
            let wait = sleeping.wakes.unwrap().since(sleeping.touched);
            let longest = Duration::from_secs(seconds);
            assert!(wait <= longest && wait >= longest.mul_f64(0.9), "{attempt}: {wait:?}");
            clock.forward(longest);
            engine.maintain().await.unwrap();
        }
        assert_eq!(open(&view(&engine, id).await).key, "name");
        let recorded = store.read(id).await.unwrap();
        let failures: Vec<_> = recorded
            .iter()
            .filter_map(|event| match event {
                JournalEvent::StepFailed { attempt, failure, .. } => Some((*attempt, failure)),
                _ => None,
            })
            .collect();
        assert_eq!(failures.len(), 4);
        let causes = vec!["connection refused".to_owned()];
        let first = StepFailure { message: "the bank is closed".to_owned(), causes };
        assert_eq!(failures[0], (1, &first));
        engine.check_history(&recorded).unwrap();
        assert_eq!(result(&answer(&engine, id, json!("Ada")).await), json!(["1", "Ada"]));
        assert_eq!(runs.load(Ordering::SeqCst), 5);
        engine.shutdown().await;
    }
}

/// The last failure is that of the flow, with its causes; errors that are final are not tried again,
/// and a policy without end has one.
#[tokio::test]
async fn retries_end() {
    type Fails = fn() -> Trouble;
    let cases: [(Fails, Retry, u32); 4] = [
        (closed, Retry::fixed(3).initial(DAY), 3),
        (
            || Trouble::Declined,
            Retry::fixed(3).initial(DAY).unless(|error| error.chain().count() == 1),
            1,
        ),
        (closed, Retry::fixed(0), 1),
        (closed, Retry::exponential(u32::MAX).initial(Duration::MAX).max(Duration::MAX), 100),
    ];
    for (fails, retry, attempts) in cases {
        let clock = ManualClock::new();
        let runs = Arc::<AtomicU32>::default();
        let counted = Arc::clone(&runs);
        let flow = move |flow: Flow, _: NoParams| {
            let (counted, retry) = (Arc::clone(&counted), retry.clone());
            async move {
                let step = flow.step("pay", || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    async { Err::<(), _>(fails()) }
                });
                step.retry(retry).await
            }
        };
        let limits = SessionLimits { duration: None, ..no_linger() };
        let engine = builder(Arc::new(MemoryStore::new()))
            .clock(clock.clone())
            .limits(limits)
            .flow(Definition::new("pay", flow))
            .build();
        let id = engine.start(start("pay")).await.unwrap().id;
        let end = loop {
            let view = engine.wait(id, &me(), PROMPTLY).await.unwrap();
            if !view.is_asleep() {
                break view;
            }
            clock.forward(view.wakes.unwrap().since(view.touched));
            engine.maintain().await.unwrap();
        };
        assert_eq!(runs.load(Ordering::SeqCst), attempts);
        let expected = format!("step `pay` failed: {}", fails());
        assert_eq!(fault(&end).message, expected);
        let has_cause = matches!(fails(), Trouble::Closed(_));
        assert_eq!(!fault(&end).causes.is_empty(), has_cause, "{:?}", fault(&end));
        engine.shutdown().await;
    }
}

/// A process that is killed at any append loses no attempt, and makes none that was not needed.
#[tokio::test]
async fn retries_survive_a_crash_at_every_append() {
    for writes in 0..8 {
        let (kept, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
        let runs = Arc::<AtomicU32>::default();
        let crashing = builder(CrashStore::stopping_after(&kept, writes))
            .clock(clock.clone())
            .flow(charging(&runs, 2))
            .build();
        let started = crashing.start(start("charge")).await;
        for _ in 0..4 {
            clock.forward(Duration::from_secs(30));
            let _ = crashing.maintain().await;
        }
        crashing.shutdown().await;
        let Ok(started) = started else { continue };
        let next = builder(Arc::clone(&kept) as Arc<dyn Store>)
            .clock(clock.clone())
            .flow(charging(&runs, 2))
            .start();
        let mut view = next.wait(started.id, &me(), PROMPTLY).await.unwrap();
        while view.is_asleep() {
            clock.forward(Duration::from_secs(30));
            next.maintain().await.unwrap();
            view = next.wait(started.id, &me(), PROMPTLY).await.unwrap();
        }
        assert_eq!(open(&view).key, "name", "after {writes} writes");
        // An attempt whose end was not recorded is made again, under the same number.
        let recorded = kept.read(started.id).await.unwrap();
        let attempts = recorded.iter().filter_map(|event| match event {
            JournalEvent::StepFailed { attempt, .. } => Some(*attempt),
            _ => None,
        });
        let attempts: Vec<_> = attempts.collect();
        assert!([&[][..], &[1], &[1, 2]].contains(&&attempts[..]), "{attempts:?}");
        next.shutdown().await;
    }
}

/// An attempt that takes longer than its timeout has failed; a timeout may be longer than that of
/// other operations.
#[tokio::test(start_paused = true)]
async fn steps_time_out() {
    async fn slow(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let hangs = flow.step("hangs", std::future::pending::<io::Result<()>>);
        let error = hangs.timeout(Duration::from_secs(2)).await.unwrap_err();
        let long = flow.step("long", || async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok::<_, io::Error>("done".to_owned())
        });
        let long = long.timeout(Duration::from_secs(1_000)).await?;
        Ok(json!([error.to_string(), long]))
    }
    async fn too_slow(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.step("hangs", std::future::pending::<io::Result<()>>).await
    }
    let engine = builder(Arc::new(MemoryStore::new()))
        .flow(Definition::new("slow", slow))
        .flow(Definition::new("too_slow", too_slow))
        .build();
    let id = engine.start(start("slow")).await.unwrap().id;
    let end = engine.wait(id, &me(), Duration::from_secs(2_000)).await.unwrap();
    assert_eq!(result(&end), json!(["step `hangs` failed: it took longer than 2 s", "done"]));
    let id = engine.start(start("too_slow")).await.unwrap().id;
    let end = engine.wait(id, &me(), Duration::from_secs(2_000)).await.unwrap();
    assert_eq!(fault(&end).name, FaultName::Timeout);
    engine.shutdown().await;
}

/// All branches run at once; their results come in their order. A race has one winner, also when it
/// is replayed, and what the others asked is withdrawn. The first error ends both.
#[tokio::test]
async fn branches_run_concurrently() {
    async fn branches(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let both = flow.all(["a", "b"].map(|key| flow.ask(key, text("?")))).await?;
        let winner = flow.race(["c", "d"].map(|key| {
            let flow = &flow;
            async move {
                flow.sleep(Duration::from_secs(u64::from(key == "c"))).await?;
                Ok(format!("{key}: {}", flow.ask(key, text("?")).await?))
            }
        }));
        let winner = winner.await?;
        let failed = flow.all([true, false].map(|fails| {
            let flow = &flow;
            async move {
                if fails {
                    return flow.step("fails", || async { Err::<String, _>("broken") }).await;
                }
                flow.ask("never", text("?")).await
            }
        }));
        let failed = failed.await.unwrap_err().to_string();
        let last = flow.ask("last", text("?")).await?;
        Ok(json!([both, winner, failed, last]))
    }
    async fn none(flow: Flow, _: NoParams) -> FlowResult<Vec<String>> {
        let all = flow.all(Vec::<std::future::Ready<FlowResult<String>>>::new()).await?;
        assert!(all.is_empty());
        flow.race(Vec::<std::future::Ready<FlowResult<Vec<String>>>>::new()).await
    }
    for limits in [no_linger(), SessionLimits::default()] {
        let store = Arc::new(MemoryStore::new());
        let engine = builder(Arc::clone(&store) as Arc<dyn Store>)
            .limits(limits)
            .flow(Definition::new("branches", branches))
            .flow(Definition::new("none", none))
            .build();
        let started = engine.start(start("branches")).await.unwrap();
        let keys: Vec<_> = started.questions().map(|question| question.key.clone()).collect();
        assert_eq!(keys, ["a", "b"]);
        for value in ["1", "2", "3"] {
            answer(&engine, started.id, json!(value)).await;
        }
        let view = engine.wait(started.id, &me(), Duration::from_secs(60)).await.unwrap();
        assert_eq!(open(&view).key, "last");
        let journal = store.read(started.id).await.unwrap();
        for length in 0..=journal.len() {
            engine.check_history(&journal[..length]).unwrap();
        }
        let end = result(&answer(&engine, started.id, json!("x")).await);
        assert_eq!(end, json!([["1", "2"], "d: 3", "step `fails` failed: broken", "x"]));
        let end = engine.start(start("none")).await.unwrap();
        assert_eq!(fault(&end).message, "a race has no branches");
        engine.shutdown().await;
    }
}
