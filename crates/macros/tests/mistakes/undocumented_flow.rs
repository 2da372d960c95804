use mcp_flow::prelude::*;

#[flow]
async fn greet(_: Flow) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {}
