use mcp_flow::prelude::*;

/// Add numbers
#[tool]
fn add(#[arguments] numbers: Vec<f64>) -> f64 {
    numbers.iter().sum()
}

#[data]
enum Colour {
    Red,
    Green,
}

/// Paint it
#[tool]
fn paint(#[arguments] _: Colour) {}

/// Greet someone
#[flow]
async fn greet(_: Flow, #[arguments] name: String) -> FlowResult<String> {
    Ok(name)
}

fn main() {}
