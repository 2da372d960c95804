//! The program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// Arguments of the program. With one permit, a call after a cancelled one is answered only if the
/// cancel really stopped the work.
pub const ARGUMENTS: [&str; 6] =
    ["stdio", "--diagnostics", "--max-concurrency", "1", "--store", "memory:"];

/// Path of the program: `MCP_FLOW`, or built now.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("MCP_FLOW").map(PathBuf::from);
        named.unwrap_or_else(|| build(&["--package", "mcp-flow-cli", "--bin", "mcp-flow"]))
    })
}

/// Copies the program to a directory without its symbols, for tests that compress it: half the size.
pub fn strip_program(folder: &Path) -> PathBuf {
    let stripped = folder.join("mcp-flow");
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(program()).status();
    assert!(status.expect("strip can be started").success(), "strip fails");
    stripped
}

/// Path of the example server for the conformance suite: `MCP_FLOW_EVERYTHING`, or built now.
pub fn everything() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("MCP_FLOW_EVERYTHING").map(PathBuf::from);
        let example = ["--package", "mcp-flow-examples", "--example", "everything"];
        named.unwrap_or_else(|| build(&example))
    })
}

/// Path of the example client: `MCP_FLOW_EVERYTHING_CLIENT`, or built now.
pub fn everything_client() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let named = std::env::var_os("MCP_FLOW_EVERYTHING_CLIENT").map(PathBuf::from);
        let example = ["--package", "mcp-flow-examples", "--example", "everything_client"];
        named.unwrap_or_else(|| build(&example))
    })
}

/// Cargo gives a package the path of its own programs only, so these are built explicitly.
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
