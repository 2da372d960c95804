//! Faults after which a node would not know that there is work: it relies on what the store has, not
//! on its memory.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{AnswerReply, Definition, Engine, EngineError, Flow, FlowResult};
use mcp_flow_session::question::text;
use mcp_flow_session::{Store, StoreError};
use mcp_flow_testkit_store::SharedMemory;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{Effects, TestNode, What, beside, node, settled, wait_for};
use crate::support::{ManualClock, NoParams, me, result, start, within};

/// A node works on a session whose append reached the store after the node had given up on it.
#[tokio::test(start_paused = true)]
async fn a_late_append_stalls_nothing() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let TestNode { engine, connection } = node(&store, 1, &effects);
    let view = engine.start(start("ledger")).await.unwrap();
    connection.hold_up(true);
    let lost = engine.respond(view.id, &me(), json!("first").into()).await;
    assert!(matches!(lost, Err(EngineError::Store(StoreError::Unavailable(_)))), "{lost:?}");
    // Maintenance loads the session before the append arrives.
    sleep(Duration::from_secs(1)).await;
    connection.hold_up(false);
    let arrived = Instant::now();
    wait_for(&effects, What::Done, 1).await;
    assert!(arrived.elapsed() < Duration::from_secs(5), "it took {:?}", arrived.elapsed());
    let seen = within("the session to continue", async {
        loop {
            let reply = engine.respond(view.id, &me(), json!("end").into()).await;
            if let Ok(AnswerReply::Accepted(view)) = reply {
                return view;
            }
            sleep(Duration::from_millis(25)).await;
        }
    })
    .await;
    assert_eq!(result(&seen), json!(["first"]));
}

/// A caller that goes away while the node waits for its lease leaves nothing behind in memory.
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_during_an_outage_stalls_nothing() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let TestNode { engine, connection } = node(&store, 1, &effects);
    let view = engine.start(start("ledger")).await.unwrap();
    connection.cut(true);
    // The lease cannot be relied on any more, and may still be renewed.
    sleep(Duration::from_millis(950)).await;
    let owner = me();
    let respond = engine.respond(view.id, &owner, json!("first").into());
    assert!(timeout(Duration::from_millis(50), respond).await.is_err());
    connection.cut(false);
    within("the answer to be accepted", async {
        loop {
            match engine.respond(view.id, &me(), json!("first").into()).await {
                Ok(AnswerReply::Accepted(_)) => return,
                Err(EngineError::Store(_)) => sleep(Duration::from_millis(25)).await,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    wait_for(&effects, What::Done, 1).await;
}

/// A node takes over a session that it has in memory, older than what the dead node wrote.
#[tokio::test(start_paused = true)]
async fn outdated_memory_delays_no_takeover() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = two.engine.start(start("ledger")).await.unwrap();
    one.connection.mute(true);
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Begun, 1).await;
    one.connection.cut(true);
    let cut = Instant::now();
    wait_for(&effects, What::Begun, 2).await;
    assert!(cut.elapsed() < Duration::from_secs(2), "it took {:?}", cut.elapsed());
    settled(&two.engine, view.id).await;
}

/// A node wakes a session that sleeps, though it remembers a question that another has answered.
#[tokio::test(start_paused = true)]
async fn outdated_memory_delays_no_timer() {
    async fn nap(flow: Flow, _: NoParams) -> FlowResult<bool> {
        flow.ask("ready", text("Ready?")).await?;
        flow.sleep(Duration::from_secs(60)).await?;
        Ok(true)
    }
    let (store, clock) = (SharedMemory::create(), ManualClock::new());
    let connections = [store.connect(), store.connect()];
    let [one, two] = connections.each_ref().map(|connection| {
        Engine::builder(Arc::clone(connection) as Arc<dyn Store>)
            .flow(Definition::new("nap", nap))
            .clock(clock.clone())
            .start()
    });
    let view = two.start(start("nap")).await.unwrap();
    connections[0].mute(true);
    one.respond(view.id, &me(), json!("yes").into()).await.unwrap();
    connections[0].cut(true);
    // The node that is left is alone.
    sleep(Duration::from_secs(5)).await;
    clock.forward(Duration::from_secs(61));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(result(&two.view(view.id, &me()).await.unwrap()), json!(true));
}

/// A node leaves a session whose flow it does not have to those that have it.
#[tokio::test(start_paused = true)]
async fn sessions_of_unknown_flows_are_left_to_other_nodes() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let one = node(&store, 1, &effects);
    let without = Engine::builder(store.connect() as Arc<dyn Store>)
        .flow(Definition::new("beside", beside))
        .start();
    let view = one.engine.start(start("ledger")).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Begun, 1).await;
    one.connection.cut(true);
    // It has found that it cannot resume the session.
    sleep(Duration::from_secs(5)).await;
    let three = node(&store, 3, &effects);
    let joined = Instant::now();
    wait_for(&effects, What::Begun, 2).await;
    assert!(joined.elapsed() < Duration::from_secs(2), "it took {:?}", joined.elapsed());
    settled(&three.engine, view.id).await;
    assert_eq!(without.nodes().await.unwrap().len(), 2);
    // It has the other node answer.
    let replied = without.respond(view.id, &me(), json!("end").into()).await;
    let Ok(AnswerReply::Accepted(ended)) = replied else { panic!("{replied:?}") };
    assert_eq!(result(&ended), json!(["first"]));
    let unknown = without.start(start("ledger")).await;
    assert!(matches!(unknown, Err(EngineError::UnknownFlow(_))), "{unknown:?}");
}
