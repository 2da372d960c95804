use mcp_flow::prelude::*;

struct Calculator;

#[tool]
impl Calculator {
    fn add(&self, a: f64, b: f64) -> f64 {
        a + b
    }
}

fn main() {}
