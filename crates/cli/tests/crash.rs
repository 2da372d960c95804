//! The real program, killed at 200 random points of each kind of conversation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use mcp_flow_testkit::crash::{Pushed, Rounds, survive};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// MCP-094, INT-098, C-06: in rounds over Streamable HTTP, where the client carries the state.
#[tokio::test]
async fn rounds_survive_kills() {
    survive::<Rounds>(Path::new(PROGRAM)).await;
}

/// MCP-094, INT-098: by `interaction.*` over a WebSocket, where questions are sent.
#[tokio::test]
async fn pushed_questions_survive_kills() {
    survive::<Pushed>(Path::new(PROGRAM)).await;
}
