//! The real program, as scripts call it.

mod calls;
mod contents;
mod downloads;
mod hostile;
mod leaving;
mod literal;
mod revisions;
mod runs;
pub(crate) mod sampling;
mod sessions;
mod workflow;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// A command with a server that is started for it.
fn local<'a>(command: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let server = ["--", PROGRAM, "stdio", "--diagnostics", "--store", "memory:"];
    [&[command], words, &server].concat()
}

/// Runs a command: what it wrote for programs, what for people, and its exit code.
fn run(arguments: &[&str], input: &str) -> (String, String, i32) {
    run_in(Path::new("."), arguments, input)
}

/// Runs a command in a folder, which is also where the user's own settings are looked for.
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

/// `mcp-flow serve` on a free port. Killed when this is dropped.
struct Server {
    child: Child,
    places: Value,
    _deadline: Deadline,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        // Tests run side by side, and a journal is one server's.
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
        Self { child, places: serde_json::from_str(&line).unwrap(), _deadline }
    }

    /// Where it is spoken to by Streamable HTTP.
    fn url(&self) -> &str {
        self.places["mcp"].as_str().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
