//! The official conformance suite, run against the everything example.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use interop::{everything, node, run, start};
use serde_json::Value;
use tokio::process::Command;

/// MCP-006, MCP-016, MCP-020, MCP-049: all scenarios of the first suites. Tasks and skills are
/// extensions and not among them.
#[tokio::test]
async fn the_suite_of_2025_is_passed() {
    check("conformance-0.1", "2025-06-18", 26).await;
    check("conformance-0.1", "2025-11-25", 32).await;
}

/// MCP-006, MCP-016, MCP-020, MCP-049: the newest suite at the revisions with a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_a_handshake() {
    check("conformance-0.2", "2025-06-18", 27).await;
    check("conformance-0.2", "2025-11-25", 33).await;
}

/// MCP-020, MCP-049: the newest suite at the stateless revision.
#[tokio::test]
async fn the_suite_of_2026_is_passed_without_a_handshake() {
    check("conformance-0.2", "2026-07-28", 40).await;
}

/// Runs all scenarios of a revision. A warning or a skipped check is a failure too, and so is a
/// suite with fewer scenarios than expected.
async fn check(suite: &str, revision: &str, scenarios: usize) {
    let folder = Folder::new(&format!("{suite}-{revision}"));
    let (_program, url) = start(Command::new(everything()).args(["--listen", "127.0.0.1:0"])).await;
    let mut command = node(&format!("conformance/node_modules/{suite}/dist/index.js"));
    command.args(["server", "--suite", "all", "--spec-version", revision, "--url", url.trim()]);
    let outcome = run(command.arg("--output-dir").arg(&folder.0)).await;
    let ran: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(ran.len() >= scenarios, "{} of {scenarios} ran: {outcome:#?}", ran.len());
    let mut faults = String::new();
    for scenario in &ran {
        let checks = std::fs::read(scenario.path().join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        let is_good = |check: &&Value| matches!(check["status"].as_str(), Some("SUCCESS" | "INFO"));
        for check in checks.iter().filter(|check| !is_good(check)) {
            let name = scenario.file_name().into_string().unwrap();
            writeln!(faults, "{name}: {check:#}").unwrap();
        }
    }
    assert!(faults.is_empty(), "{suite} at {revision}:\n{faults}");
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
}

/// A directory that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Results of an earlier run must not count.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
