//! Several nodes on one store: takeover, fencing, self-fencing, forwarded answers, and a model test
//! with random faults.

mod drain;
mod stalled;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{
    AnswerReply, Clock, Definition, Engine, EngineError, Flow, FlowResult, Notice, SessionStatus,
    SystemClock, View,
};
use mcp_flow_session::question::text;
use mcp_flow_session::store::SharedStore;
use mcp_flow_session::{Epoch, SessionId, Store, StoreError};
use mcp_flow_testkit_store::{Mutation, SharedConnection, SharedMemory};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::support::{ManualClock, NoParams, me, open, result, start, within};

/// Effects of steps, in their order.
type Effects = Arc<Mutex<Vec<Effect>>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Effect {
    /// Idempotency key of the step: session, key and number.
    step: String,
    node: usize,
    what: What,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Begun,
    /// The step is still running.
    Tick,
    Done,
}

/// A node of a test.
struct TestNode {
    engine: Engine,
    connection: Arc<SharedConnection>,
}

fn node(store: &Arc<SharedMemory>, number: usize, effects: &Effects) -> TestNode {
    node_at(store, number, effects, Arc::new(SystemClock))
}

fn node_at(
    store: &Arc<SharedMemory>,
    number: usize,
    effects: &Effects,
    clock: Arc<dyn Clock>,
) -> TestNode {
    let connection = store.connect();
    let effects = Arc::clone(effects);
    let ledger = move |flow: Flow, _: NoParams| ledger(flow, number, Arc::clone(&effects));
    let engine = Engine::builder(Arc::clone(&connection) as Arc<dyn Store>)
        .flow(Definition::new("ledger", ledger))
        .flow(Definition::new("beside", beside))
        .clock(clock)
        .start();
    TestNode { engine, connection }
}

/// Asks for lines until one is `end`, and works on each of them for a while.
async fn ledger(flow: Flow, node: usize, effects: Effects) -> FlowResult<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let line = flow.ask("line", text("Line?")).await?;
        if line == "end" {
            return Ok(lines);
        }
        let written: String = flow
            .step_with_key("write", async |step: String| {
                let note = |what| {
                    let (step, at) = (step.clone(), Instant::now());
                    effects.lock().push(Effect { step, node, what, at });
                };
                note(What::Begun);
                for _ in 0..4 {
                    sleep(Duration::from_millis(50)).await;
                    note(What::Tick);
                }
                note(What::Done);
                Ok::<_, String>(line.clone())
            })
            .await?;
        lines.push(written);
    }
}

/// Asks while a step runs in another branch, until it is answered.
async fn beside(flow: Flow, _: NoParams) -> FlowResult<String> {
    let (told, tell) = tokio::sync::watch::channel(false);
    let work = flow.step("work", async || {
        let mut tell = tell.clone();
        let _ = tell.wait_for(|told| *told).await;
        Ok::<_, String>("worked".to_owned())
    });
    let ask = async {
        let answer = flow.ask("stop", text("Stop?")).await;
        let _ = told.send(true);
        answer
    };
    let (worked, answer) = tokio::join!(work, ask);
    Ok(format!("{}, {}", worked?, answer?))
}

/// A session that one node works on continues on another after the first is gone.
#[tokio::test(start_paused = true)]
async fn another_node_takes_over() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("ledger")).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Begun, 1).await;
    one.connection.cut(true);
    let cut = Instant::now();
    wait_for(&effects, What::Begun, 2).await;
    let effects = effects.lock().clone();
    assert_eq!(effects.iter().filter(|effect| effect.what == What::Begun).count(), 2);
    assert_eq!(effects.last().unwrap().node, 2);
    assert!(cut.elapsed() < Duration::from_secs(2), "it took {:?}", cut.elapsed());
    let view = two.engine.wait(view.id, &me(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(open(&view).key, "line");
    // The node that was cut off replies neither from memory nor with a lost session.
    let refused = one.engine.view(view.id, &me()).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    one.connection.cut(false);
    let seen = within("the node to be back", async {
        loop {
            match one.engine.respond(view.id, &me(), json!("end").into()).await {
                Ok(AnswerReply::Accepted(view)) => return view,
                Err(EngineError::Store(_)) => sleep(Duration::from_millis(100)).await,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(result(&seen), json!(["first"]));
}

/// A node that leaves gives its sessions back at once.
#[tokio::test(start_paused = true)]
async fn a_node_that_shuts_down_hands_over() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("ledger")).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Begun, 1).await;
    let left = Instant::now();
    one.engine.shutdown().await;
    wait_for(&effects, What::Done, 1).await;
    assert!(left.elapsed() < Duration::from_millis(1000), "it took {:?}", left.elapsed());
    assert_eq!(two.engine.nodes().await.unwrap().len(), 1);
}

/// Every node sees what was acknowledged by another, and takes the next answer.
#[tokio::test(start_paused = true)]
async fn no_node_replies_from_outdated_memory() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let nodes = [node(&store, 0, &effects), node(&store, 1, &effects), node(&store, 2, &effects)];
    let view = nodes[0].engine.start(start("ledger")).await.unwrap();
    for turn in 0..12_u32 {
        // Has the session in memory, soon outdated.
        for node in &nodes {
            let view = settled(&node.engine, view.id).await;
            assert_eq!(open(&view).turn, turn);
        }
        let node = &nodes[turn as usize % 3];
        let answer = mcp_flow_engine::AnswerRequest::from(json!(format!("line {turn}")));
        let reply = node.engine.respond(view.id, &me(), answer.clone().for_turn(turn)).await;
        assert!(matches!(reply, Ok(AnswerReply::Accepted(_))), "{reply:?}");
        // A retry at another node is not a second answer.
        let other = &nodes[(turn as usize + 1) % 3];
        let reply = other.engine.respond(view.id, &me(), answer.for_turn(turn)).await;
        assert!(matches!(reply, Ok(AnswerReply::Repeated(_))), "{reply:?}");
    }
    let cancelled = nodes[1].engine.cancel(view.id, &me(), None).await.unwrap();
    for node in &nodes {
        assert_eq!(node.engine.view(view.id, &me()).await.unwrap().status, cancelled.status);
        let again = node.engine.cancel(view.id, &me(), None).await;
        assert!(matches!(again, Err(EngineError::AlreadyCancelled)), "{again:?}");
    }
}

/// The result of an ended session is read from the store once: no node can change it. Once its
/// tombstone may be erased, the store is asked again.
#[tokio::test(start_paused = true)]
async fn results_are_polled_in_memory() {
    let (store, effects, clock) = (SharedMemory::create(), Effects::default(), ManualClock::new());
    let node = |number| node_at(&store, number, &effects, Arc::clone(&clock) as Arc<dyn Clock>);
    let (one, two) = (node(1), node(2));
    let view = one.engine.start(start("ledger")).await.unwrap();
    let ended = one.engine.cancel(view.id, &me(), None).await.unwrap();
    assert_eq!(two.engine.view(view.id, &me()).await.unwrap().status, ended.status);
    for node in [&one, &two] {
        node.connection.cut(true);
        assert_eq!(node.engine.view(view.id, &me()).await.unwrap().status, ended.status);
        node.connection.cut(false);
    }
    one.connection.erase(view.id).await.unwrap();
    clock.forward(one.engine.limits().bounds.retention);
    let erased = two.engine.view(view.id, &me()).await;
    assert!(matches!(erased, Err(EngineError::NotFound)), "{erased:?}");
}

/// An answer to a session whose step runs on another node is passed to that node.
#[tokio::test(start_paused = true)]
async fn answers_are_forwarded_to_the_holder() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("beside")).await.unwrap();
    let holder = two.connection.head(view.id).await.unwrap().unwrap().holder;
    assert_eq!(holder, one.engine.epoch());
    let reply = two.engine.respond(view.id, &me(), json!("yes").into()).await.unwrap();
    assert!(matches!(reply, AnswerReply::Accepted(_)), "{reply:?}");
    let view = settled(&two.engine, view.id).await;
    assert_eq!(result(&view), json!("worked, yes"));
}

/// A session that another node works on can be cancelled anywhere; its step is dropped.
#[tokio::test(start_paused = true)]
async fn any_node_can_cancel() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("ledger")).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Tick, 1).await;
    two.engine.cancel(view.id, &me(), None).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert!(!effects.lock().iter().any(|effect| effect.what == What::Done));
}

/// A subscriber of one node hears of what another does.
#[tokio::test(start_paused = true)]
async fn subscribers_hear_of_other_nodes() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("ledger")).await.unwrap();
    settled(&two.engine, view.id).await;
    // Joined, and so listening.
    within("the second node to join", async {
        while two.engine.epoch().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let mut subscription = two.engine.subscribe(view.id, &me()).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    let heard = within("the next question", async {
        loop {
            match subscription.next().await {
                Some(Notice::Asked(open)) if open.turn == 1 => return open.key,
                Some(_) => {}
                None => panic!("the subscription has ended"),
            }
        }
    })
    .await;
    assert_eq!(heard, "line");
}

/// Any schedule of faults keeps the promises. On a store that breaks its contract the same schedules
/// would break them, and this test would notice.
#[tokio::test(start_paused = true)]
async fn random_faults_keep_the_promises() {
    for seed in 0..SEEDS {
        let found = simulate(seed, None).await;
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
    for mutation in [Mutation::ShortLeases, Mutation::StaleHeads, Mutation::GreedyClaims] {
        let mut seed = 0;
        while simulate(seed, Some(mutation)).await.is_empty() {
            seed += 1;
            assert!(seed < SEEDS, "the checker does not notice {mutation:?}");
        }
    }
}

/// Runs sessions against nodes that are cut off at random, and returns the broken promises.
async fn simulate(seed: u64, mutation: Option<Mutation>) -> Vec<String> {
    let (store, effects) = (SharedMemory::mutated(mutation), Effects::default());
    let nodes: Arc<Vec<_>> =
        Arc::new((0..3).map(|number| node(&store, number, &effects)).collect());
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut sessions = tokio::task::JoinSet::new();
    for number in 0..4 {
        let (nodes, random) = (Arc::clone(&nodes), Random(random.next() | 1));
        sessions.spawn(async move { converse(&nodes, random, number).await });
    }
    let faults = {
        let nodes = Arc::clone(&nodes);
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..6 {
                sleep(Duration::from_millis(random.below(900))).await;
                let node = &nodes[random.index(3)];
                times.push(Instant::now());
                node.connection.cut(true);
                // Shorter than the lease, or longer.
                sleep(Duration::from_millis(random.below(3_000))).await;
                node.connection.cut(false);
            }
            times
        })
    };
    let ended = tokio::time::timeout(Duration::from_secs(600), sessions.join_all()).await;
    let Ok(done) = ended else { return vec!["the sessions have not ended".to_owned()] };
    let faults = faults.await.unwrap();
    for node in nodes.iter() {
        node.engine.shutdown().await;
    }
    check(&effects.lock(), &faults, done)
}

/// A session that has ended.
struct EndedSession {
    lines: Vec<String>,
    result: Value,
    /// Views that show an earlier turn than a reply before them.
    stale: Vec<String>,
}

/// One session: sends each line to a random node until one has accepted it, then looks at it
/// on another.
async fn converse(nodes: &[TestNode], mut random: Random, number: usize) -> EndedSession {
    let mut stale = Vec::new();
    let lines: Vec<_> = (0..4).map(|line| format!("{number}.{line}")).collect();
    let id = loop {
        match nodes[random.index(3)].engine.start(start("ledger")).await {
            Ok(view) => break view.id,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    for (turn, line) in (0_u32..).zip(lines.iter().map(String::as_str).chain(["end"])) {
        loop {
            let answer = mcp_flow_engine::AnswerRequest::from(json!(line)).for_turn(turn);
            let reply = nodes[random.index(3)].engine.respond(id, &me(), answer).await;
            if matches!(reply, Ok(AnswerReply::Accepted(_) | AnswerReply::Repeated(_))) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        if let Ok(view) = nodes[random.index(3)].engine.view(id, &me()).await
            && let SessionStatus::Waiting(_) = view.status
            && open(&view).turn <= turn
        {
            stale.push(format!("turn {turn} was answered, and then still open"));
        }
    }
    loop {
        if let Ok(view) = nodes[random.index(3)].engine.view(id, &me()).await
            && let SessionStatus::Ended(_) = view.status
        {
            return EndedSession { lines, result: result(&view), stale };
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the promises that were broken.
fn check(effects: &[Effect], faults: &[Instant], done: Vec<EndedSession>) -> Vec<String> {
    let mut broken = Vec::new();
    for EndedSession { lines, result, stale } in done {
        broken.extend(stale);
        if json!(lines) != result {
            broken.push(format!("said {lines:?}, but the result is {result}"));
        }
    }
    let mut steps = BTreeMap::<&str, Vec<&Effect>>::new();
    for effect in effects {
        steps.entry(&effect.step).or_default().push(effect);
    }
    for (step, effects) in steps {
        let begun: Vec<_> = effects.iter().filter(|effect| effect.what == What::Begun).collect();
        for pair in begun.windows(2) {
            let is_after_fault =
                faults.iter().any(|fault| *fault <= pair[1].at && *fault + OUTAGE >= pair[0].at);
            if !is_after_fault {
                broken.push(format!("{step} was begun twice without a fault"));
            }
        }
        let mut current = None;
        let mut gone = BTreeSet::new();
        for effect in effects {
            if effect.what == What::Begun {
                gone.extend(current.replace(effect.node));
                gone.remove(&effect.node);
            } else if current != Some(effect.node) && gone.contains(&effect.node) {
                broken.push(format!("{step} ran on node {} after another began it", effect.node));
            }
        }
    }
    broken
}

async fn wait_for(effects: &Effects, what: What, count: usize) {
    within("an effect", async {
        while effects.lock().iter().filter(|effect| effect.what == what).count() < count {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits until the flow of a session does not work any more.
async fn settled(engine: &Engine, id: SessionId) -> View {
    within("the flow to wait", async {
        loop {
            let view = engine.wait(id, &me(), Duration::from_secs(1)).await.unwrap();
            if !matches!(view.status, SessionStatus::Working(_)) {
                return view;
            }
        }
    })
    .await
}

/// Deterministic random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }

    fn index(&mut self, bound: u64) -> usize {
        usize::try_from(self.below(bound)).unwrap()
    }
}

/// Longest time for which a fault has consequences.
const OUTAGE: Duration = Duration::from_secs(6);

const SEEDS: u64 = 40;

/// Epochs are ordered, so that they can serve as fencing tokens.
#[test]
fn epochs_rise() {
    assert!(Epoch::NONE < Epoch::new(1) && Epoch::new(1) < Epoch::new(2));
}
