//! Ten thousand workflows: load time, memory, the cost of a call compared with a small one, and
//! reload latency.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::binary::{McpFlow, Target};
use crate::process::{CpuTime, Memory};
use crate::report::megabytes;

/// Measure a server with many workflows
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Workflow files to load
    #[arg(long, value_name = "N", default_value = "10000")]
    files: usize,

    /// Calls of each tool
    #[arg(long, value_name = "N", default_value = "50000")]
    calls: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let program = self.mcp_flow.locate(&target)?;
        let folder = target.scratch()?;
        let workflows = folder.join("many");
        fs::create_dir_all(&workflows)?;
        for number in 0..self.files {
            write(&workflows, number, "First")?;
        }
        let begun = Instant::now();
        let mut server = Server::start(&program, &folder, OLDEST)?;
        let loaded = begun.elapsed();
        let memory = Memory::settled(server.child.id())?;
        let old = server.compare(self.calls)?;
        let reloaded = server.reload(&workflows)?;
        drop(server);
        let new = Server::start(&program, &folder, LATER)?.compare(self.calls)?;
        Ok(format!(
            "{} workflows load in {:.2} s (hold: 2), {:.0} MB (hold: 200)\n\
             {OLDEST}: {old}\n{LATER}: {new}\n\
             one changed file counts after {:.1} ms (hold: 50)",
            self.files,
            loaded.as_secs_f64(),
            megabytes(memory.resident),
            reloaded.as_secs_f64() * 1000.0,
        ))
    }
}

fn micros(time: Duration, calls: usize) -> f64 {
    time.as_secs_f64() * 1e6 / calls as f64
}

/// Writes a workflow of five steps with prompts of 500 characters.
fn write(folder: &Path, number: usize, name: &str) -> anyhow::Result<()> {
    let steps: Vec<_> = (0..5)
        .map(|step| {
            json!({"id": format!("step-{step}"), "title": "A step", "prompt": "Do it. ".repeat(72),
                "validationCriteria": [{"type": "length", "min": 10}]})
        })
        .collect();
    let workflow = json!({"id": format!("flow-{number:05}"), "name": name, "description": "One of many",
        "version": "1.0.0", "category": "many", "steps": steps});
    fs::write(folder.join(format!("{number:05}.json")), workflow.to_string())?;
    Ok(())
}

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server and waits until it has answered.
    fn start(program: &Path, folder: &Path, revision: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["stdio", "--store", "memory:", "--workflows", "many"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("the server has no input")?;
        let output = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut server = Self { child, input, output };
        let client = json!({"name": "benches", "version": "1.0.0"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let opened = server.call("initialize", &params)?;
        ensure!(opened["result"]["protocolVersion"] == revision, "{opened}");
        Ok(server)
    }

    /// Compares the cost of the next step with a small call.
    fn compare(&mut self, calls: usize) -> anyhow::Result<String> {
        let add = json!({"name": "calculator.add", "arguments": {"a": 2, "b": 3}});
        let add = self.cost(&add, calls)?;
        let next = json!({"name": "workflow_next", "arguments": {
            "workflowId": "flow-00001", "completedSteps": ["step-0"], "context": {"task": "T-1"}}});
        let next = self.cost(&next, calls)?;
        Ok(format!(
            "workflow_next {:.2} us, calculator.add {:.2} us of CPU: {:.2}x (hold: 4)",
            micros(next, calls),
            micros(add, calls),
            next.as_secs_f64() / add.as_secs_f64(),
        ))
    }

    fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        self.read()
    }

    fn read(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Returns the CPU time of a number of calls, 64 of them in flight.
    fn cost(&mut self, params: &Value, calls: usize) -> anyhow::Result<Duration> {
        let first = self.call("tools/call", params)?;
        ensure!(first["result"]["isError"] == false, "the call fails: {first}");
        let request = |id: usize| {
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
                .to_string()
        };
        let before = CpuTime::of(self.child.id())?;
        let mut line = String::new();
        for batch in 0..calls.div_ceil(IN_FLIGHT) {
            let requests: Vec<_> =
                (0..IN_FLIGHT).map(|id| request(batch * IN_FLIGHT + id)).collect();
            writeln!(self.input, "{}", requests.join("\n"))?;
            for _ in 0..IN_FLIGHT {
                line.clear();
                self.output.read_line(&mut line)?;
            }
        }
        Ok(CpuTime::of(self.child.id())?.since(before))
    }

    /// Returns the time until a changed file takes effect.
    fn reload(&mut self, folder: &Path) -> anyhow::Result<Duration> {
        write(folder, 1, "Second")?;
        let begun = Instant::now();
        loop {
            let reply = self.call("workflow_get", &json!({"id": "flow-00001"}))?;
            if reply["result"]["name"] == "Second" {
                return Ok(begun.elapsed());
            }
            ensure!(begun.elapsed() < TIMEOUT, "the change is not seen");
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

const IN_FLIGHT: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(10);
const OLDEST: &str = "2024-11-05";
const LATER: &str = "2025-11-25";
