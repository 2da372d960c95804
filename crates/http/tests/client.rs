//! MCP-031, MCP-033, PAT-003: the client suite over every HTTP transport, against a real server.

use std::sync::Arc;

use mcp_flow_client::transport::Connector;
use mcp_flow_http::client::{HttpOptions, server};
use mcp_flow_server::Server;

/// Serves until the runtime of the test ends.
async fn reach(served: Server, scheme: &str, path: &str) -> Arc<dyn Connector> {
    let running = crate::support::start(&served).await;
    let url = format!("{scheme}://{}{path}", running.address);
    std::mem::forget(running);
    Arc::new(server(&url, &HttpOptions::new()).unwrap())
}

mod streamable {
    mcp_flow_testkit_scenarios::client_suite!(|served| super::reach(served, "http", "/mcp"));
}

mod legacy {
    mcp_flow_testkit_scenarios::client_suite!(|served| super::reach(served, "http", "/sse"));
}

mod websocket {
    mcp_flow_testkit_scenarios::client_suite!(|served| super::reach(served, "ws", "/ws"));
}
