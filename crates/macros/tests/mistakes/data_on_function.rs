use mcp_flow::prelude::*;

#[data]
fn add(a: f64, b: f64) -> f64 {
    a + b
}

fn main() {}
