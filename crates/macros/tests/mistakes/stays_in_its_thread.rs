use mcp_flow::prelude::*;
use std::rc::Rc;

/// Wait a little
#[tool]
async fn wait() -> u32 {
    let shared = Rc::new(1);
    std::future::ready(()).await;
    *shared
}

fn main() {}
