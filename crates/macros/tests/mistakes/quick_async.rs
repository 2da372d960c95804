use mcp_flow::prelude::*;

#[tool(quick)]
async fn wait() {}

fn main() {}
