//! The example program, started as a user starts it.

use mcp_flow::Revision;
use mcp_flow_testkit::process::Program;
use serde_json::json;

/// MCP-095: the simple server starts on stdio and lists the eight tools.
#[tokio::test]
async fn the_simple_server_lists_eight_tools() {
    // Tests are built into `deps`, examples beside it.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/simple_server");
    let (_program, mut peer) = Program::start(program, &[]);
    peer.initialize(Revision::V2025_11_25).await;
    let listed = peer.call("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 8);
}
