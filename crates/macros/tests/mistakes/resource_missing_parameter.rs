use mcp_flow::prelude::*;

#[resource("notes:/{month}/{day}")]
fn note(day: String) -> String {
    day
}

fn main() {}
