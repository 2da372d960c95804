use mcp_flow::prelude::*;

#[tool]
fn add(#[param(defualt = 1.0)] a: f64) -> f64 {
    a
}

fn main() {}
