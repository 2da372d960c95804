use mcp_flow::prelude::*;

#[tool]
fn show<T: ToString>(value: T) -> String {
    value.to_string()
}

fn main() {}
