use mcp_flow::prelude::*;

#[resource("notes:/{day}")]
fn note(day: String, month: String) -> String {
    format!("{month} {day}")
}

fn main() {}
