use mcp_flow::prelude::*;

/// Greet someone
#[flow]
async fn greet(_: Flow, _context: Context) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {}
