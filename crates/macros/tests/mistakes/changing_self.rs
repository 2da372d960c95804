use mcp_flow::prelude::*;

struct Counter(u64);

#[tool]
impl Counter {
    #[tool]
    fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

fn main() {}
