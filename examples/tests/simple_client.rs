//! The example client, started as a user starts it, on the example server.

use std::process::Command;

/// MCP-096: the simple client connects to a server, lists its tools and prints their results.
#[test]
fn the_simple_client_calls_the_simple_server() {
    // Tests are built into `deps`, examples beside it.
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap().parent().unwrap().join("examples");
    let output = Command::new(folder.join("simple_client"))
        .arg(folder.join("simple_server"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("speaks 2026-07-28"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("tool ")).count(), 8, "{said}");
    let missing = Command::new(folder.join("simple_client")).arg("no-such-server").output();
    let missing = missing.unwrap();
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-server"));
}
