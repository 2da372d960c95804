//! `mcp-flow tail`: the calls of a running server, filtered, without secrets.

use std::process::{Command, Stdio};

use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::Value;

use super::{PROGRAM, Server, run};

#[test]
fn calls_are_followed_filtered_and_masked() {
    let server = Server::start(&["--diagnostics"]);
    for (options, wanted) in [
        (&["--name", "echo"][..], "echo"),
        (&["--errors"], "fail"),
        (&["--method", "tools/*", "--contains", "needle"], "echo"),
    ] {
        let mut tail = Command::new(PROGRAM)
            .args(["tail", server.url(), "--count", "1", "--format", "json"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&tail);
        // It is not known when it watches, so calls go on until it has seen one.
        while tail.try_wait().unwrap().is_none() {
            run(&["call", server.url(), "calculator.add", "a=1", "b=2"], "");
            run(&["call", server.url(), "fail"], "");
            let secret = "needle https://ada:hunter2@example.com password=hunter2";
            run(&["call", server.url(), "echo", &format!("text={secret}")], "");
        }
        let output = end(tail);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.lines().count() == 1, "{text}");
        let seen: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(seen["method"], "tools/call");
        assert!(seen["params"].as_str().unwrap().contains(wanted), "{seen}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// A server that requires a token, one that is no MCP server, and no server: exit codes and reasons.
#[test]
fn servers_that_cannot_be_followed_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "ada:0123456789abcdef0123456789abcdef\n").unwrap();
    let server = Server::start(&["--token-file", tokens.to_str().unwrap()]);
    let (_, said, code) = run(&["tail", server.url()], "");
    assert_eq!(code, 5, "{said}");
    let token = "0123456789abcdef0123456789abcdef";
    let (_, said, code) = run(&["tail", server.url(), "--token", token], "");
    assert!(code == 5 && said.contains("admin"), "{code} {said}");
    let (_, said, code) = run(&["tail", "http://127.0.0.1:1/mcp"], "");
    assert_eq!(code, 3, "{said}");
}
