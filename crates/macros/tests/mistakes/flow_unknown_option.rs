use mcp_flow::prelude::*;

#[flow(category = "text")]
async fn greet(flow: Flow) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {}
