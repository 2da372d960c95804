use mcp_flow::prelude::*;

fn add(a: f64, b: f64) -> f64 {
    a + b
}

fn main() {
    Server::builder("sums", "1.0.0").tools(tools![add]);
}
