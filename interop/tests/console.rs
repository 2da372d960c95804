//! The console in a browser. Each test is a script in `browser/console`, which starts the program
//! and the browser itself; screenshots are written to `target/screenshots`.

use std::path::{Path, PathBuf};

use interop::{node, program, run};

/// Every view is complete in light and dark and on a phone, is accessible, and the whole page loads
/// less than 64 KB.
#[tokio::test]
async fn every_view_works_and_is_accessible() {
    script("views").await;
}

/// INT-035, INT-040, INT-061: a whole session with an invalid answer, in two windows at once; all
/// prompt types; a server that is killed in the middle and restarted.
#[tokio::test]
async fn sessions_run_in_the_page_and_survive_a_restart() {
    script("session").await;
}

/// Several large results concurrently, beside a session.
#[tokio::test]
async fn large_files_are_downloaded_in_parallel() {
    script("download").await;
}

/// WT-029, WT-036, WT-049, C-12: a file truncated during transfer is an error with the reason,
/// requests are cancelled by the transport's method, and CBOR is used where it is preferred.
#[tokio::test]
async fn streams_fail_with_a_reason_and_cbor_is_used() {
    script("streams").await;
}

/// C-55, WT-049: the client of `console/client.js` alone, without a browser: sessions that expire,
/// superseded questions, and `$/streamError` before and after the reply that names the stream.
#[tokio::test]
async fn the_browser_client_reports_expiry_and_failed_streams() {
    script("client").await;
}

/// WT-001, WT-006: WebTransport if available, Streamable HTTP if UDP is blocked, with reconnection
/// after a restart.
#[tokio::test]
async fn the_page_uses_the_best_available_transport() {
    script("transport").await;
}

/// C-53: a missing or expired token is asked for, and the page continues where it was.
#[tokio::test]
async fn a_token_is_asked_for_and_replaced() {
    script("token").await;
}

/// PAT-035: no text of a tool, a prompt or a user is executed.
#[tokio::test]
async fn hostile_texts_stay_texts() {
    script("hostile").await;
}

/// Apps of other servers: the official example works, and apps that navigate, open windows, forge
/// messages, flood, or call tools that they do not see harm nothing.
#[tokio::test]
async fn apps_are_shown_and_confined() {
    script("apps").await;
}

/// Tool files are shown with their problems, their tools can be tried, and a saved file shows at once.
#[tokio::test]
async fn tool_files_are_shown_and_tried() {
    script("tool-files").await;
}

/// Upstreams of a gateway: their state, quarantined tools, approvals, and the traffic of one.
#[tokio::test]
async fn upstreams_are_shown_and_administered() {
    script("upstreams").await;
}

/// C-53: administrators see all 10,000 sessions, other users their own.
#[tokio::test]
async fn ten_thousand_sessions_are_listed_and_updated() {
    script("many").await;
}

/// The types in the comments are correct.
#[tokio::test]
async fn the_console_is_well_typed() {
    let mut compiler = node("browser/node_modules/typescript/bin/tsc");
    compiler.arg("--project").arg(root().join("console/tsconfig.json"));
    let outcome = run(&mut compiler).await;
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
}

/// The script that makes the screenshots in docs finds everything that it shows.
#[tokio::test]
async fn screenshots_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    run_script("readme", folder.path(), &["2"]).await;
    for name in ["server", "session", "traffic"] {
        let made = std::fs::read(folder.path().join(format!("console-{name}.png"))).unwrap();
        let kept = std::fs::read(root().join(format!("docs/console-{name}.png"))).unwrap();
        // Signature, header, width and height.
        assert_eq!(made[..24], kept[..24], "{name}");
    }
}

async fn script(name: &str) {
    run_script(name, &root().join("target/screenshots"), &[]).await;
}

async fn run_script(name: &str, shots: &Path, arguments: &[&str]) {
    let mut script = node(&format!("browser/console/{name}.mjs"));
    let outcome = run(script.arg(program()).arg(shots).args(arguments)).await;
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    // Measurements, for information.
    eprint!("{}", outcome.stdout);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
