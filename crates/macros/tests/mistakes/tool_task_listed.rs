use mcp_flow::prelude::*;

/// Greet someone
#[tool(task = "auto")]
fn greet() -> String {
    "Hello!".to_owned()
}

fn main() {
    let _ = tools![greet];
}
