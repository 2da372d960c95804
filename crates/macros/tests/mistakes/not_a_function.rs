use mcp_flow::prelude::*;

#[tool]
struct Calculator;

fn main() {}
