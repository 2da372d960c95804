use mcp_flow::prelude::*;

#[prompt]
struct Review;

fn main() {}
