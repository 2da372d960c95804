use mcp_flow::prelude::*;

/// Return what was given
#[tool]
fn review(code: String) -> String {
    code
}

fn main() {
    Server::builder("reviews", "1.0.0").prompts(prompts![review]);
}
