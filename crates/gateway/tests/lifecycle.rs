//! Start, idle stop, restart and replacement of upstreams.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_gateway::{Gateway, Isolation, UpstreamSettings};
use mcp_flow_stdio::client::in_process;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_scenarios::client::Scripted;
use serde_json::json;

use crate::failures::{lists, script};
use crate::hostile::{Agreeable, QUESTION};
use crate::support::{ERAS, Setup, upstream};

/// Waits until the first upstream has at most this many connections.
async fn connections(setup: &Setup, most: usize) {
    while setup.gateway.status()[0].connections > most {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

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
        within("the idle stop", connections(&setup, 0)).await;
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
    within("the call", kept.gate.until_waiting(1)).await;
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
    within("the end of its connection", connections(&setup, 2)).await;
}

/// An upstream whose configuration has changed, or that was removed and added again, lists the same
/// tools as before, and is served again.
#[tokio::test]
async fn a_changed_upstream_keeps_its_tools() {
    let fixture = Fixture::with_prompts();
    let mut settings = upstream("up", &fixture.server, ERAS[1]);
    settings.pins = true;
    let setup = Setup::new(vec![settings.clone()]);
    let client = setup.client(ERAS[0]).await;
    let names = async || {
        let tools = client.tools().all().await.unwrap().into_iter().map(|tool| tool.name);
        let prompts = client.prompts().all().await.unwrap().into_iter().map(|prompt| prompt.name);
        tools.chain(prompts).collect::<Vec<_>>()
    };
    let before = names().await;
    assert!(before.contains(&"up.who".to_owned()), "{before:?}");
    for is_removed in [false, true] {
        if is_removed {
            setup.gateway.replace(Vec::new()).await.unwrap();
            assert_eq!(names().await, [""; 0]);
        }
        settings.fingerprint.push('x');
        setup.gateway.replace(vec![settings.clone()]).await.unwrap();
        assert_eq!(names().await, before);
        client.call_tool("up.who", json!({})).await.unwrap();
    }
}

/// One that does not respond delays lists, and calls by names that nobody has, for a moment only.
#[tokio::test]
async fn an_upstream_that_hangs_delays_nobody() {
    let fixture = Fixture::new();
    let mut hangs = script("hangs", "sleep 1000");
    hangs.connect_timeout = Duration::from_secs(1000);
    let setup = Setup::new(vec![hangs, upstream("good", &fixture.server, ERAS[0])]);
    let client = setup.client(ERAS[1]).await;
    let tools = within("the list", client.tools().all()).await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "good.who"));
    within("the call", client.call_tool("who", json!({})).into_future()).await.unwrap();
    let unknown = within("the call", client.call_tool("nobody", json!({})).into_future()).await;
    assert_eq!(unknown.unwrap_err().server().unwrap().name(), Some("UNKNOWN_TOOL"));
    setup.gateway.close().await;
}

/// Whoever leaves questions unanswered waits for those, for a moment. Others do not: neither those who can
/// be asked, nor those who cannot, nor the gateway's own lists.
#[tokio::test]
async fn unanswered_questions_do_not_hold_up_others() {
    let said = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"said"}]}}\n' "$(id "$line")""#;
    let rest = format!("case $line in *'\"ask\"'*) {QUESTION};; *) {said};; esac");
    let asks = lists(&json!([{"name": "ask"}, {"name": "say"}]), &rest);
    let mut settings = script("up", &asks);
    settings.instances = 1;
    let setup = Setup::new(vec![settings]);
    let (ada, bob) = (
        setup.client_as("ada", ERAS[1], Agreeable).await,
        setup.client_as("bob", ERAS[1], Agreeable).await,
    );
    for client in [&ada, &bob] {
        let asked = client.call_tool("up.ask", json!({})).raw();
        let asked = asked.round(serde_json::Map::new(), None);
        let asked = within("the question", asked.into_future()).await.unwrap();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let second = client.call_tool("up.ask", json!({})).into_future();
        let error = within("the second call", second).await.unwrap_err();
        let error = error.server().unwrap();
        assert_eq!(error.name(), Some("UPSTREAM_UNAVAILABLE"), "{error}");
        assert!(error.data["retryAfterMs"].is_u64(), "{error}");
    }
    let unasked = setup.client(ERAS[0]).await;
    let eve = setup.client_as("eve", ERAS[0], Agreeable).await;
    for client in [&unasked, &eve] {
        let called = client.call_tool("up.say", json!({})).into_future();
        assert_eq!(within("the call of another", called).await.unwrap().text(), "said");
    }
    // One for each question, and one for all others.
    assert_eq!(setup.gateway.status()[0].connections, 3);
    setup.gateway.close().await;
}

/// The roots of a caller that has a connection to itself reach an upstream that asks outside of a call.
#[tokio::test]
async fn roots_of_the_only_caller_are_listed() {
    let ask = r#"printf '{"jsonrpc":"2.0","id":"r","method":"roots/list"}\n'"#;
    let take =
        r#"*'"id":"r"'*) roots=$(printf '%s' "$line" | sed 's/.*"uri":"\([^"]*\)".*/\1/');;"#;
    let call = r#"call=$(id "$line")
      while test -z "$roots"; do read -r line; case "$line" in TAKE esac; done
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$call" "$roots""#;
    let asks = lists(&json!([{"name": "roots"}]), call);
    let asks = asks.replace(
        "*tools/call*)",
        "TAKE\n    *notifications/initialized*) ASK;;\n    *tools/call*)",
    );
    let asks = asks.replace("TAKE", take).replace("ASK", ask);
    let mut settings = script("up", &asks);
    settings.isolation = Isolation::Session;
    let setup = Setup::new(vec![settings]);
    let client = setup.client_with(ERAS[0], Scripted::default()).await;
    let called = client.call_tool("up.roots", json!({})).into_future();
    assert_eq!(within("the call", called).await.unwrap().text(), "file:///work");
    setup.gateway.close().await;
}

#[test]
fn colliding_names_are_rejected() {
    let fixture = Fixture::new();
    let named = |name: &str| UpstreamSettings::new(name, Arc::new(in_process(&fixture.server)));
    let error = Gateway::new(vec![named("a b"), named("a_b"), named("..")]).unwrap_err();
    assert_eq!(error.problems.len(), 2, "{error}");
}
