use mcp_flow::prelude::*;

#[resource]
fn motto() -> String {
    "Plain beats clever.".to_owned()
}

fn main() {}
