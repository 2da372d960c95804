//! Backpressure of the real program: clients that send more than they read.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mcp_flow_testkit::wait::Deadline;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The directory for journals.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
const MIB: u64 = 1024 * 1024;

/// MCP-056, MCP-074: a hundred thousand concurrent slow calls take bounded memory, a later
/// cancellation takes effect, and every other call is answered exactly once.
#[test]
fn a_hundred_thousand_slow_calls_are_each_answered_once() {
    let mut client = Client::start();
    let before = client.memory();
    let calls = 100_000;
    let mut stdin = client.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for id in 0..calls {
            writeln!(stdin, "{}", call(id, "sleep", json!({"ms": 10}))).unwrap();
        }
        let cancel = json!({"requestId": calls - 1});
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "$/cancel", "params": cancel}))
            .unwrap();
        stdin
    });
    let mut seen = HashSet::new();
    let mut cancelled_at = None;
    let mut peak = 0;
    while seen.len() < calls {
        let reply = client.reply();
        let id = usize::try_from(reply["id"].as_u64().unwrap()).unwrap();
        assert!(seen.insert(id), "{id} was answered twice");
        if reply["error"]["data"]["name"] == "CANCELLED" {
            assert_eq!(id, calls - 1);
            cancelled_at = Some(seen.len());
        }
        if seen.len().is_multiple_of(10_000) {
            peak = peak.max(client.memory());
        }
    }
    drop(writer.join().unwrap());
    assert!(cancelled_at.unwrap() < calls, "the cancel overtook calls that were waiting");
    let growth = peak.saturating_sub(before) / MIB;
    assert!(growth <= 48, "grew by {growth} MiB");
}

/// MCP-056, MCP-074: a client that sends without reading costs at most 32 MB, and everything is
/// answered once it reads.
#[test]
fn a_client_that_never_reads_costs_bounded_memory() {
    let mut client = Client::start();
    let before = client.memory();
    let calls = 10_000;
    let text = "x".repeat(64 * 1024);
    let mut stdin = client.stdin.take().unwrap();
    let (progress, written) = mpsc::channel();
    let writer = thread::spawn(move || {
        for id in 0..calls {
            writeln!(stdin, "{}", call(id, "echo", json!({"text": text}))).unwrap();
            progress.send(id).unwrap();
        }
    });
    // The writer blocks when the server has stopped reading.
    while written.recv_timeout(Duration::from_secs(1)).is_ok() {}
    let growth = client.memory().saturating_sub(before);
    assert!(!writer.is_finished(), "the server stopped reading");
    let mut seen = HashSet::new();
    while seen.len() < calls {
        let reply = client.reply();
        assert_eq!(reply["result"]["content"][0]["text"].as_str().map(str::len), Some(64 * 1024));
        assert!(seen.insert(reply["id"].as_u64().unwrap()));
    }
    writer.join().unwrap();
    assert!(growth <= 32_000_000, "grew by {growth} bytes");
}

/// C-20: `exit` ends the program even if its replies are never read.
#[test]
fn a_client_that_leaves_without_reading_is_not_waited_for() {
    let mut client = Client::start();
    let stdin = client.stdin.as_mut().unwrap();
    let text = "x".repeat(64 * 1024);
    for id in 0..100 {
        writeln!(stdin, "{}", call(id, "echo", json!({"text": text}))).unwrap();
    }
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "exit"})).unwrap();
    assert_eq!(client.child.wait().unwrap().code(), Some(1));
}

struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<std::process::ChildStdout>,
    _deadline: Deadline,
}

impl Client {
    fn start() -> Self {
        let mut child = Command::new(PROGRAM)
            .current_dir(FOLDER)
            .args(["stdio", "--diagnostics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
        let _deadline = Deadline::of(&child);
        let mut client = Self { child, stdin, stdout, _deadline };
        let params = json!({"protocolVersion": "2025-11-25"});
        let open =
            json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params});
        writeln!(client.stdin.as_mut().unwrap(), "{open}").unwrap();
        client.reply();
        client
    }

    fn reply(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call(id: usize, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}
