//! The program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// How the program is started. With one place for calls, a call after a cancelled one is answered
/// only if the cancel really stopped the work.
pub const ARGUMENTS: [&str; 6] =
    ["stdio", "--diagnostics", "--max-concurrency", "1", "--store", "memory:"];

/// The program that `MCP_FLOW` names, or else one built here and now.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("MCP_FLOW").map(PathBuf::from);
        named.unwrap_or_else(|| build(&["--package", "mcp-flow-cli", "--bin", "mcp-flow"]))
    })
}

/// The example that `MCP_FLOW_EVERYTHING` names, or else one built here and now: it serves what the
/// conformance suite asks for.
pub fn everything() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("MCP_FLOW_EVERYTHING").map(PathBuf::from);
        let example = ["--package", "mcp-flow-examples", "--example", "everything"];
        named.unwrap_or_else(|| build(&example))
    })
}

/// The example client that `MCP_FLOW_EVERYTHING_CLIENT` names, or else one built here and now.
pub fn everything_client() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("MCP_FLOW_EVERYTHING_CLIENT").map(PathBuf::from);
        let example = ["--package", "mcp-flow-examples", "--example", "everything_client"];
        named.unwrap_or_else(|| build(&example))
    })
}

/// Cargo hands a package the path of its own programs only, so these have to be asked for.
fn build(what: &[&str]) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked"])
        .args(what)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "the program does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo says where the program is")
}
