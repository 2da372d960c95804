use mcp_flow::prelude::*;

#[tool(name = "a", name = "b")]
fn add(a: f64, b: f64) -> f64 {
    a + b
}

fn main() {}
