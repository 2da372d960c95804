use mcp_flow::prelude::*;

#[tool]
fn roll(#[param(range = 1..6)] sides: u8) -> u8 {
    sides
}

fn main() {}
