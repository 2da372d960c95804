//! The official conformance suite for clients: its servers against this client.

use std::fmt::Write;
use std::path::Path;

use interop::{everything_client, node, run};
use serde_json::Value;

/// Scenarios of the first suite without authorization and extensions.
#[tokio::test]
async fn the_suite_of_2025_is_passed() {
    let scenarios =
        ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"];
    check("conformance-0.1", "2025-11-25", &scenarios).await;
    check("conformance-0.1", "2025-06-18", &scenarios[..2]).await;
}

/// Scenarios of the newest suite with a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_a_handshake() {
    check("conformance-0.2", "2025-11-25", &HANDSHAKE).await;
    check("conformance-0.2", "2025-06-18", &HANDSHAKE[..2]).await;
}

/// Scenarios of the newest suite without a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_without_a_handshake() {
    check("conformance-0.2", "2026-07-28", &STATELESS).await;
}

/// Skills are listed without reading a file, and verified when they are read.
#[tokio::test]
async fn the_skills_extension_is_passed() {
    check("conformance-0.2", EXTENSION, &SKILLS).await;
}

/// MCP-089: all authorization scenarios of the first suite.
#[tokio::test]
async fn the_suite_of_2025_is_passed_with_authorization() {
    check("conformance-0.1", "2025-11-25", &AUTH).await;
    check("conformance-0.1", "2025-06-18", &AUTH_BEFORE).await;
    // The other one publishes metadata of an issuer at another location, which the newest suite has
    // fixed and expects to be refused (`auth/metadata-issuer-mismatch`).
    check("conformance-0.1", "2025-03-26", &AUTH_FIRST[1..]).await;
    check("conformance-0.1", "draft", &AUTH_DRAFT).await;
    check("conformance-0.1", EXTENSION, &AUTH_PROGRAM).await;
}

/// MCP-089: all authorization scenarios of the newest suite, with a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_authorization_and_a_handshake() {
    check("conformance-0.2", "2025-11-25", &AUTH).await;
    check("conformance-0.2", "2025-06-18", &AUTH_BEFORE).await;
    check("conformance-0.2", "2025-03-26", &AUTH_FIRST).await;
}

/// MCP-089: the same without a handshake.
#[tokio::test]
async fn the_suite_of_2026_is_passed_with_authorization_without_a_handshake() {
    check("conformance-0.2", "2026-07-28", &AUTH).await;
    check("conformance-0.2", "2026-07-28", &AUTH_DRAFT).await;
    check("conformance-0.2", "2026-07-28", &AUTH_NEWEST).await;
    check("conformance-0.2", EXTENSION, &AUTH_PROGRAM).await;
    check("conformance-0.2", EXTENSION, &AUTH_EXTENSIONS).await;
}

/// Every scenario that the newest suite lists for clients is among those above.
#[tokio::test]
async fn no_scenario_is_left_out() {
    let suite = "conformance/node_modules/conformance-0.2/dist/index.js";
    let listed = run(node(suite).args(["list", "--client"])).await;
    let scenarios = listed.stdout.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let scenarios: Vec<_> = scenarios.filter_map(|line| line.split(' ').next()).collect();
    assert!(scenarios.len() >= 48, "{listed:#?}");
    let run: Vec<_> = [&HANDSHAKE[..], &STATELESS, &SKILLS, &AUTH, &AUTH_BEFORE, &AUTH_FIRST]
        .into_iter()
        .chain([&AUTH_DRAFT[..], &AUTH_NEWEST, &AUTH_PROGRAM, &AUTH_EXTENSIONS])
        .flatten()
        .collect();
    let missing: Vec<_> = scenarios.iter().filter(|name| !run.contains(name)).collect();
    assert!(missing.is_empty(), "not run: {missing:?}");
}

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

/// Authorization scenarios of 2025-03-26.
const AUTH_FIRST: [&str; 2] =
    ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"];

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

/// Runs scenarios of a revision. No check may fail or warn; a skipped one is about clients of
/// another era.
async fn check(suite: &str, revision: &str, scenarios: &[&str]) {
    let mut faults = String::new();
    for scenario in scenarios {
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
    }
    assert!(faults.is_empty(), "{suite} at {revision}:\n{faults}");
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
