//! The console in a browser, as people use it. Each test is a script in `browser/console`, which
//! starts the program and the browser itself; screenshots are left in `target/screenshots`.

use std::path::{Path, PathBuf};

use interop::{node, program, run};

/// Every view shows what it should, in light and dark and on a phone, is accessible, and all of it
/// is loaded with less than 100 KB.
#[tokio::test]
async fn every_view_works_and_is_accessible() {
    script("views").await;
}

/// INT-035, INT-040, INT-061: a whole conversation with a wrong answer, in two windows at once; all
/// kinds of questions; a server that is killed in the middle and comes back.
#[tokio::test]
async fn conversations_are_held_in_the_page_and_survive_the_server() {
    script("session").await;
}

/// Several large results at once, while a conversation goes on beside them.
#[tokio::test]
async fn large_files_come_in_parallel() {
    script("download").await;
}

/// WT-029, WT-036, WT-049, C-12: a file truncated while it comes is an error with the reason, requests
/// are cancelled in the words of the transport, and CBOR is spoken where it is preferred.
#[tokio::test]
async fn streams_fail_with_a_reason_and_cbor_is_spoken() {
    script("streams").await;
}

/// C-55, WT-049: the client of `console/client.js` alone, without a browser: sessions that expire,
/// superseded questions, and `$/streamError` before and after the reply that names the stream.
#[tokio::test]
async fn the_browser_client_reports_expiry_and_failed_streams() {
    script("client").await;
}

/// WT-001, WT-006: by WebTransport where it can be had, by Streamable HTTP where UDP is blocked, and found
/// again when the server was gone.
#[tokio::test]
async fn the_page_takes_the_best_transport_there_is() {
    script("transport").await;
}

/// C-53: whoever has no token is asked for one, and again when it is not good any more; the page
/// goes on where it was.
#[tokio::test]
async fn a_token_is_asked_for_and_replaced() {
    script("token").await;
}

/// PAT-035: nothing a tool, a prompt or a user says becomes a script.
#[tokio::test]
async fn hostile_texts_stay_texts() {
    script("hostile").await;
}

/// C-53: those who look after the server see all 10,000 sessions, everyone else their own.
#[tokio::test]
async fn ten_thousand_sessions_are_listed_and_move() {
    script("many").await;
}

/// The types in the comments are true.
#[tokio::test]
async fn the_console_is_well_typed() {
    let mut compiler = node("browser/node_modules/typescript/bin/tsc");
    compiler.arg("--project").arg(root().join("console/tsconfig.json"));
    let outcome = run(&mut compiler).await;
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
}

async fn script(name: &str) {
    let shots = root().join("target/screenshots");
    let mut script = node(&format!("browser/console/{name}.mjs"));
    let outcome = run(script.arg(program()).arg(shots)).await;
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    // What was measured, for those who want to know.
    eprint!("{}", outcome.stdout);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
