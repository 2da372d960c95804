//! A handler of rmcp is served to clients of both eras, by several transports.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use mcp_flow::client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow::client::{Client, Host, HttpOptions, Revision, RevisionPolicy, in_process};
use mcp_flow::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow::prelude::*;
use mcp_flow::{ConnectionInfo, client, http};
use mcp_flow_gateway::{Gateway, UpstreamSettings};
use mcp_flow_rmcp::{adapt, adapt_with, connector};
use mcp_flow_testkit::wait::within;
use parking_lot::Mutex;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    Implementation, ListResourcesResult, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, RequestMetaObject,
    Resource, ResourceContents, ServerCapabilities, ServerConfig,
};
use rmcp::service::{ElicitationError, RequestContext};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler, elicit_safe, schemars, tool_handler, tool_router,
};
use serde_json::json;

/// A counter, as rmcp's own examples have one.
#[derive(Clone, Default)]
struct Counter {
    count: Arc<Mutex<i64>>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct By {
    by: i64,
}

/// Answer to a question.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Person {
    name: String,
}

elicit_safe!(Person);

#[tool_router]
impl Counter {
    #[rmcp::tool(description = "Adds to the counter of this session")]
    fn increase(&self, Parameters(By { by }): Parameters<By>) -> String {
        let mut count = self.count.lock();
        *count += by;
        count.to_string()
    }

    #[rmcp::tool(description = "Asks who is there")]
    async fn who(&self, client: Peer<RoleServer>) -> Result<String, ErrorData> {
        match client.elicit::<Person>("Who is there?").await {
            Ok(Some(person)) => Ok(format!("Hello, {}", person.name)),
            Ok(None) | Err(ElicitationError::UserDeclined) => Ok("nobody".to_owned()),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }

    #[rmcp::tool(description = "Reports progress")]
    async fn work(&self, meta: RequestMetaObject, client: Peer<RoleServer>) -> String {
        if let Some(token) = meta.get_progress_token() {
            for step in 1..=3_i32 {
                let progress = ProgressNotificationParam::new(token.clone(), step.into());
                let _ = client.notify_progress(progress.with_total(3.0)).await;
            }
        }
        "done".to_owned()
    }

    #[rmcp::tool(description = "Panics")]
    fn panic(&self) -> String {
        panic!("a mistake in the handler")
    }
}

#[tool_handler]
impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("counter", "1.2.3"))
            .with_instructions("Count with it.")
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("memo://about", "about")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("a counter", request.uri)]).into())
    }
}

/// A user who says a name.
struct User;

impl Host for User {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: false });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(&'a self, _: &'a ServerIdentity, _: Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let name = json!({"name": "Ada"}).as_object().cloned().unwrap_or_default();
        Box::pin(async { ElicitAnswer::Accept(name) })
    }
}

/// Everything a handler does reaches a client: results, questions, progress, resources, errors.
async fn use_counter(client: &Client, before: i64) {
    let before_and = |more: i64| (before + more).to_string();
    let about = client.server().await.unwrap();
    assert_eq!(about.implementation.name, "counter");
    assert_eq!(about.instructions.as_deref(), Some("Count with it."));
    let tools = client.tools().all().await.unwrap();
    let increase = tools.iter().find(|tool| tool.name == "increase").unwrap();
    assert_eq!(increase.input_schema["required"], json!(["by"]));
    let count = client.call_tool("increase", json!({"by": 2})).await.unwrap();
    assert_eq!(count.text(), before_and(2), "every session has a handler of its own");
    let count = client.call_tool("increase", json!({"by": 3})).await.unwrap();
    assert_eq!(count.text(), before_and(5));
    assert_eq!(client.call_tool("who", json!({})).await.unwrap().text(), "Hello, Ada");
    let mut work = client.call_tool("work", json!({})).start();
    let mut steps = Vec::new();
    while let Some(step) = work.next().await {
        steps.push(step.progress);
    }
    assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
    assert_eq!(work.await.unwrap().text(), "done");
    let read = client.read_resource("memo://about").await.unwrap();
    assert!(format!("{:?}", read.contents).contains("a counter"), "{read:?}");
    let wrong = client.call_tool("increase", json!({"by": "x"})).await;
    assert!(wrong.map_or(true, |outcome| outcome.is_error));
}

#[tokio::test]
async fn handlers_are_served_in_both_eras() {
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let adapted = adapt(Counter::default).await.unwrap();
        let client = Client::builder().host(User);
        let client = client.with(|options| options.revision = RevisionPolicy::Only(revision));
        let client = client.connect(in_process(adapted.server())).await.unwrap();
        if revision == Revision::V2024_11_05 {
            // It cannot be asked.
            let count = client.call_tool("increase", json!({"by": 2})).await.unwrap();
            assert_eq!(count.text(), "2");
        } else {
            within("a client to use the handler", use_counter(&client, 0)).await;
        }
        client.close().await;
        adapted.close().await;
    }
}

#[tokio::test]
async fn handlers_are_served_over_http() {
    let adapted = adapt(Counter::default).await.unwrap();
    let bound = http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = bound.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = async {
        bound.serve(adapted.server(), async { drop(stopped.await) }).await;
    };
    let using = async {
        let (new, old) = (Revision::V2026_07_28, Revision::V2025_11_25);
        // Without sessions, clients share a handler.
        for (path, revision, before) in
            [("mcp", new, 0), ("mcp", new, 5), ("mcp", old, 0), ("sse", old, 0), ("ws", old, 0)]
        {
            let scheme = if path == "ws" { "ws" } else { "http" };
            let url = format!("{scheme}://{address}/{path}");
            let builder = Client::builder().host(User);
            let builder = builder.with(|options| options.revision = RevisionPolicy::Only(revision));
            let connector = client::connector(&url, &HttpOptions::new()).unwrap();
            let client = builder.connect_by(connector).await.unwrap();
            within("a client to use the handler", use_counter(&client, before)).await;
            client.close().await;
        }
        drop(stop);
    };
    tokio::join!(serving, using);
}

/// A tool that panics ends its handler; the next call gets a new one.
#[tokio::test]
async fn a_panic_is_survived() {
    let adapted = adapt(Counter::default).await.unwrap();
    let client = Client::builder().connect(in_process(adapted.server())).await.unwrap();
    let call = within("the call to fail", client.call_tool("panic", json!({})).into_future());
    assert!(call.await.map_or(true, |outcome| outcome.is_error));
    let call = client.call_tool("increase", json!({"by": 1})).into_future();
    within("a call", call).await.unwrap();
    client.close().await;
}

/// A message that rmcp does not answer is rejected before it gets there.
#[tokio::test]
async fn invalid_messages_do_not_reach_the_handler() {
    let adapted = adapt(Counter::default).await.unwrap();
    let connection = adapted.server().connect(ConnectionInfo::new("test")).unwrap();
    connection.receive(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":");
    let reply = within("a reply", connection.output()).await.expect("there is a reply");
    let reply = String::from_utf8_lossy(reply.lines()).into_owned();
    assert!(reply.contains("-32700"), "{reply}");
    connection.close().await;
}

/// Says hello
#[tool(quick)]
fn hello() -> &'static str {
    "hello"
}

#[tokio::test]
async fn a_handler_stands_beside_other_tools_and_servers() {
    let adapted = adapt_with(Counter::default, |server| server.tools(tools![hello])).await.unwrap();
    let other = UpstreamSettings::new("counter", Arc::new(connector(Counter::default)));
    let gateway = Gateway::new(vec![other]).unwrap();
    let both = gateway.add_to(Server::builder("both", "1.0.0")).build().unwrap();
    gateway.attach(&both);
    for (server, tool, argument, text) in [
        (adapted.server(), "hello", json!({}), "hello"),
        (adapted.server(), "increase", json!({"by": 4}), "4"),
        (&both, "counter.increase", json!({"by": 4}), "4"),
    ] {
        let client = Client::builder().connect(in_process(server)).await.unwrap();
        let outcome = within("a call", client.call_tool(tool, argument).into_future()).await;
        assert_eq!(outcome.unwrap().text(), text, "{tool}");
        client.close().await;
    }
}
