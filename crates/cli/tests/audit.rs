//! The audit log of the real program, across kills and restarts.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use mcp_flow_testkit::wait::{Deadline, LIMIT, output};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).args(arguments);
    command.env_remove("MCP_FLOW_TOKEN").env_remove("MCP_FLOW_CONFIG").env_remove("MCP_FLOW_LOG");
    command
}

fn verify(folder: &Path, more: &[&str]) -> Output {
    output(command(folder, &["audit", "verify", "audit.jsonl"]).args(more))
}

/// A program on standard input, and the lines of its output.
struct StdioServer {
    program: Child,
    answers: BufReader<std::process::ChildStdout>,
    _deadline: Deadline,
}

impl StdioServer {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut program = command(folder, &["stdio"]);
        program.args(arguments);
        Self::spawn(program)
    }

    fn spawn(mut program: Command) -> Self {
        let mut program = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(program.stdout.take().unwrap());
        let _deadline = Deadline::of(&program);
        let mut served = Self { program, answers, _deadline };
        served.call("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
        served
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.program.stdin.as_mut().unwrap(), "{message}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn end(mut self) {
        drop(self.program.stdin.take());
        assert!(self.program.wait().unwrap().success());
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A server continues the log of a killed one after an incomplete last line; later changes to the
/// log are detected, with exit code 1.
#[test]
fn an_audit_log_survives_kills_and_shows_changes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text =
        "[offer]\nstore = \"memory:\"\n[audit]\nfile = \"audit.jsonl\"\nkey_file = \"key\"\n";
    std::fs::write(folder.join("flow.toml"), text).unwrap();
    let log = folder.join("audit.jsonl");
    let sum = json!({"name": "calculator.add", "arguments": {"a": 47_110_815, "b": 3}});
    for round in 0..3 {
        let mut served = StdioServer::start(folder, &["--config", "flow.toml"]);
        served.call("tools/call", &sum);
        // A call is recorded after its response, so the one before the last is recorded soon.
        let is_there = || {
            let text = std::fs::read_to_string(&log).unwrap();
            text.matches("calculator.add").count() > round
        };
        let begun = Instant::now();
        while !is_there() {
            assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for a call to be in the audit log");
            std::thread::yield_now();
        }
        served.program.kill().unwrap();
        served.program.wait().unwrap();
        // As if it had been killed in the middle of a line.
        let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        write!(file, "{{\"seq\":{round}").unwrap();
    }
    let torn = verify(folder, &["--key-file", "key"]);
    assert_eq!(torn.status.code(), Some(1));
    assert!(String::from_utf8(torn.stderr).unwrap().contains("incomplete"));
    StdioServer::start(folder, &["--config", "flow.toml"]).end();

    let good = verify(folder, &["--key-file", "key"]);
    let output = String::from_utf8(good.stdout).unwrap();
    assert_eq!(good.status.code(), Some(0), "{output}");
    assert!(output.contains("3 incomplete lines"), "{output}");
    let written = std::fs::read_to_string(&log).unwrap();
    assert_eq!(written.matches("\"event\":\"start\"").count(), 4);
    assert!(!written.contains("47110815"), "{written}");

    assert_eq!(verify(folder, &[]).status.code(), Some(1));
    std::fs::write(&log, written.replacen("calculator.add", "calculator.sub", 1)).unwrap();
    let bad = verify(folder, &["--key-file", "key"]);
    let output = String::from_utf8(bad.stderr).unwrap();
    assert!(bad.status.code() == Some(1) && output.contains("line 3"), "{output}");
}

/// An audit log has one writer, and a log that cannot be written stops a server before it serves.
#[test]
fn an_audit_log_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--store=memory:", "--audit", "audit.jsonl"];
    let first = StdioServer::start(folder.path(), &options);
    let second = output(command(folder.path(), &["stdio"]).args(options));
    let errors = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(1) && errors.contains("another process"), "{errors}");
    first.end();
    let good = verify(folder.path(), &[]);
    assert!(good.status.success());
    let nowhere = ["stdio", "--store=memory:", "--audit", "no/such/folder/audit"];
    let output = output(&mut command(folder.path(), &nowhere));
    assert_eq!(output.status.code(), Some(1));
}

/// While the log cannot be written, calls are rejected with a retry hint; the program still handles
/// signals and can be stopped.
#[test]
fn a_full_disk_rejects_calls_without_blocking_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[offer]\nstore = \"memory:\"\n[audit]\nfile = \"audit.jsonl\"\n";
    std::fs::write(folder.path().join("flow.toml"), text).unwrap();
    let mut program = Command::new("sh");
    program.current_dir(folder.path()).env_remove("MCP_FLOW_CONFIG").env_remove("MCP_FLOW_LOG");
    // Past the limit a write fails as on a full disk.
    let limited = "ulimit -f 8; exec \"$0\" stdio --config flow.toml";
    program.args(["-c", limited, PROGRAM]);
    let mut served = StdioServer::spawn(program);
    let sum = json!({"name": "calculator.add", "arguments": {"a": 1, "b": 2}});
    let refused = (0..20_000).find_map(|_| {
        let answer = served.call("tools/call", &sum);
        answer.get("error").cloned()
    });
    let refused = refused.expect("calls that cannot be written down go on");
    assert_eq!(refused["data"]["name"], "OVERLOADED", "{refused}");
    assert!(refused["data"]["retryAfterMs"].as_u64().is_some(), "{refused}");
    assert!(served.call("tools/list", &json!({})).get("error").is_some());
    assert_eq!(served.call("ping", &json!({}))["result"], json!({}));
    served.end();
}
