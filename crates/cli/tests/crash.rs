//! Crash tests: the real program, killed at 200 random points of each kind of session.

use std::path::Path;

use crate::support::control_stream;
use mcp_flow_testkit::crash::{
    CrashClient, EntryPrompt, Ledger, PushClient, RoundsClient, SessionReply, TasksClient, survive,
    survive_with,
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// MCP-094, INT-098, C-06: in rounds over Streamable HTTP, where the client carries the state.
#[tokio::test]
async fn rounds_survive_kills() {
    survive::<RoundsClient>(Path::new(PROGRAM)).await;
}

/// MCP-094, INT-098: by `interaction.*` over a WebSocket, with pushed prompts.
#[tokio::test]
async fn pushed_questions_survive_kills() {
    survive::<PushClient>(Path::new(PROGRAM)).await;
}

/// MCP-094, INT-098: the same over the control stream of WebTransport.
#[tokio::test]
async fn questions_on_a_control_stream_survive_kills() {
    survive::<ControlStreamClient>(Path::new(PROGRAM)).await;
}

/// MCP-094: by tasks over Streamable HTTP, where the client polls.
#[tokio::test]
async fn tasks_survive_kills() {
    survive::<TasksClient>(Path::new(PROGRAM)).await;
}

/// Flow files in rounds, by pushed questions and as tasks: their steps call a tool of the server.
#[tokio::test]
async fn flow_files_survive_kills() {
    survive_with::<RoundsClient>(Ledger::File, Path::new(PROGRAM)).await;
    survive_with::<PushClient>(Ledger::File, Path::new(PROGRAM)).await;
    survive_with::<TasksClient>(Ledger::File, Path::new(PROGRAM)).await;
}

/// A client whose prompts are pushed over WebTransport.
struct ControlStreamClient(PushClient);

impl CrashClient for ControlStreamClient {
    async fn connect(addresses: &Value) -> Option<Self> {
        let peer = control_stream::peer(addresses, control_stream::settings(addresses)).await?;
        Some(Self(PushClient::over(peer).await?))
    }

    async fn start(&mut self, flow: &str, params: &Value) -> Option<SessionReply> {
        self.0.start(flow, params).await
    }

    async fn respond(&mut self, prompt: &EntryPrompt, text: &str) -> Option<SessionReply> {
        self.0.respond(prompt, text).await
    }

    async fn query(&mut self, prompt: &EntryPrompt) -> Option<SessionReply> {
        self.0.query(prompt).await
    }
}
