//! The program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// How the program is started. With one place for calls, a call after a cancelled one is answered
/// only if the cancel really stopped the work.
pub const ARGUMENTS: [&str; 4] = ["stdio", "--diagnostics", "--max-concurrency", "1"];

/// The program that `MCP_FLOW` names, or else one built here and now.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("MCP_FLOW").map_or_else(build, PathBuf::from))
}

/// Cargo hands a package the path of its own programs only, so this one has to be asked for.
fn build() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--package", "mcp-flow-cli", "--bin", "mcp-flow"])
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
