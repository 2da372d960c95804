//! PAT-003, MCP-005: the scenario suite over every HTTP transport, with the same handlers as over
//! the memory transport.

/// Each message is a POST of its own, so the order of messages is undefined.
mod streamable {
    mcp_flow_testkit_scenarios::suite!(unordered: |server| async move {
        let running = crate::support::start(&server).await;
        mcp_flow_testkit::streamable::connect(running.address, running.stop())
    });
}

/// Malformed messages are rejected by the response to their POST, ahead of queued replies (MCP-048).
mod legacy {
    mcp_flow_testkit_scenarios::suite!(unordered: |server| async move {
        let running = crate::support::start(&server).await;
        mcp_flow_testkit::sse::connect(running.address, running.stop()).await
    });
}

mod websocket {
    mcp_flow_testkit_scenarios::suite!(|server| async move {
        let running = crate::support::start(&server).await;
        mcp_flow_testkit::websocket::connect(running.address, running.stop()).await
    });
}
