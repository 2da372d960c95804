use mcp_flow::prelude::*;

struct Reviews;

impl Reviews {
    #[prompt]
    fn review(&self, code: String) -> String {
        code
    }
}

fn main() {}
