use mcp_flow::prelude::*;

#[tool]
fn hello() -> impl ToString {
    "hello"
}

fn main() {}
