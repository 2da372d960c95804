//! Crashes at every append of a session, on the stores that are on disk.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow::prelude::*;
use mcp_flow::question::{confirm, text};
use mcp_flow::seal::{Key, KeyRing};
use mcp_flow::session::{Ending, Store};
use mcp_flow::store_postgres::PostgresStore;
use mcp_flow::store_sqlite::SqliteStore;
use mcp_flow::testing::{Script, crash_at_every_append_on};
use mcp_flow_testkit::postgres::PostgresServer;
use serde_json::{Value, json};

/// Takes an order, with links, signals and timers, and a question that is not answered in time.
#[flow]
async fn order(flow: Flow) -> FlowResult<Value> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let pay = flow.link("paid")?;
    let customer = flow.ask("customer", text("Who orders?")).await?;
    flow.label("customer", &customer)?;
    let first: u64 = flow.wait_for("paid").await?;
    flow.revoke_link(&pay)?;
    let approve = flow.ask("approve", confirm("Ship?")).by_link()?;
    let url = approve.url().len();
    flow.step("mail", || async { Ok::<_, String>(url) }).await?;
    let is_approved = approve.await?;
    let second = flow.timeout(DAY, flow.wait_for::<u64>("paid")).await;
    let refund = flow.timeout(DAY, flow.wait_for::<Value>("refund")).await;
    let late = flow.timeout(DAY, flow.ask("rating", text("Good?"))).await;
    let second = second.ok().transpose()?;
    Ok(json!([customer, first, is_approved, second, refund.is_err(), late.is_err()]))
}

async fn crash_on(store: impl Fn() -> Arc<dyn Store>) {
    let answers = json!({"customer": "Ada", "approve": true});
    let signals = [("paid", json!(1)), ("paid", json!(2))];
    let script = Script::new("order", json!({})).answers(answers).signals(signals);
    let report = crash_at_every_append_on(|| flows![order], &script, store).await.unwrap();
    let Ending::Completed { data, .. } = &report.ending else { panic!("{report:?}") };
    assert_eq!(data, &json!(["Ada", 1, true, 2, true, true]));
    assert!(report.crashes >= 8, "{report:?}");
}

#[tokio::test]
async fn sessions_survive_crashes_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicUsize::new(0);
    crash_on(|| {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Arc::new(SqliteStore::open(folder.path().join(format!("{number}.db"))).unwrap())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_survive_crashes_on_postgres() {
    crash_on(|| {
        let url = PostgresServer::shared().create_database();
        let keys = KeyRing::new(Key::from_bytes([1; 32]));
        Arc::new(PostgresStore::open(&url.parse().unwrap(), keys).unwrap())
    })
    .await;
}
