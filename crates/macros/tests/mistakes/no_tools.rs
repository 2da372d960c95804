use mcp_flow::prelude::*;

struct Counter;

#[tool]
impl Counter {
    fn count(&self) -> u64 {
        1
    }
}

fn main() {}
