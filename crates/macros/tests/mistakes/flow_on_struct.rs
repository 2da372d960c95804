use mcp_flow::prelude::*;

#[flow]
struct Greeting;

fn main() {}
