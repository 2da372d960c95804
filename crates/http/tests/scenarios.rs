//! PAT-003, MCP-005: the scenario suite over every transport here, with the very handlers that the
//! memory transport has, over real sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "scenarios/legacy.rs"]
mod legacy_adapter;
#[path = "scenarios/streamable.rs"]
mod streamable_adapter;
mod support;
#[path = "scenarios/websocket.rs"]
mod websocket_adapter;

/// Each message is a POST of its own, so what came first is not for the server to say.
mod streamable {
    mcp_flow_testkit::suite!(apart: |server| async move { super::streamable_adapter::connect(&server).await });
}

/// What is unreadable is answered by the POST it came in, ahead of what waits (MCP-048).
mod legacy {
    mcp_flow_testkit::suite!(apart: |server| async move { super::legacy_adapter::connect(&server).await });
}

mod websocket {
    mcp_flow_testkit::suite!(
        |server| async move { super::websocket_adapter::connect(&server).await }
    );
}
