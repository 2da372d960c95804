use mcp_flow::prelude::*;

struct Calculator;

#[tool]
impl Default for Calculator {
    fn default() -> Self {
        Self
    }
}

fn main() {}
