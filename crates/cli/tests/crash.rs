//! The real program, killed at 200 random points of each kind of conversation.

use std::path::Path;

use crate::support::control_stream;
use mcp_flow_testkit::crash::{Asked, Heard, Pushed, Rounds, Talk, survive};
use serde_json::Value;

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

/// MCP-094, INT-098: the same over the control stream of WebTransport.
#[tokio::test]
async fn questions_on_a_control_stream_survive_kills() {
    survive::<OnControlStream>(Path::new(PROGRAM)).await;
}

/// A conversation whose questions come over WebTransport.
struct OnControlStream(Pushed);

impl Talk for OnControlStream {
    async fn connect(places: &Value) -> Option<Self> {
        let peer = control_stream::peer(places, control_stream::settings(places)).await?;
        Some(Self(Pushed::over(peer).await?))
    }

    async fn begin(&mut self, flow: &str, params: &Value) -> Option<Heard> {
        self.0.begin(flow, params).await
    }

    async fn answer(&mut self, asked: &Asked, text: &str) -> Option<Heard> {
        self.0.answer(asked, text).await
    }

    async fn look(&mut self, asked: &Asked) -> Option<Heard> {
        self.0.look(asked).await
    }
}
