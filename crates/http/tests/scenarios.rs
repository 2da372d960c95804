//! PAT-003, MCP-005: the scenario suite over every transport here, with the very handlers that the
//! memory transport has, over real sockets.

/// Each message is a POST of its own, so what came first is not for the server to say.
mod streamable {
    mcp_flow_testkit::suite!(apart: |server| async move {
        let running = crate::support::start(&server).await;
        mcp_flow_testkit::streamable::connect(running.address, running.stop())
    });
}

/// What is unreadable is answered by the POST it came in, ahead of what waits (MCP-048).
mod legacy {
    mcp_flow_testkit::suite!(apart: |server| async move {
        let running = crate::support::start(&server).await;
        mcp_flow_testkit::sse::connect(running.address, running.stop()).await
    });
}

mod websocket {
    mcp_flow_testkit::suite!(|server| async move {
        let running = crate::support::start(&server).await;
        mcp_flow_testkit::websocket::connect(running.address, running.stop()).await
    });
}
