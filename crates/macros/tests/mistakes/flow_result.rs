use mcp_flow::prelude::*;

/// Greet someone
#[flow]
async fn greet(_: Flow) -> String {
    "nobody".to_owned()
}

fn main() {}
