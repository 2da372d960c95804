//! `mcp-flow workflow conform`: tests a server against the workflowlookup specification (WFL-065) and
//! prints the result of each test.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcp_flow::client::sanitize;
use serde_json::{Value, json};

use crate::terminal::output::print;

pub(super) fn run(command: &[OsString]) -> anyhow::Result<ExitCode> {
    let mut server = Server::start(command)?;
    let mut report = Report::default();
    before_the_handshake(&mut server, &mut report)?;
    discovery(&mut server, &mut report)?;
    let workflow = listing(&mut server, &mut report)?;
    parameters(&mut server, &mut report, &workflow)?;
    steps_and_validation(&mut server, &mut report, &workflow)?;
    errors(&mut server, &mut report, &workflow)?;
    shutdown(server, &mut report)?;
    print(&format!("{} of {} tests passed", report.tried - report.failed, report.tried))?;
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn before_the_handshake(server: &mut Server, report: &mut Report) -> anyhow::Result<()> {
    let early = server.call("workflow_list", json!({}))?;
    report.check("no tool call is processed before initialize", code(&early) == Some(-32600))?;
    let old = json!({"protocolVersion": "2024-10-01", "capabilities": {}});
    let old = server.call("initialize", old)?;
    let data = &old["error"]["data"];
    report.check(
        "an unsupported version is rejected with -32000 and both versions",
        is_error(&old, -32000, "Unsupported protocol version")
            && data["supportedVersions"] == json!(["2024-11-05"])
            && data["requestedVersion"] == "2024-10-01",
    )?;
    let missing = server.call("initialize", json!({"capabilities": {}}))?;
    report.check(
        "protocolVersion is required",
        code(&missing) == Some(-32602)
            && missing["error"]["data"]["details"] == "protocolVersion is required",
    )?;
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
        "clientInfo": {"name": "conform", "version": "1.0.0"}});
    let opened = server.call("initialize", params)?;
    let expected = json!({
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {"listChanged": false, "notifyProgress": false},
                         "resources": {"listChanged": false}},
        "serverInfo": {"name": "workflowlookup", "version": "1.0.0",
                       "description": "Workflow Orchestration System MCP Server"},
    });
    report.check("the initialize result is the printed one", opened["result"] == expected)
}

fn discovery(server: &mut Server, report: &mut Report) -> anyhow::Result<()> {
    let printed: Value = serde_json::from_str(TOOLS)?;
    let listed = server.call("tools/list", json!({}))?;
    report
        .check("tools/list gives the four printed tools", listed["result"]["tools"] == printed)?;
    let resources = server.call("resources/list", json!({}))?;
    report
        .check("the declared resources can be listed", resources["result"]["resources"].is_array())
}

/// Checks the list; returns the id of a workflow for the other tests.
fn listing(server: &mut Server, report: &mut Report) -> anyhow::Result<String> {
    let listed = server.call("workflow_list", json!({}))?;
    let workflows = listed["result"]["workflows"].as_array().cloned().unwrap_or_default();
    let members = ["id", "name", "description", "category", "version"];
    let complete = |one: &Value| members.iter().all(|member| one[member].is_string());
    report.check(
        "workflow_list gives workflows with all five members",
        !workflows.is_empty() && workflows.iter().all(complete),
    )?;
    let called = server.call("tools/call", json!({"name": "workflow_list", "arguments": {}}))?;
    let text = called["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let inner: Value = serde_json::from_str(text).unwrap_or_default();
    report.check("tools/call gives the same as text", inner == listed["result"])?;
    Ok(workflows.first().and_then(|one| one["id"].as_str()).unwrap_or("none-there").to_owned())
}

fn parameters(server: &mut Server, report: &mut Report, id: &str) -> anyhow::Result<()> {
    for (what, method, params) in [
        ("workflow_list refuses parameters", "workflow_list", json!({"x": 1})),
        ("workflow_get needs an id", "workflow_get", json!({})),
        ("an id has at least 3 characters", "workflow_get", json!({"id": "ab"})),
        ("an id has at most 64 characters", "workflow_get", json!({"id": "a".repeat(65)})),
        ("an id has small letters only", "workflow_get", json!({"id": "Bad_Id"})),
        ("workflow_next needs completedSteps", "workflow_next", json!({"workflowId": id})),
        ("workflow_get takes nothing else", "workflow_get", json!({"id": id, "other": true})),
        (
            "workflow_next takes nothing else",
            "workflow_next",
            json!({"workflowId": id, "completedSteps": [], "other": 1}),
        ),
        (
            "workflow_validate needs a stepId",
            "workflow_validate",
            json!({"workflowId": id, "output": "x"}),
        ),
        (
            "completedSteps are unique",
            "workflow_next",
            json!({"workflowId": id, "completedSteps": ["abc", "abc"]}),
        ),
        (
            "an output is not empty",
            "workflow_validate",
            json!({"workflowId": id, "stepId": "abc", "output": ""}),
        ),
    ] {
        let reply = server.call(method, params)?;
        let details = reply["error"]["data"]["details"].as_str().unwrap_or_default();
        report.check(what, is_error(&reply, -32602, "Invalid params") && !details.is_empty())?;
    }
    let missing = server.call("workflow_next", json!({"completedSteps": []}))?;
    report.check(
        "a missing member is named",
        missing["error"]["data"]["details"] == "workflowId is required",
    )
}

fn steps_and_validation(server: &mut Server, report: &mut Report, id: &str) -> anyhow::Result<()> {
    let got = server.call("workflow_get", json!({"id": id}))?;
    let steps = got["result"]["steps"].as_array().cloned().unwrap_or_default();
    let whole = |one: &Value| one["id"].is_string() && one["title"].is_string();
    report.check("workflow_get gives steps", !steps.is_empty() && steps.iter().all(whole))?;
    let next = server.call("workflow_next", json!({"workflowId": id, "completedSteps": []}))?;
    let result = &next["result"];
    report.check(
        "workflow_next gives a step with guidance",
        result["step"].is_object()
            && result["guidance"]["prompt"].as_str().is_some_and(|prompt| !prompt.is_empty())
            && result["isComplete"] == false,
    )?;
    let ids: Vec<_> = steps.iter().map(|step| step["id"].clone()).collect();
    report.check("the steps come in their order, each once", in_order(server, id, &steps)?)?;
    let last = server.call("workflow_next", json!({"workflowId": id, "completedSteps": ids}))?;
    report.check(
        "after the last step it is complete, with an object for a step",
        last["result"]["isComplete"] == true && last["result"]["step"].is_object(),
    )?;
    let judged = json!({"workflowId": id, "stepId": ids.first(), "output": "x"});
    let judged = server.call("workflow_validate", judged)?;
    let verdict = &judged["result"];
    let lists = |name: &str| verdict[name].as_array().is_some_and(|texts| !texts.is_empty());
    report.check(
        "workflow_validate gives a verdict, with issues and suggestions for an invalid output",
        verdict["valid"] == true
            || verdict["valid"] == false && lists("issues") && lists("suggestions"),
    )
}

/// Returns whether steps come in the order of the file. Stops at a step with a condition or a loop,
/// after which other orders are correct as well.
fn in_order(server: &mut Server, id: &str, steps: &[Value]) -> anyhow::Result<bool> {
    let mut done = Vec::new();
    for step in steps {
        if step.get("runCondition").is_some() || step["type"] == "loop" {
            break;
        }
        let next = json!({"workflowId": id, "completedSteps": done});
        let next = server.call("workflow_next", next)?;
        if next["result"]["step"]["id"] != step["id"] || next["result"]["isComplete"] != false {
            return Ok(false);
        }
        done.push(step["id"].clone());
    }
    Ok(true)
}

fn errors(server: &mut Server, report: &mut Report, id: &str) -> anyhow::Result<()> {
    let unknown = server.call("workflow_get", json!({"id": "nonexistent-workflow"}))?;
    report.check(
        "an unknown workflow is -32001 with its id",
        is_error(&unknown, -32001, "Workflow not found")
            && unknown["error"]["data"]["workflowId"] == "nonexistent-workflow",
    )?;
    let step = json!({"workflowId": id, "stepId": "nonexistent-step", "output": "x"});
    let step = server.call("workflow_validate", step)?;
    report.check(
        "an unknown step is -32003 with its id",
        is_error(&step, -32003, "Step not found")
            && step["error"]["data"]["stepId"] == "nonexistent-step",
    )?;
    let method = server.call("non_existent_tool", json!({}))?;
    report.check(
        "an unknown method is -32601 with its name",
        is_error(&method, -32601, "Method not found")
            && method["error"]["data"]["method"] == "non_existent_tool",
    )?;
    server.send("this is not JSON")?;
    let broken = server.next()?;
    report.check(
        "a broken line is -32700 with id null",
        is_error(&broken, -32700, "Parse error")
            && broken["id"].is_null()
            && broken.get("id").is_some()
            && broken["error"]["data"]["details"].is_string(),
    )?;
    server.send(r#"{"jsonrpc": "2.0"}"#)?;
    let empty = server.next()?;
    report.check(
        "a message without a method is -32600",
        is_error(&empty, -32600, "Invalid Request"),
    )?;
    let ids: Vec<_> = (0..50).map(|number| json!(format!("order-{number}"))).collect();
    for id in &ids {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "workflow_list", "params": {}});
        server.send(&request.to_string())?;
    }
    let mut answered = Vec::new();
    for _ in &ids {
        answered.push(server.next()?["id"].clone());
    }
    report.check("replies come in the order of the requests", answered == ids)
}

fn shutdown(mut server: Server, report: &mut Report) -> anyhow::Result<()> {
    server.send(
        &json!({"jsonrpc": "2.0", "id": 99, "method": "shutdown", "params": {}}).to_string(),
    )?;
    let reply = server.next()?;
    let expected = json!({"jsonrpc": "2.0", "id": 99, "result": null});
    report.check("shutdown is answered with null", reply == expected)?;
    let ended = server.exits_successfully();
    report.check("after shutdown the server exits with status 0", ended)
}

fn is_error(reply: &Value, number: i64, message: &str) -> bool {
    code(reply) == Some(number) && reply["error"]["message"] == message
}

fn code(reply: &Value) -> Option<i64> {
    reply["error"]["code"].as_i64()
}

/// Counts of the tests.
#[derive(Debug, Default)]
struct Report {
    tried: usize,
    failed: usize,
}

impl Report {
    fn check(&mut self, what: &str, holds: bool) -> anyhow::Result<()> {
        self.tried += 1;
        self.failed += usize::from(!holds);
        print(&format!("{}  {what}", if holds { "pass" } else { "FAIL" }))
    }
}

/// Server under test.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    last_id: u64,
}

impl Server {
    fn start(command: &[OsString]) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("no command given")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the server has no output")?;
        // Bounded, so that a server that never stops writing has to wait.
        let (line, lines) = mpsc::sync_channel(MAX_LINES);
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut read = String::new();
                let count = Read::take(&mut output, MAX_LINE_LENGTH).read_line(&mut read);
                if !matches!(count, Ok(1..)) || line.send(read).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines, last_id: 0 })
    }

    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the server has no input")?;
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .context("the server closed its input")
    }

    fn next(&mut self) -> anyhow::Result<Value> {
        let line = self.lines.recv_timeout(TIMEOUT).context("the server does not respond")?;
        serde_json::from_str(&line).with_context(|| {
            format!("the server sent invalid JSON: {:?}", sanitize::shorten(&line, 200))
        })
    }

    fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string())?;
        let reply = self.next()?;
        let shown = || sanitize::shorten(&reply.to_string(), 200);
        anyhow::ensure!(reply["id"] == id, "the response to request {id} is {}", shown());
        Ok(reply)
    }

    /// Returns whether the server exits by itself with status 0.
    fn exits_successfully(&mut self) -> bool {
        let start = Instant::now();
        let left = || TIMEOUT.saturating_sub(start.elapsed());
        // Its output usually ends when it exits.
        while self.lines.recv_timeout(left()).is_ok() {}
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if !left().is_zero() => std::thread::sleep(Duration::from_millis(5)),
                _ => return false,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tool definitions in the specification.
const TOOLS: &str = mcp_flow::workflow::PRINTED_TOOLS;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of lines of the server that are buffered.
const MAX_LINES: usize = 64;

/// Longest line that is read, in bytes.
const MAX_LINE_LENGTH: u64 = 16 << 20;
