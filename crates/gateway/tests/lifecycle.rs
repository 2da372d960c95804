//! Start, idle stop, restart and replacement of upstreams.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_gateway::{Gateway, Isolation, UpstreamSettings};
use mcp_flow_stdio::client::in_process;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;

use crate::support::{ERAS, Setup, upstream};

#[tokio::test]
async fn nothing_is_started_before_it_is_needed() {
    let fixture = Fixture::new();
    let setup = Setup::before(&fixture.server, ERAS[0]);
    let client = setup.client(ERAS[0]).await;
    client.ping().await.unwrap();
    assert_eq!(setup.gateway.status()[0].connections, 0);
    client.tools().all().await.unwrap();
    assert_eq!(setup.gateway.status()[0].connections, 1);
}

#[tokio::test]
async fn an_idle_upstream_is_stopped_and_started_again() {
    for revision in ERAS {
        let fixture = Fixture::new();
        let mut settings = upstream("up", &fixture.server, revision);
        settings.idle_timeout = Duration::from_millis(10);
        let setup = Setup::new(vec![settings]);
        let client = setup.client(ERAS[1]).await;
        let tools = client.tools().all().await.unwrap().len();
        while setup.gateway.status()[0].connections > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.tools().all().await.unwrap().len(), tools, "listed while it is stopped");
        let sum = client.call_tool("up.math.add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5");
    }
}

#[tokio::test]
async fn replaced_upstreams_come_and_go_and_others_stay() {
    let (kept, old, new) = (Fixture::new(), Fixture::new(), Fixture::new());
    let stays = upstream("kept", &kept.server, ERAS[0]);
    let setup = Setup::new(vec![stays.clone(), upstream("old", &old.server, ERAS[0])]);
    let client = setup.client(ERAS[0]).await;
    client.tools().all().await.unwrap();
    let call = tokio::spawn(client.call_tool("kept.wait", json!({})).into_future());
    kept.gate.until_waiting(1).await;
    setup.gateway.replace(vec![stays, upstream("new", &new.server, ERAS[1])]).await.unwrap();
    let who = client.call_tool("new.who", json!({})).await.unwrap();
    assert_eq!(who.structured.unwrap()["revision"], ERAS[1].name());
    let gone = client.call_tool("old.who", json!({})).await.unwrap_err();
    assert_eq!(gone.server().unwrap().name(), Some("UNKNOWN_TOOL"));
    kept.gate.release_one();
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

/// Callers with isolation by session have connections of their own, which end with them.
#[tokio::test]
async fn sessions_are_isolated() {
    let fixture = Fixture::new();
    let mut settings = upstream("up", &fixture.server, ERAS[0]);
    settings.isolation = Isolation::Session;
    let setup = Setup::new(vec![settings]);
    let (one, two) = (setup.client(ERAS[0]).await, setup.client(ERAS[0]).await);
    for client in [&one, &two, &one] {
        client.call_tool("up.who", json!({})).await.unwrap();
    }
    // One for each, and one for the gateway's own lists.
    assert_eq!(setup.gateway.status()[0].connections, 3);
    one.close().await;
    while setup.gateway.status()[0].connections > 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn colliding_names_are_rejected() {
    let fixture = Fixture::new();
    let named = |name: &str| UpstreamSettings::new(name, Arc::new(in_process(&fixture.server)));
    let error = Gateway::new(vec![named("a b"), named("a_b"), named("..")]).unwrap_err();
    assert_eq!(error.problems.len(), 2, "{error}");
}
