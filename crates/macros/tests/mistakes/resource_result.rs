use mcp_flow::prelude::*;

struct Note;

#[resource("notes:/today")]
fn note() -> Note {
    Note
}

fn main() {}
