use mcp_flow::prelude::*;

#[tool]
fn twice(one: &Context, two: &Context) {}

fn main() {}
