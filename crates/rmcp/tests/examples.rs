//! Features of the further example servers of rmcp: structured results, choices in forms, tasks and rounds of
//! input with a sealed state; by pipes, a socket and Streamable HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow::client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow::client::{Client, Host, HttpOptions, Program, Revision, RevisionPolicy, in_process};
use mcp_flow::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow::{Server, client, http, stdio};
use mcp_flow_gateway::{Gateway, UpstreamSettings};
use mcp_flow_rmcp::{adapt, connector};
use mcp_flow_testkit::wait::within;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, ElicitRequest, ElicitRequestParams, GetTaskParams, GetTaskResult,
    InputRequest, InputRequests, InputRequiredResult, ListToolsResult, PaginatedRequestParams,
    RequestStateCodec, ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::{ErrorData, Json, Peer, RoleServer, ServerHandler, elicit_safe, schemars, tool_router};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A server whose tools have output schemas.
#[derive(Clone)]
struct Calculator;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Calculation {
    numbers: Vec<i32>,
    operation: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Calculated {
    result: f64,
    operation: String,
    input_count: usize,
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
enum Size {
    Small,
    Large,
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[schemars(extend("type" = "string"))]
enum Topping {
    #[schemars(title = "Fresh basil")]
    Basil,
    #[schemars(title = "Black olives")]
    Olives,
}

/// Choices of a person.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Pizza {
    size: Size,
    first: Topping,
    more: Vec<Topping>,
}

elicit_safe!(Pizza);

#[tool_router(server_handler)]
impl Calculator {
    #[rmcp::tool(description = "Calculates with numbers")]
    async fn calculate(
        &self,
        Parameters(Calculation { numbers, operation }): Parameters<Calculation>,
    ) -> Result<Json<Calculated>, String> {
        let result = match operation.as_str() {
            "sum" => numbers.iter().sum::<i32>(),
            "product" => numbers.iter().product(),
            other => return Err(format!("unknown operation: {other}")),
        };
        Ok(Json(Calculated { result: result.into(), operation, input_count: numbers.len() }))
    }

    #[rmcp::tool(description = "Asks for choices in a form")]
    async fn order(&self, client: Peer<RoleServer>) -> Result<Json<Value>, ErrorData> {
        let chosen = client.elicit::<Pizza>("Which pizza?").await;
        let chosen = chosen.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(Json(json!({"pizza": chosen})))
    }
}

/// A person who fills in forms, and says which choices were offered.
struct Person;

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: false });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        asked: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let shown = format!("{asked:?}");
        let answer = match shown.contains("city") {
            true => json!({"city": "Paris"}),
            false => {
                for offered in ["Small", "Large", "Fresh basil", "Black olives"] {
                    assert!(shown.contains(offered), "{offered}: {shown}");
                }
                json!({"size": "Large", "first": "Basil", "more": ["Olives", "Basil"]})
            }
        };
        let answer = answer.as_object().cloned().unwrap_or_default();
        Box::pin(async { ElicitAnswer::Accept(answer) })
    }
}

async fn connect(server: &Server, revision: Revision) -> Client {
    let client = Client::builder().host(Person);
    let client = client.with(|options| options.revision = RevisionPolicy::Only(revision));
    within("a connection", client.connect(in_process(server))).await.unwrap()
}

/// A server of MCP Flow before a handler that speaks the newest revision with it.
async fn relay<H: ServerHandler>(
    make: impl Fn() -> H + Send + Sync + 'static,
) -> (Server, Gateway) {
    let upstream = UpstreamSettings::new("handler", Arc::new(connector(make)));
    let (gateway, builder) = Gateway::relay(upstream, |_| ()).await.unwrap();
    let server = builder.build().unwrap();
    gateway.attach(&server);
    (server, gateway)
}

const REVISIONS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// Structured results arrive with their schema, and errors as errors of the tool.
#[tokio::test]
async fn structured_results_are_served() {
    for revision in REVISIONS {
        let adapted = adapt(|| Calculator).await.unwrap();
        let client = connect(adapted.server(), revision).await;
        let tools = client.tools().all().await.unwrap();
        let calculate = tools.iter().find(|tool| tool.name == "calculate").unwrap();
        let schema = calculate.output_schema.as_ref().unwrap();
        assert_eq!(schema["properties"]["result"]["type"], "number");
        let call = |operation: &str| {
            let arguments = json!({"numbers": [2, 3, 4], "operation": operation});
            within("a call", client.call_tool("calculate", arguments).into_future())
        };
        let outcome = call("product").await.unwrap();
        let expected = json!({"result": 24.0, "operation": "product", "input_count": 3});
        assert_eq!(outcome.structured, Some(expected));
        let outcome = call("root").await.unwrap();
        assert!(outcome.is_error && outcome.text().contains("unknown operation: root"));
        client.close().await;
        adapted.close().await;
    }
}

/// Enums in forms become choices with their titles, single and multiple.
#[tokio::test]
async fn choices_in_forms_are_offered() {
    for revision in REVISIONS {
        let adapted = adapt(|| Calculator).await.unwrap();
        let client = connect(adapted.server(), revision).await;
        let outcome = within("a call", client.call_tool("order", json!({})).into_future()).await;
        let pizza = json!({"size": "Large", "first": "Basil", "more": ["Olives", "Basil"]});
        assert_eq!(outcome.unwrap().structured, Some(json!({"pizza": pizza})), "{revision:?}");
        client.close().await;
        adapted.close().await;
    }
}

/// A server that continues calls as tasks, if its client can follow them.
#[derive(Clone, Default)]
struct Slow {
    tasks: TaskManager,
    /// Calls that were continued as tasks end when this is notified.
    done: Arc<Notify>,
}

impl ServerHandler for Slow {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![plain_tool("slow_sum")]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = |text: &str| CallToolResult::success(vec![ContentBlock::text(text)]);
        if !context.client_capabilities().is_some_and(|client| client.supports_tasks()) {
            return Ok(result("at once").into());
        }
        let done = self.done.clone();
        let task =
            self.tasks.spawn(TaskOptions::default().with_poll_interval_ms(20), move |task| {
                Box::pin(async move {
                    task.set_status_message("half way");
                    tokio::select! {
                        () = task.cancelled() => Err(TaskExit::Cancelled),
                        () = done.notified() => Ok(result("as a task")),
                    }
                })
            });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        // Whoever asks has seen that the task is running.
        let task = self.tasks.get_task(&request.task_id)?;
        self.done.notify_one();
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

/// Tasks of a handler are followed to their end, for clients of every revision.
#[tokio::test]
async fn tasks_are_followed() {
    let adapted = adapt(Slow::default).await.unwrap();
    let (server, gateway) = relay(Slow::default).await;
    for (server, expected) in [(adapted.server(), "at once"), (&server, "as a task")] {
        for revision in REVISIONS {
            let client = connect(server, revision).await;
            let call = client.call_tool("slow_sum", json!({})).into_future();
            let outcome = within("a call", call).await.unwrap();
            assert_eq!(outcome.text(), expected, "{revision:?}");
            client.close().await;
        }
    }
    adapted.close().await;
    gateway.close().await;
}

/// A server that asks by its result, and keeps its state in the hands of the client.
#[derive(Clone)]
struct Weather {
    codec: RequestStateCodec,
}

impl ServerHandler for Weather {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![plain_tool("weather")]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let invalid = |what: &str| ErrorData::invalid_params(what.to_owned(), None);
        let Some(sealed) = request.request_state else {
            let schema = json!({
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            });
            let form = ElicitRequestParams::FormElicitationParams {
                meta: None,
                message: "In which city?".into(),
                requested_schema: serde_json::from_value(schema).unwrap(),
            };
            let form = InputRequest::Elicitation(ElicitRequest::new(form));
            let asked: InputRequests =
                BTreeMap::from([("city".to_owned(), form)]).into_iter().collect();
            let state = self.codec.seal_json(&"city").map_err(|_| invalid("state"))?;
            return Ok(InputRequiredResult::new(Some(asked), Some(state)).into());
        };
        let awaited: String = self.codec.open_json(&sealed).map_err(|_| invalid("tampered"))?;
        let answers = request.input_responses.unwrap_or_default();
        let city =
            answers[&awaited]["content"]["city"].as_str().ok_or_else(|| invalid("no city"))?;
        let text = format!("It is sunny in {city}.");
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Rounds of input reach clients of both eras, and the state of the handler comes back untouched.
#[tokio::test]
async fn handlers_ask_by_their_results() {
    let codec = RequestStateCodec::try_new(b"a key of at least thirty-two bytes".to_vec()).unwrap();
    let (server, gateway) = relay(move || Weather { codec: codec.clone() }).await;
    for revision in REVISIONS {
        let client = connect(&server, revision).await;
        let call = client.call_tool("weather", json!({})).into_future();
        let outcome = within("a call", call).await.unwrap();
        assert_eq!(outcome.text(), "It is sunny in Paris.", "{revision:?}");
        client.close().await;
    }
    gateway.close().await;
}

/// A handler is served by a program over pipes, over a socket, and over HTTP.
#[tokio::test]
async fn handlers_are_served_by_pipes_and_sockets() {
    // Tests are built into `deps`, examples beside it.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/orders");
    for revision in REVISIONS {
        let client = Client::builder();
        let client = client.with(|options| options.revision = RevisionPolicy::Only(revision));
        let client = within("the program", client.connect(Program::new(&program))).await.unwrap();
        assert_eq!(add(&client).await, "5");
        client.close().await;
    }

    let adapted = adapt(|| Calculator).await.unwrap();
    let socket = stdio::listen::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let bound = http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, url) = (socket.address().unwrap(), format!("http://{}/mcp", bound.address()));
    let (stop, stopped) = tokio::sync::watch::channel(());
    let ended = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.changed().await) }
    };
    let using = async {
        let by_http = client::connector(&url, &HttpOptions::new()).unwrap();
        for client in [
            Client::builder().connect(client::tcp(address)).await.unwrap(),
            Client::builder().connect_by(by_http).await.unwrap(),
        ] {
            let arguments = json!({"numbers": [2, 3], "operation": "sum"});
            let outcome = client.call_tool("calculate", arguments).into_future();
            let outcome = within("a call", outcome).await.unwrap();
            assert_eq!(outcome.structured.unwrap()["result"], 5.0);
            client.close().await;
        }
        drop(stop);
    };
    let (by_socket, by_http) = (socket.serve(adapted.server(), ended()), ended());
    tokio::join!(by_socket, bound.serve(adapted.server(), by_http), using);
    adapted.close().await;
}

async fn add(client: &Client) -> String {
    let call = client.call_tool("add", json!({"a": 2, "b": 3})).into_future();
    within("a call", call).await.unwrap().text()
}

/// A tool without arguments.
fn plain_tool(name: &'static str) -> Tool {
    Tool::new(
        name,
        "A tool of an example",
        serde_json::Map::from_iter([("type".to_owned(), json!("object"))]),
    )
}
