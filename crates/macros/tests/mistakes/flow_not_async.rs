use mcp_flow::prelude::*;

#[flow]
fn greet(flow: Flow) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {}
