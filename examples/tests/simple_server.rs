//! The example server, started as a user starts it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mcp_flow::Revision;
use mcp_flow::client::connect;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::wait::Deadline;
use serde_json::json;

/// MCP-095: the simple server starts on stdio and lists the eight tools.
#[tokio::test]
async fn the_simple_server_lists_eight_tools() {
    let (_program, mut peer) = Program::start(program(), &[]);
    peer.initialize(Revision::V2025_11_25).await;
    let listed = peer.call("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 8);
}

/// MCP-095: with an option it serves the same tools over HTTP+SSE.
#[tokio::test]
async fn the_simple_server_lists_eight_tools_over_sse() {
    let mut child = Command::new(program())
        .args(["--sse", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _deadline = Deadline::of(&child);
    let mut url = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut url).unwrap();
    assert!(url.ends_with("/sse\n"), "{url}");
    let client = connect(url.trim()).await.unwrap();
    assert_eq!(client.tools().all().await.unwrap().len(), 8);
    client.close().await;
    child.kill().unwrap();
    child.wait().unwrap();
}

fn program() -> PathBuf {
    // Tests are built into `deps`, examples beside it.
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().parent().unwrap().join("examples/simple_server")
}
