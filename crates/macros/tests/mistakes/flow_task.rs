use mcp_flow::prelude::*;

/// Greet someone
#[flow(task = "sometimes")]
async fn greet(_: Flow) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {}
