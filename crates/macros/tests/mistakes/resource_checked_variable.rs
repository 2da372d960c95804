use mcp_flow::prelude::*;

#[resource("notes:/{day}")]
fn note(#[param(range = 1..=31)] day: u8) -> String {
    day.to_string()
}

fn main() {}
