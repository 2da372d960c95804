use mcp_flow::prelude::*;

#[prompt]
fn count(words: String) -> usize {
    words.len()
}

fn main() {}
