//! Replays of random flows: any tree of steps, questions, timers, joins and races is replayed in the
//! order in which it ran.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use mcp_flow_engine::{Definition, Engine, Flow, FlowResult, SessionLimits, SessionStatus};
use mcp_flow_session::question::text;
use mcp_flow_session::{MemoryStore, Store};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::support::{ManualClock, NoParams, me, no_linger, start};

/// A part of a flow. All steps, questions, timers and signals have the same key.
#[derive(Clone, Debug)]
enum Part {
    Ask,
    Step,
    Sleep,
    Wait,
    Draw,
    Sequence(Vec<Part>),
    All(Vec<Part>),
    Race(Vec<Part>),
}

type Running<'a> = Pin<Box<dyn Future<Output = FlowResult<String>> + Send + 'a>>;

/// Runs a part, and returns what it did in which order.
fn run<'a>(part: &'a Part, flow: &'a Flow, gate: &'a Semaphore) -> Running<'a> {
    Box::pin(async move {
        let each = |parts: &'a [Part]| parts.iter().map(|part| run(part, flow, gate));
        Ok(match part {
            Part::Ask => format!("q{}", flow.ask("q", text("?")).await?),
            Part::Step => {
                let work = || async { gate.acquire().await.map(SemaphorePermit::forget) };
                flow.step("s", work).await?;
                "s".to_owned()
            }
            Part::Sleep => {
                flow.sleep(Duration::from_secs(1)).await?;
                "t".to_owned()
            }
            Part::Wait => format!("w{}", flow.wait_for::<u64>("w").await?),
            Part::Draw => format!("d{}", flow.random() % 10),
            Part::Sequence(parts) => {
                let mut done = Vec::new();
                for part in each(parts) {
                    done.push(part.await?);
                }
                format!("({})", done.join(" "))
            }
            Part::All(parts) => {
                let done: FlowResult<Vec<_>> = join_all(each(parts)).await.into_iter().collect();
                format!("[{}]", done?.join(" "))
            }
            Part::Race(parts) => {
                let (first, index, _) = select_all(each(parts)).await;
                format!("{index}:{}", first?)
            }
        })
    })
}

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn part(&mut self, depth: u32) -> Part {
        let kinds = if depth == 0 { 5 } else { 11 };
        match self.below(kinds) {
            0 => Part::Ask,
            1 => Part::Step,
            2 => Part::Sleep,
            3 => Part::Draw,
            4 => Part::Wait,
            5..=7 => Part::Sequence(self.parts(depth)),
            8 | 9 => Part::All(self.parts(depth)),
            _ => Part::Race(self.parts(depth)),
        }
    }

    fn parts(&mut self, depth: u32) -> Vec<Part> {
        (0..2 + self.below(2)).map(|_| self.part(depth - 1)).collect()
    }
}

/// Whatever happens in whichever order: each journal replays, and a flow that goes on from a replay
/// ends.
#[tokio::test]
async fn any_flow_is_replayed_in_the_order_in_which_it_ran() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let tree = Arc::new(random.part(4));
        let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
        let gate = Arc::new(Semaphore::new(0));
        let engine = |limits: SessionLimits| {
            let (tree, gate) = (Arc::clone(&tree), Arc::clone(&gate));
            let flow = move |flow: Flow, _: NoParams| {
                let (tree, gate) = (Arc::clone(&tree), Arc::clone(&gate));
                async move { run(&tree, &flow, &gate).await }
            };
            Engine::builder(Arc::clone(&store) as Arc<dyn Store>)
                .clock(clock.clone())
                .limits(SessionLimits { inactivity: None, duration: None, ..limits })
                .flow(Definition::new("tree", flow))
                .build()
        };
        let engine = engine(if seed % 2 == 0 { no_linger() } else { SessionLimits::default() });
        let id = engine.start(start("tree")).await.unwrap().id;
        let mut events = 0;
        while !matches!(engine.view(id, &me()).await.unwrap().status, SessionStatus::Ended(_)) {
            events += 1;
            assert!(events < 1_000, "seed {seed} does not end: {tree:?}");
            match random.below(4) {
                0 => gate.add_permits(1),
                // Early ones are kept, and not every type fits.
                1 => {
                    let value = if random.below(4) == 0 { json!("no") } else { json!(events) };
                    drop(engine.signal(id, &me(), "w", value).await);
                }
                2 => clock.forward(Duration::from_millis(500 + random.below(1_000))),
                // It may not be waiting.
                _ => drop(engine.respond(id, &me(), json!(events.to_string()).into()).await),
            }
            engine.maintain().await.unwrap();
            // Steps are driven by tasks on this thread.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let journal = store.read(id).await.unwrap();
            let checked = engine.check_history(&journal);
            let recorded: Vec<_> = journal.iter().map(|event| format!("{event:?}")).collect();
            assert!(checked.is_ok(), "seed {seed}: {checked:?}\n{tree:?}\n{}", recorded.join("\n"));
        }
        let view = engine.view(id, &me()).await.unwrap();
        assert_eq!(view.state, mcp_flow_session::State::Completed, "seed {seed}: {view:?}");
        engine.shutdown().await;
    }
}
