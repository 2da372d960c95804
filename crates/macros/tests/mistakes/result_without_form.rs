use mcp_flow::prelude::*;

struct Address;

/// Tell where home is
#[tool]
fn home() -> Address {
    Address
}

fn main() {}
