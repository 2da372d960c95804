//! The official conformance suite from the other side: its servers, tried by our client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;

use interop::{everything_client, node, run};
use serde_json::Value;

/// The scenarios of the first suite that are neither about authorization nor extensions.
#[tokio::test]
async fn the_suite_of_2025_is_passed() {
    let scenarios =
        ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"];
    check("conformance-0.1", "2025-11-25", &scenarios).await;
    check("conformance-0.1", "2025-06-18", &scenarios[..2]).await;
}

/// Those of the newest suite, for servers that shake hands.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_a_handshake() {
    let scenarios = [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ];
    check("conformance-0.2", "2025-11-25", &scenarios).await;
    check("conformance-0.2", "2025-06-18", &scenarios[..2]).await;
}

/// Those of the newest suite, for servers that do not.
#[tokio::test]
async fn the_suite_of_2026_is_passed_without_a_handshake() {
    let scenarios = [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ];
    check("conformance-0.2", "2026-07-28", &scenarios).await;
}

/// Runs scenarios of a revision. No check may fail or warn; one that is left out is about something
/// a client of another era does.
async fn check(suite: &str, revision: &str, scenarios: &[&str]) {
    let mut faults = String::new();
    for scenario in scenarios {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("client-{suite}-{revision}-{scenario}"));
        // What an earlier run left behind must not count.
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = node(&format!("conformance/node_modules/{suite}/dist/index.js"));
        command.args(["client", "--scenario", scenario, "--spec-version", revision]);
        command.arg("--command").arg(everything_client()).arg("--output-dir").arg(&folder);
        let outcome = run(&mut command).await;
        let mut seen = 0;
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let checks = std::fs::read(entry.unwrap().path().join("checks.json")).unwrap();
            let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
            for check in checks {
                seen += usize::from(check["status"] == "SUCCESS");
                if matches!(check["status"].as_str(), Some("FAILURE" | "WARNING")) {
                    writeln!(faults, "{scenario}: {check:#}").unwrap();
                }
            }
        }
        if seen == 0 || outcome.code != Some(0) {
            writeln!(faults, "{scenario}: {seen} checks succeeded, {outcome:#?}").unwrap();
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
    assert!(faults.is_empty(), "{suite} at {revision}:\n{faults}");
}
