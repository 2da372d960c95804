//! Planned stops of a node, after which no step runs twice.

use std::time::Duration;

use mcp_flow_engine::EngineError;
use mcp_flow_testkit_store::SharedMemory;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Effects, What, node, settled, wait_for};
use crate::support::{me, open, start};

/// A node that drains finishes the step in progress and begins nothing else. Another node continues
/// when it has left.
#[tokio::test(start_paused = true)]
async fn a_drained_node_leaves_no_step_unfinished() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("ledger")).await.unwrap();
    let waiting = one.engine.start(start("ledger")).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Begun, 1).await;
    let began = Instant::now();
    one.engine.drain(Duration::from_secs(30)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    for refused in [
        one.engine.start(start("ledger")).await.map(drop),
        one.engine.respond(waiting.id, &me(), json!("x").into()).await.map(drop),
        one.engine.cancel(waiting.id, &me(), None).await.map(drop),
    ] {
        assert!(matches!(refused, Err(EngineError::ShuttingDown)), "{refused:?}");
    }
    one.engine.shutdown().await;
    assert_eq!(open(&settled(&two.engine, view.id).await).turn, 1);
    sleep(Duration::from_secs(5)).await;
    let effects = effects.lock().clone();
    let begun: Vec<_> = effects.iter().filter(|effect| effect.what == What::Begun).collect();
    assert_eq!(begun.iter().map(|effect| effect.node).collect::<Vec<_>>(), [1]);
    assert!(effects.iter().any(|effect| effect.what == What::Done && effect.node == 1));
}

/// A step that does not end in time is interrupted, and runs again on another node.
#[tokio::test(start_paused = true)]
async fn draining_has_a_time_limit() {
    let (store, effects) = (SharedMemory::create(), Effects::default());
    let (one, two) = (node(&store, 1, &effects), node(&store, 2, &effects));
    let view = one.engine.start(start("ledger")).await.unwrap();
    one.engine.respond(view.id, &me(), json!("first").into()).await.unwrap();
    wait_for(&effects, What::Begun, 1).await;
    one.engine.drain(Duration::from_millis(100)).await;
    one.engine.shutdown().await;
    wait_for(&effects, What::Done, 1).await;
    assert_eq!(open(&settled(&two.engine, view.id).await).turn, 1);
    assert!(effects.lock().iter().all(|effect| effect.what != What::Done || effect.node == 2));
}
