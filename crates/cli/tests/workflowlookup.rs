//! `mcp-flow stdio --profile workflowlookup`: the literal protocol of seed 004.
//!
//! Two groups (WFL-064): protocol (handshake, discovery, errors) and schemas (inputs, outputs,
//! examples).

mod protocol;
mod schemas;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use mcp_flow_testkit::wait::end;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The tool definitions of the specification.
const TOOLS: &str = include_str!("../../workflow/schema/tools.json");

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": "open", "method": "initialize",
        "params": {"protocolVersion": "2024-11-05", "capabilities": {}}})
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn check_error(reply: &Value, code: i64, message: &str, data: Value) {
    let error = &reply["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)), "{reply}");
    assert!(error["data"].is_object(), "{reply}");
    for (name, value) in data.as_object().unwrap() {
        assert_eq!(&error["data"][name], value, "{reply}");
    }
}

/// Returns the replies to lines sent after the handshake.
fn opened(arguments: &[&str], lines: &[String]) -> Vec<Value> {
    let mut all = vec![initialize().to_string()];
    all.extend_from_slice(lines);
    let mut replies = replies(arguments, &all);
    assert_eq!(replies.remove(0)["id"], "open");
    assert_eq!(replies.len(), lines.len());
    replies
}

fn session(arguments: &[&str], requests: &[Value]) -> Vec<Value> {
    let lines: Vec<_> = requests.iter().map(ToString::to_string).collect();
    replies(arguments, &lines)
}

fn replies(arguments: &[&str], lines: &[String]) -> Vec<Value> {
    let arguments = [&["stdio", "--profile", "workflowlookup"], arguments].concat();
    let output = run(&arguments, format!("{}\n", lines.join("\n")).as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = spawn(arguments, Path::new("."));
    let _ = child.stdin.take().unwrap().write_all(input);
    end(child)
}

fn spawn(arguments: &[&str], folder: &Path) -> std::process::Child {
    Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}
