use mcp_flow::prelude::*;

#[prompt(category = "text")]
fn review(code: String) -> String {
    code
}

fn main() {}
