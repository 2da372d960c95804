//! The commands of the real program, as scripts run them.

mod calls;
mod downloads;
mod first_use;
mod flows;
mod hostile_servers;
mod interrupted_sessions;
mod revisions;
pub(crate) mod sampling;
mod seed000_server;
mod seed002_content;
mod sessions;
mod tail;
mod tasks;
mod time_travel;
mod workflow;
mod workflow_runs;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The arguments of a command with a stdio server.
fn local<'a>(command: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let server = ["--", PROGRAM, "stdio", "--diagnostics", "--store", "memory:"];
    [&[command], words, &server].concat()
}

/// Runs a command, and returns standard output, standard error and the exit code.
fn run(arguments: &[&str], input: &str) -> (String, String, i32) {
    run_in(Path::new("."), arguments, input)
}

/// Runs a command in a folder, which is also the user's configuration folder.
fn run_in(folder: &Path, arguments: &[&str], input: &str) -> (String, String, i32) {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Not every command reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = end(child);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

/// `mcp-flow serve` on a free port, killed on drop.
struct Server {
    child: Child,
    endpoints: Value,
    _deadline: Deadline,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        // Tests run concurrently, and a journal has one server.
        let memory: &[&str] = match options.contains(&"--store") {
            true => &[],
            false => &["--store", "memory:"],
        };
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(memory)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&child);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, endpoints: serde_json::from_str(&line).unwrap(), _deadline }
    }

    /// The URL of the Streamable HTTP endpoint.
    fn url(&self) -> &str {
        self.endpoints["mcp"].as_str().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
