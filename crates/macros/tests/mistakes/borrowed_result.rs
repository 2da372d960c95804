use mcp_flow::prelude::*;

struct Sign(String);

#[tool]
impl Sign {
    #[tool]
    fn text(&self) -> &str {
        &self.0
    }
}

fn main() {}
