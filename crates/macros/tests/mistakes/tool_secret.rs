use mcp_flow::prelude::*;

#[tool]
fn login(#[param(secret)] password: String) -> String {
    password
}

fn main() {}
