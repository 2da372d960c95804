use mcp_flow::prelude::*;

/// Greet someone
#[tool(task = "auto")]
fn greet(context: &Context) -> String {
    context.id().to_string()
}

fn main() {}
