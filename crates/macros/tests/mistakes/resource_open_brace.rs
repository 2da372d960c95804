use mcp_flow::prelude::*;

#[resource("notes:/{day")]
fn note(day: String) -> String {
    day
}

fn main() {}
