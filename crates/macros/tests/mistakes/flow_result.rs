use mcp_flow::prelude::*;

#[flow]
async fn greet(_: Flow) -> String {
    "nobody".to_owned()
}

fn main() {}
