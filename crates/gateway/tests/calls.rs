//! Calls, prompts, completion, progress, log messages, cancellation and changed lists.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::model::LogLevel;
use mcp_flow_client::{Client, ClientEvent, CompletionReference};
use mcp_flow_gateway::Gateway;
use mcp_flow_server::observe::{Detail, Observed, Observer};
use mcp_flow_server::{CatalogSource, Context, Prompt, Resource, Server, Tool};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{ERAS, Setup, pairs, upstream};

#[tokio::test]
async fn tools_are_listed_and_called_with_and_without_prefix() {
    for (client, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client).await;
        let tools = client.tools().all().await.unwrap();
        let add = tools.iter().find(|tool| tool.name == "up.math.add").unwrap();
        assert_eq!(add.description.as_deref(), Some("Adds"));
        assert_eq!(add.input_schema["required"], json!(["a", "b"]));
        // By this a host knows which tools an app may call.
        assert_eq!(add.meta["mcp-flow/upstream"], "up");
        for name in ["up.math.add", "math.add", "up_math_add"] {
            let sum = client.call_tool(name, json!({"a": 2, "b": 3})).await.unwrap();
            assert_eq!(sum.text(), "5", "{name}");
        }
        let failed = client.call_tool("up.fail", json!({})).await.unwrap();
        assert!(failed.is_error && failed.text().contains("it did not work"));
    }
}

/// The first request after the start may be a call.
#[tokio::test]
async fn a_call_waits_for_the_first_list() {
    let fixture = Fixture::new();
    for name in ["up.math.add", "math.add"] {
        let setup = Setup::before(&fixture.server, ERAS[0]);
        let client = setup.client(ERAS[0]).await;
        let sum = client.call_tool(name, json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5");
        let unknown = client.call_tool("up.none", json!({})).await.unwrap_err();
        assert_eq!(unknown.server().unwrap().name(), Some("UNKNOWN_TOOL"));
    }
}

#[tokio::test]
async fn a_bare_name_of_two_upstreams_is_unknown() {
    let fixture = Fixture::new();
    let both = ["a", "b"].map(|name| upstream(name, &fixture.server, ERAS[0]));
    let setup = Setup::new(both.to_vec());
    let client = setup.client(ERAS[1]).await;
    let ambiguous = client.call_tool("who", json!({})).await.unwrap_err();
    assert_eq!(ambiguous.server().unwrap().name(), Some("UNKNOWN_TOOL"));
    let who = client.call_tool("b.who", json!({})).await.unwrap();
    assert_eq!(who.structured.unwrap()["client"], "mcp-flow");
}

#[tokio::test]
async fn prompts_and_completions_are_forwarded() {
    for (client, server) in pairs() {
        let fixture = Fixture::with_prompts();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client).await;
        let prompts = client.prompts().all().await.unwrap();
        assert!(prompts.iter().any(|prompt| prompt.name == "up.analyze_data"));
        for name in ["up.analyze_data", "analyze_data"] {
            let prompt = client.get_prompt(name, [("data", "1, 2, 3")]).await.unwrap();
            let text = prompt.messages[0].content.as_text().unwrap().to_owned();
            assert!(text.contains("1, 2, 3"), "{text}");
        }
        let pick = CompletionReference::Prompt("up.pick".into());
        let found = client.complete(&pick, "language", "py", serde_json::Map::new()).await.unwrap();
        assert_eq!(found.values, ["python"]);
        let missing = client.get_prompt("up.analyze_data", [("other", "x")]).await.unwrap_err();
        let error = missing.server().unwrap();
        assert_eq!((error.code, error.name()), (-32602, Some("UPSTREAM_ERROR")));
        assert_eq!(error.data["domain"], "gateway");
        assert_eq!(error.data["server"], "up");
        assert_eq!(error.data["upstream"]["data"]["name"], "INVALID_PARAMS");
    }
}

#[tokio::test]
async fn progress_and_log_messages_reach_the_caller() {
    for (client_revision, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client_revision).await;
        client.set_log_level(LogLevel::Error).await.unwrap();
        let mut events = client.events();
        let mut call = client.call_tool("up.report", json!({})).start();
        let mut steps = Vec::new();
        while let Some(step) = within("progress", call.next()).await {
            steps.push(step.progress);
        }
        assert_eq!(call.await.unwrap().text(), "reported");
        assert_eq!(steps, [1.0, 2.0, 3.0], "{client_revision} {server}");
        loop {
            let event = within("the log message", events.next()).await.unwrap();
            if let ClientEvent::Log { level, data, .. } = event {
                assert_eq!((level, data), (LogLevel::Error, json!({"broken": true})));
                break;
            }
        }
    }
}

/// Upstream definitions that are known from the start.
struct Known;

impl CatalogSource for Known {
    fn pending(&self, _: Option<&str>) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// Members of `_meta` that the protocol does not define reach the upstream, in every round; those of
/// one hop do not.
#[tokio::test]
async fn own_metadata_reaches_the_upstream() {
    for (client, server) in pairs() {
        let tool = Tool::builder("meta")
            .quick(|context: &Context, _: Value| Value::from(context.meta().clone()));
        let prompt = Prompt::builder("meta")
            .quick(|context: &Context, _: Value| Value::from(context.meta().clone()).to_string());
        let resource = Resource::builder("x:/meta")
            .read(async |context: Context| Value::from(context.meta().clone()).to_string());
        let fixture = Fixture::with(|builder| {
            let builder = builder.catalog_source(Arc::new(Known));
            builder.tools(tool.unwrap()).prompts(prompt.unwrap()).resources(resource.unwrap())
        });
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client).await;
        let own = json!({"example.org/ticket": {"id": 7}, "flag": true});
        let own = own.as_object().cloned().unwrap();
        let call = client.call_tool("up.meta", json!({})).meta(own.clone()).await.unwrap();
        assert_eq!(call.structured, Some(own.clone().into()));
        let text = Value::from(own.clone()).to_string();
        let prompt = client.get_prompt("up.meta", [("a", "b")]).meta(own.clone()).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some(&*text));
        let read = client.read_resource("x:/meta").meta(own).raw().await.unwrap();
        assert_eq!(read["contents"][0]["text"], text);
    }
}

#[tokio::test]
async fn cancelled_calls_end_at_the_upstream() {
    for (client, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client).await;
        let call = tokio::spawn(client.call_tool("up.wait", json!({})).into_future());
        within("the call", fixture.gate.until_waiting(1)).await;
        call.abort();
        within("its end", fixture.gate.until_waiting(0)).await;
    }
}

#[tokio::test]
async fn changed_lists_are_announced() {
    for (client, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client).await;
        client.tools().all().await.unwrap();
        let filter = mcp_flow_client::ChangeFilter::new().tools();
        let mut changes = client.listen(filter).await.unwrap();
        let late = Tool::builder("late").quick(|_: &Context, _: Value| "here").unwrap();
        fixture.server.add_tools(vec![late]).unwrap();
        // The announcement of the first list may come before.
        while !lists(&client, "up.late").await {
            within("a change", changes.next()).await.unwrap().unwrap();
        }
        assert_eq!(client.call_tool("up.late", json!({})).await.unwrap().text(), "here");
        fixture.server.remove_tool("late");
        while lists(&client, "up.late").await {
            within("a change", changes.next()).await.unwrap().unwrap();
        }
        assert!(client.call_tool("up.late", json!({})).await.is_err());
    }
}

async fn lists(client: &Client, name: &str) -> bool {
    client.tools().all().await.unwrap().iter().any(|tool| tool.name == name)
}

/// Target and upstream of each request that an observer has seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<[Option<String>; 2]>>>);

impl Observer for Seen {
    fn detail(&self) -> Detail {
        Detail::Outline
    }

    fn observe(&self, exchange: &Observed<'_>) {
        self.0
            .lock()
            .push([exchange.target, exchange.upstream].map(|name| name.map(str::to_owned)));
    }
}

/// An observer learns which upstream had a request, also if its name does not say so.
#[tokio::test]
async fn observers_learn_the_upstream_of_a_request() {
    let (fixture, seen) = (Fixture::new(), Seen::default());
    let gateway = Gateway::new(vec![upstream("up", &fixture.server, ERAS[0])]).unwrap();
    let server = gateway.add_to(Server::builder("gateway", "1.0.0").observer(seen.clone()));
    let server = server.build().unwrap();
    gateway.attach(&server);
    let setup = Setup { gateway, server };
    let client = setup.client(ERAS[1]).await;
    for name in ["who", "up.who", "nobody"] {
        let _ = client.call_tool(name, json!({})).await;
    }
    let seen = seen.0.lock().clone();
    for (target, upstream) in [("who", Some("up")), ("up.who", Some("up")), ("nobody", None)] {
        let expected = [Some(target), upstream].map(|name| name.map(str::to_owned));
        assert!(seen.contains(&expected), "{expected:?} {seen:?}");
    }
}
