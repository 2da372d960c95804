use mcp_flow::prelude::*;

#[flow]
async fn greet(flow: Flow, name: String, times: u32) -> FlowResult<String> {
    Ok(name.repeat(times as usize))
}

fn main() {}
