//! Tasks of other makers: their clients with our server, and our client with their servers.

use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;
use interop::{ARGUMENTS, LIMIT, Served, program, python, run};
use mcp_flow::client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow::client::model;
use mcp_flow::client::{Client, ClientBuilder, Host, HttpOptions, Program, attach, connector};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    ClientConfig, ContentBlock, CreateTaskResult, DetailedTask, ElicitationCapability, ErrorData,
    GetTaskParams, GetTaskResult, Implementation, InputRequest, ProtocolVersion,
    ServerCapabilities, ServerConfig, TaskPayload, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, RunningService};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

/// The official Rust SDK creates, polls, answers and cancels tasks of our server.
#[tokio::test]
async fn the_rust_sdk_drives_tasks() {
    let served = Served::start().await;
    let mut capabilities = ClientCapabilities::builder().enable_tasks().build();
    capabilities.elicitation = Some(ElicitationCapability::default());
    let config = ClientConfig::new(capabilities, Implementation::new("interop", "1.0.0"));
    let transport = StreamableHttpClientTransport::from_uri(served.url("mcp"));
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions };
    let client = config.serve_with_lifecycle(transport, lifecycle).await.unwrap();
    let driven = timeout(LIMIT, async {
        let id = countdown(&client, 12).await;
        let asking = settled(&client, &id).await;
        let TaskPayload::InputRequired { input_requests } = asking.payload else {
            panic!("{asking:?}")
        };
        let key = input_requests.keys().next().unwrap().clone();
        let response = json!({"action": "accept", "content": {"launch": true}});
        let update = UpdateTaskParams::new(id.clone(), [(key, response)].into());
        client.update_task(update).await.unwrap();
        let done = settled(&client, &id).await;
        let TaskPayload::Completed { result } = done.payload else { panic!("{done:?}") };
        let result = serde_json::to_value(result).unwrap();
        assert_eq!(result["structuredContent"]["launched"], true, "{result}");
        let id = countdown(&client, 60).await;
        client.cancel_task(CancelTaskParams::new(id.clone())).await.unwrap();
        let ended = settled(&client, &id).await;
        assert!(matches!(ended.payload, TaskPayload::Cancelled), "{ended:?}");
        assert!(client.get_task(GetTaskParams::new("unknown")).await.is_err());
        client.cancel().await.unwrap();
    });
    driven.await.expect("the tasks end in time");
    served.end().await;
}

/// Starts a countdown, which becomes a task; returns its id.
async fn countdown(client: &RunningService<RoleClient, ClientConfig>, from: u32) -> String {
    let arguments = json!({"from": from}).as_object().cloned().unwrap_or_default();
    let call = CallToolRequestParams::new("countdown").with_arguments(arguments);
    let created = client.call_tool_once(call).await.unwrap();
    let CallToolResponse::Task(created) = created else { panic!("{created:?}") };
    created.task.task_id
}

/// Polls a task until it asks or has ended.
async fn settled(client: &RunningService<RoleClient, ClientConfig>, id: &str) -> DetailedTask {
    loop {
        let task = client.get_task(GetTaskParams::new(id)).await.unwrap().task;
        if !matches!(task.payload, TaskPayload::Working) {
            return task;
        }
        let wait = task.task.poll_interval_ms.unwrap_or(100).min(500);
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

/// FastMCP's client polls and answers tasks of our server by itself, and cancels one.
#[tokio::test]
async fn fastmcp_drives_tasks() {
    let mut client = python("python/tasks_client.py");
    let outcome = run(client.arg(program()).args(ARGUMENTS)).await;
    let report: Value = serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|_| panic!("{}\n{}", outcome.stdout, outcome.stderr));
    assert_eq!(report["asked"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["result"]["launched"], true, "{report}");
    assert_eq!(report["status"], "working", "{report}");
    assert_eq!((&report["cancelled"], &report["plain"]), (&json!("cancelled"), &json!(true)));
}

/// A server of the official Rust SDK whose tools are tasks.
#[derive(Clone, Default)]
struct TaskServer {
    tasks: TaskManager,
}

impl TaskServer {
    /// Returns the work of a tool.
    async fn work(name: String, context: TaskContext) -> Result<CallToolResult, TaskExit> {
        match name.as_str() {
            "greet" => {
                context.set_status_message("About to ask");
                let request: InputRequest = serde_json::from_value(json!({
                    "method": "elicitation/create",
                    "params": {"mode": "form", "message": "Who is there?", "requestedSchema": {
                        "type": "object", "properties": {"name": {"type": "string"}},
                        "required": ["name"]}},
                }))
                .expect("the request is well-formed");
                let answer = context.request_input("who", request).await?;
                let name = answer["content"]["name"].as_str().unwrap_or("nobody").to_owned();
                Ok(CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}!"))]))
            }
            "endless" => {
                context.cancelled().await;
                Err(TaskExit::Cancelled)
            }
            _ => Err(TaskExit::Error(ErrorData::internal_error("it did not work", None))),
        }
    }
}

impl ServerHandler for TaskServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let options = TaskOptions::new().with_poll_interval_ms(20);
        let task = self.tasks.spawn(options, |context| Box::pin(Self::work(name, context)));
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
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

/// Our client follows tasks of a server made with the official Rust SDK, and answers their questions.
#[tokio::test]
async fn tasks_of_a_rust_server_are_followed() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(async move {
        let service = TaskServer::default().serve(tokio::io::split(theirs)).await.unwrap();
        service.waiting().await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    let client = answering().connect(attach(reader, writer)).await.unwrap();
    let followed = timeout(LIMIT, async {
        let greeted = client.call_tool("greet", json!({})).await.unwrap();
        assert_eq!(greeted.text(), "Hello, Ada!");
        let broken = client.call_tool("broken", json!({})).await;
        let said = format!("{broken:?}");
        assert!(said.contains("it did not work"), "{said}");
        client.close().await;
    });
    followed.await.expect("the tasks end in time");
    timeout(LIMIT, serving).await.expect("the server ends with its client").unwrap();
}

/// The same with FastMCP, over pipes and over HTTP.
#[tokio::test]
async fn tasks_of_fastmcp_are_followed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let by_pipe = Program::new(here.join("python/.venv/bin/python"))
        .arguments(["python/tasks_server.py"])
        .folder(here);
    use_fastmcp(&answering().connect(by_pipe).await.unwrap()).await;
    let (port, _server) =
        super::servers::serve("python/.venv/bin/python", &["python/tasks_server.py"]);
    let patient = answering().with(|options| {
        options.backoff.initial = Duration::from_millis(100);
        options.backoff.max = Duration::from_millis(500);
        options.backoff.initial_attempts = 60;
    });
    let url = format!("http://127.0.0.1:{port}/mcp");
    let connector = connector(&url, &HttpOptions::new()).unwrap();
    use_fastmcp(&patient.connect_by(connector).await.unwrap()).await;
}

/// A client whose user is called Ada.
fn answering() -> ClientBuilder {
    Client::builder().host(Ada)
}

struct Ada;

impl Host for Ada {
    fn capabilities(&self) -> model::ClientCapabilities {
        let elicitation = Some(model::ElicitationCapability { form: true, url: false });
        model::ClientCapabilities { elicitation, ..Default::default() }
    }

    fn elicit<'a>(&'a self, _: &'a ServerIdentity, _: Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let name = Map::from_iter([("name".to_owned(), Value::from("Ada"))]);
        Box::pin(async { ElicitAnswer::Accept(name) })
    }
}

async fn use_fastmcp(client: &Client) {
    let used = timeout(LIMIT, async {
        let sum = client.call_tool("slow_sum", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.structured, Some(json!({"result": 5})));
        let greeted = client.call_tool("greet", json!({})).await.unwrap();
        assert_eq!(greeted.text(), "Hello, Ada!");
        let broken = client.call_tool("broken", json!({})).await;
        assert!(broken.map_or(true, |outcome| outcome.is_error));
        client.close().await;
    });
    used.await.expect("the tasks end in time");
}
