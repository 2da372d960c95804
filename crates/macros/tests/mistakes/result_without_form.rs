use mcp_flow::prelude::*;

struct Address;

#[tool]
fn home() -> Address {
    Address
}

fn main() {}
