//! Crashes of the server at every append.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::OfferedFlow;
use mcp_flow_session::event::Ending;
use mcp_flow_session::question::text;
use mcp_flow_testing::{FlowTestError, Script, crash_at_every_append};
use serde_json::{Value, json};

use super::flow_tests::NoParams;

/// Asks twice under one key, works, and sleeps.
async fn shop(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let first = flow.ask("item", text("What?")).await?;
    let second = flow.ask("item", text("What else?")).await?;
    let receipt = flow.step("buy", || async { Ok::<_, String>(format!("{first} and {second}")) });
    let receipt = match receipt.await {
        Ok(receipt) => receipt,
        Err(error) => error.to_string(),
    };
    flow.sleep(Duration::from_secs(24 * 60 * 60)).await?;
    let rating =
        flow.timeout(Duration::from_secs(60 * 60), flow.ask("rating", text("Good?"))).await;
    Ok(json!([receipt, rating.is_err()]))
}

#[tokio::test]
async fn a_flow_ends_alike_after_a_crash_at_every_append() {
    let script = Script::new("shop", json!({})).answers([("item", "tea"), ("item", "milk")]);
    let report = crash_at_every_append(|| OfferedFlow::new("shop", shop), &script).await.unwrap();
    let Ending::Completed { data, .. } = &report.ending else { panic!("{report:?}") };
    assert_eq!(data, &json!(["tea and milk", true]));
    assert!(report.crashes >= 6, "{report:?}");

    let script = script.fail_step("buy", 1, "sold out");
    let report = crash_at_every_append(|| OfferedFlow::new("shop", shop), &script).await.unwrap();
    let Ending::Completed { data, .. } = &report.ending else { panic!("{report:?}") };
    assert_eq!(data, &json!(["step `buy` failed: sold out", true]));
}

/// Waits for two payments, the second for a day at most.
async fn sell(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let first: u64 = flow.wait_for("paid").await?;
    let receipt: u64 = flow.step("ship", || async { Ok::<_, String>(first + 1) }).await?;
    let day = Duration::from_secs(24 * 60 * 60);
    let second = flow.timeout(day, flow.wait_for::<u64>("paid")).await;
    let refund = flow.timeout(day, flow.wait_for::<Value>("refund")).await;
    Ok(json!([receipt, second.ok().transpose()?, refund.is_err()]))
}

#[tokio::test]
async fn signals_are_sent_when_the_flow_waits_for_them() {
    let script = Script::new("sell", json!({})).signals([("paid", 1), ("paid", 2)]);
    let report = crash_at_every_append(|| OfferedFlow::new("sell", sell), &script).await.unwrap();
    let Ending::Completed { data, .. } = &report.ending else { panic!("{report:?}") };
    assert_eq!(data, &json!([2, 2, true]));
    assert!(report.crashes >= 5, "{report:?}");
    let script = Script::new("sell", json!({}));
    let error = crash_at_every_append(|| OfferedFlow::new("sell", sell), &script);
    assert_eq!(error.await.unwrap_err().to_string(), "the script has no answer to `paid`");
}

#[tokio::test]
async fn flows_that_depend_on_their_process_are_found() {
    let runs = Arc::new(AtomicUsize::new(0));
    let flow = || {
        let runs = Arc::clone(&runs);
        OfferedFlow::new("counts", move |flow: Flow, _: NoParams| {
            let runs = Arc::clone(&runs);
            async move {
                flow.ask("item", text("What?")).await?;
                // No step, so a replay counts again.
                Ok(runs.fetch_add(1, Ordering::SeqCst))
            }
        })
    };
    let script = Script::new("counts", json!({})).answers([("item", "tea")]);
    let error = crash_at_every_append(flow, &script).await.unwrap_err();
    assert!(matches!(error, FlowTestError::Crash { append: 0, .. }), "{error}");
    assert!(error.to_string().contains("without a crash it completed with 0"), "{error}");
}

#[tokio::test]
async fn scripts_answer_every_question() {
    let script = Script::new("shop", json!({})).answers([("item", "tea")]);
    let error =
        crash_at_every_append(|| OfferedFlow::new("shop", shop), &script).await.unwrap_err();
    assert_eq!(error.to_string(), "the script has no answer to `item`");
}
