//! The official conformance suite for clients: its servers against this client.

use std::fmt::Write;
use std::path::Path;

use interop::{everything_client, node, run};
use serde_json::Value;

use super::conformance::listed;

/// Scenarios of the first suite without authorization and extensions.
#[tokio::test]
async fn the_suite_of_2025_is_passed() {
    check(&PLAIN_2025).await;
}

/// Scenarios of the newest suite, with and without a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed() {
    check(&PLAIN_2026).await;
}

/// Skills are listed without reading a file, and verified when they are read.
#[tokio::test]
async fn the_skills_extension_is_passed() {
    check(&[(NEWEST, EXTENSION, &SKILLS)]).await;
}

/// MCP-089: all authorization scenarios of the first suite.
#[tokio::test]
async fn the_suite_of_2025_is_passed_with_authorization() {
    check(&AUTH_2025).await;
}

/// MCP-089: all authorization scenarios of the newest suite, with a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_authorization_and_a_handshake() {
    check(&AUTH_2026_HANDSHAKE).await;
}

/// MCP-089: the same without a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_authorization_without_a_handshake() {
    check(&AUTH_2026).await;
}

/// Every scenario that the suites list for clients runs above, at each of its revisions.
#[tokio::test]
async fn no_scenario_is_left_out() {
    let skills: [Run; 1] = [(NEWEST, EXTENSION, &SKILLS)];
    let runs = [&PLAIN_2025[..], &PLAIN_2026, &skills, &AUTH_2025, &AUTH_2026_HANDSHAKE];
    let runs = [&runs.concat()[..], &AUTH_2026].concat();
    for (suite, least) in [(FIRST, 26), (NEWEST, 48)] {
        let listed = listed(suite, "--client").await;
        assert!(listed.len() >= least, "{suite}: {listed:#?}");
        for (scenario, revisions) in &listed {
            for revision in revisions {
                let is_run = runs.iter().any(|(of, at, scenarios)| {
                    *of == suite && at == revision && scenarios.contains(&&**scenario)
                });
                let is_contradicted = (suite, &**scenario) == (FIRST, CONTRADICTED);
                assert!(is_run != is_contradicted, "{suite}: {scenario} at {revision}");
            }
        }
    }
}

/// Scenarios of a suite, run at a revision.
type Run = (&'static str, &'static str, &'static [&'static str]);

const FIRST: &str = "conformance-0.1";
const NEWEST: &str = "conformance-0.2";

const PLAIN_2025: [Run; 2] = [
    (FIRST, "2025-11-25", HANDSHAKE.first_chunk::<4>().unwrap()),
    (FIRST, "2025-06-18", HANDSHAKE.first_chunk::<2>().unwrap()),
];

const PLAIN_2026: [Run; 3] = [
    (NEWEST, "2025-11-25", &HANDSHAKE),
    (NEWEST, "2025-06-18", HANDSHAKE.first_chunk::<2>().unwrap()),
    (NEWEST, "2026-07-28", &STATELESS),
];

const AUTH_2025: [Run; 6] = [
    (FIRST, "2025-11-25", &AUTH),
    (FIRST, "2025-06-18", &AUTH_BEFORE),
    // Without `CONTRADICTED`.
    (FIRST, "2025-03-26", &["auth/2025-03-26-oauth-endpoint-fallback"]),
    (FIRST, "draft", &AUTH_DRAFT),
    (FIRST, EXTENSION, &AUTH_PROGRAM),
    (FIRST, EXTENSION, &["auth/cross-app-access-complete-flow"]),
];

const AUTH_2026_HANDSHAKE: [Run; 3] = [
    (NEWEST, "2025-11-25", &AUTH),
    (NEWEST, "2025-06-18", &AUTH_BEFORE),
    (NEWEST, "2025-03-26", &[CONTRADICTED, "auth/2025-03-26-oauth-endpoint-fallback"]),
];

const AUTH_2026: [Run; 5] = [
    (NEWEST, "2026-07-28", &AUTH),
    (NEWEST, "2026-07-28", &AUTH_DRAFT),
    (NEWEST, "2026-07-28", &AUTH_NEWEST),
    (NEWEST, EXTENSION, &AUTH_PROGRAM),
    (NEWEST, EXTENSION, &AUTH_EXTENSIONS),
];

/// Scenario that the first suite contradicts the newest in: it publishes metadata of an issuer at
/// another location, which the newest suite has fixed and expects clients to refuse
/// (`auth/metadata-issuer-mismatch`). It runs in the newest suite only.
const CONTRADICTED: &str = "auth/2025-03-26-oauth-metadata-backcompat";

/// Scenarios with a handshake; the first two are older than the others.
const HANDSHAKE: [&str; 5] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "json-schema-2020-12-preservation",
];

/// Scenarios without a handshake.
const STATELESS: [&str; 8] = [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
];

/// Authorization scenarios since 2025-11-25.
const AUTH: [&str; 14] = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
];

/// Authorization scenarios of 2025-06-18.
const AUTH_BEFORE: [&str; 3] = [
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
];

/// Authorization scenarios of 2026-07-28 in the first suite.
const AUTH_DRAFT: [&str; 3] =
    ["auth/resource-mismatch", "auth/offline-access-scope", "auth/offline-access-not-supported"];

/// Authorization scenarios that the newest suite adds.
const AUTH_NEWEST: [&str; 8] = [
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
];

/// Revision name of extensions.
const EXTENSION: &str = "extension";

/// Scenarios of the skills extension.
const SKILLS: [&str; 4] = [
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
];

/// Extension for client credentials.
const AUTH_PROGRAM: [&str; 2] = ["auth/client-credentials-jwt", "auth/client-credentials-basic"];

/// Extensions for tokens bound to a key, workloads, and identity providers of enterprises.
const AUTH_EXTENSIONS: [&str; 4] = [
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
    "auth/enterprise-managed-authorization",
];

/// Runs scenarios. No check may fail or warn; a skipped one is about clients of another era.
async fn check(runs: &[Run]) {
    for &(suite, revision, scenarios) in runs {
        let mut faults = String::new();
        for scenario in scenarios {
            faults += &check_scenario(suite, revision, scenario).await;
        }
        assert!(faults.is_empty(), "{suite} at {revision}:\n{faults}");
    }
}

/// Runs one scenario, and returns what is wrong.
async fn check_scenario(suite: &str, revision: &str, scenario: &str) -> String {
    let mut faults = String::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("client-{suite}-{revision}-{scenario}"));
    // Results of an earlier run must not count.
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = node(&format!("conformance/node_modules/{suite}/dist/index.js"));
    command.args(["client", "--scenario", scenario]);
    if revision != EXTENSION {
        command.args(["--spec-version", revision]);
    }
    command.arg("--command").arg(everything_client()).arg("--output-dir").arg(&folder);
    let outcome = run(&mut command).await;
    let mut seen = 0;
    for check in checks_in(&folder) {
        seen += usize::from(check["status"] == "SUCCESS");
        if matches!(check["status"].as_str(), Some("FAILURE" | "WARNING")) {
            writeln!(faults, "{scenario}: {check:#}").unwrap();
        }
    }
    if seen == 0 || outcome.code != Some(0) {
        writeln!(faults, "{scenario}: {seen} checks succeeded, {outcome:#?}").unwrap();
    }
    let _ = std::fs::remove_dir_all(&folder);
    faults
}

/// Reads all checks that a suite has recorded, in directories by the parts of a scenario's name.
fn checks_in(folder: &Path) -> Vec<Value> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let checks = paths.into_iter().map(|path| match path.is_dir() {
        true => checks_in(&path),
        false if path.ends_with("checks.json") => {
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()
        }
        false => Vec::new(),
    });
    checks.flatten().collect()
}
