use mcp_flow::prelude::*;

/// Greet someone
#[flow(waits = "a week")]
async fn greet(_: Flow) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {}
