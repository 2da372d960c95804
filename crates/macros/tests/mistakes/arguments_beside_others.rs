use mcp_flow::prelude::*;

#[data]
struct Pair {
    a: f64,
    b: f64,
}

#[tool]
fn add(#[arguments] pair: Pair, c: f64) -> f64 {
    pair.a + pair.b + c
}

fn main() {}
