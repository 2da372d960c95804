use mcp_flow::prelude::*;

#[tool]
fn report(#[param(default)] context: &Context) {}

fn main() {}
