//! The real program, killed at 200 random points of each kind of conversation.

use std::path::Path;

use crate::support::control_stream;
use mcp_flow_testkit::crash::{
    CrashClient, EntryPrompt, PushClient, RoundsClient, SessionReply, survive,
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// MCP-094, INT-098, C-06: in rounds over Streamable HTTP, where the client carries the state.
#[tokio::test]
async fn rounds_survive_kills() {
    survive::<RoundsClient>(Path::new(PROGRAM)).await;
}

/// MCP-094, INT-098: by `interaction.*` over a WebSocket, where questions are sent.
#[tokio::test]
async fn pushed_questions_survive_kills() {
    survive::<PushClient>(Path::new(PROGRAM)).await;
}

/// MCP-094, INT-098: the same over the control stream of WebTransport.
#[tokio::test]
async fn questions_on_a_control_stream_survive_kills() {
    survive::<ControlStreamClient>(Path::new(PROGRAM)).await;
}

/// A conversation whose questions come over WebTransport.
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
