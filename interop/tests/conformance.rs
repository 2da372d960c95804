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
    check("conformance-0.2", "2025-03-26", 1).await;
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
    for scenario in SKILLS {
        run_suite("conformance-0.2", scenario, &["--scenario", scenario], 1).await;
    }
}

/// The scenarios of the tasks extension, which belong to no revision.
#[tokio::test]
async fn the_tasks_extension_is_passed() {
    for scenario in TASKS {
        run_suite("conformance-0.2", scenario, &["--scenario", scenario], 1).await;
    }
    // The suite skips this one, whatever the server does: it is not written yet.
    let chosen = ["--scenario", SKIPPED];
    let checks = run_scenarios("conformance-0.2", SKIPPED, &chosen, 1).await;
    let statuses: Vec<_> = checks.iter().map(|(_, check)| &check["status"]).collect();
    assert_eq!(statuses, ["SKIPPED"], "{checks:#?}");
}

/// Every scenario that the suites list for servers runs above, at each of its revisions.
#[tokio::test]
async fn no_scenario_is_left_out() {
    let extensions = [&SKILLS[..], &TASKS, &[SKIPPED]].concat();
    for (suite, least, run) in [
        ("conformance-0.1", 32, &["2025-06-18", "2025-11-25"][..]),
        ("conformance-0.2", 65, &["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]),
    ] {
        let listed = listed(suite, "--server").await;
        assert!(listed.len() >= least, "{suite}: {listed:#?}");
        for (scenario, revisions) in &listed {
            let is_run = match &revisions[..] {
                [only] if only == "extension" => extensions.contains(&&**scenario),
                revisions => revisions.iter().all(|revision| run.contains(&&**revision)),
            };
            assert!(is_run, "{suite}: {scenario} at {revisions:?}");
        }
    }
}

const SKILLS: [&str; 3] =
    ["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"];

const TASKS: [&str; 9] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];

/// Scenario that always reports SKIPPED.
const SKIPPED: &str = "tasks-status-notifications";

/// Lists the scenarios of a suite, for `--server` or `--client`, with the revisions of each.
pub(crate) async fn listed(suite: &str, kind: &str) -> Vec<(String, Vec<String>)> {
    let suite = format!("conformance/node_modules/{suite}/dist/index.js");
    let listed = run(node(&suite).args(["list", kind])).await;
    let lines = listed.stdout.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let scenarios = lines.filter_map(|line| line.strip_suffix(']')?.split_once(" ["));
    let revisions = |list: &str| list.split(',').map(str::to_owned).collect();
    scenarios.map(|(name, list)| (name.to_owned(), revisions(list))).collect()
}

/// Runs all scenarios of a revision. A warning or a skipped check is a failure too, and so is a
/// suite with fewer scenarios than expected.
async fn check(suite: &str, revision: &str, scenarios: usize) {
    let chosen = ["--suite", "all", "--spec-version", revision];
    run_suite(suite, revision, &chosen, scenarios).await;
}

/// Runs the scenarios that arguments choose, all of whose checks have to succeed.
async fn run_suite(suite: &str, name: &str, chosen: &[&str], scenarios: usize) {
    let checks = run_scenarios(suite, name, chosen, scenarios).await;
    let is_good = |check: &Value| matches!(check["status"].as_str(), Some("SUCCESS" | "INFO"));
    let mut faults = String::new();
    for (scenario, check) in checks.iter().filter(|(_, check)| !is_good(check)) {
        writeln!(faults, "{scenario}: {check:#}").unwrap();
    }
    assert!(faults.is_empty(), "{suite} at {name}:\n{faults}");
}

/// Runs scenarios, and returns their checks with the scenario of each.
async fn run_scenarios(
    suite: &str,
    name: &str,
    chosen: &[&str],
    scenarios: usize,
) -> Vec<(String, Value)> {
    let (_program, url) = start(Command::new(everything()).args(["--listen", "127.0.0.1:0"])).await;
    run_against(url.trim(), suite, name, chosen, scenarios).await
}

/// Runs scenarios against a server.
pub(crate) async fn run_against(
    url: &str,
    suite: &str,
    name: &str,
    chosen: &[&str],
    scenarios: usize,
) -> Vec<(String, Value)> {
    let folder = Folder::new(&format!("{suite}-{name}"));
    let mut command = node(&format!("conformance/node_modules/{suite}/dist/index.js"));
    command.arg("server").args(chosen).args(["--url", url]);
    let outcome = run(command.arg("--output-dir").arg(&folder.0)).await;
    let ran: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(ran.len() >= scenarios, "{} of {scenarios} ran: {outcome:#?}", ran.len());
    let mut all = Vec::new();
    for scenario in &ran {
        let checks = std::fs::read(scenario.path().join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        let scenario = scenario.file_name().into_string().unwrap();
        all.extend(checks.into_iter().map(|check| (scenario.clone(), check)));
    }
    let has_failed = all.iter().any(|(_, check)| check["status"] == "FAILURE");
    assert!(has_failed || outcome.code == Some(0), "{outcome:#?}");
    all
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
