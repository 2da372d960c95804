use mcp_flow::prelude::*;

#[resource("about:motto", mime = "text/plain")]
fn motto() -> String {
    "Plain beats clever.".to_owned()
}

fn main() {}
