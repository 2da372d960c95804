use mcp_flow::prelude::*;

#[prompt]
fn review(#[param(hidden)] code: String) -> String {
    code
}

fn main() {}
