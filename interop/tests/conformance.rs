//! The official conformance suite, run against the everything example.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use interop::{everything, node, run, start};
use serde_json::Value;
use tokio::process::Command;

/// MCP-006, MCP-016, MCP-020, MCP-049: all scenarios of the first suites, without extensions.
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

/// The scenarios of the skills extension, which belong to no revision.
#[tokio::test]
async fn the_skills_extension_is_passed() {
    for scenario in ["enumeration", "manifest", "directory"] {
        let scenario = format!("sep-2640-skills-{scenario}");
        run_suite("conformance-0.2", &scenario, &["--scenario", &scenario], 1).await;
    }
}

/// Runs all scenarios of a revision. A warning or a skipped check is a failure too, and so is a
/// suite with fewer scenarios than expected.
async fn check(suite: &str, revision: &str, scenarios: usize) {
    let chosen = ["--suite", "all", "--spec-version", revision];
    run_suite(suite, revision, &chosen, scenarios).await;
}

/// Runs the scenarios that arguments choose.
async fn run_suite(suite: &str, name: &str, chosen: &[&str], scenarios: usize) {
    let folder = Folder::new(&format!("{suite}-{name}"));
    let (_program, url) = start(Command::new(everything()).args(["--listen", "127.0.0.1:0"])).await;
    let mut command = node(&format!("conformance/node_modules/{suite}/dist/index.js"));
    command.arg("server").args(chosen).args(["--url", url.trim()]);
    let outcome = run(command.arg("--output-dir").arg(&folder.0)).await;
    let ran: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(ran.len() >= scenarios, "{} of {scenarios} ran: {outcome:#?}", ran.len());
    let mut faults = String::new();
    for scenario in &ran {
        let checks = std::fs::read(scenario.path().join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        let is_good = |check: &&Value| matches!(check["status"].as_str(), Some("SUCCESS" | "INFO"));
        for check in checks.iter().filter(|check| !is_good(check)) {
            let scenario = scenario.file_name().into_string().unwrap();
            writeln!(faults, "{scenario}: {check:#}").unwrap();
        }
    }
    assert!(faults.is_empty(), "{suite} at {name}:\n{faults}");
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
