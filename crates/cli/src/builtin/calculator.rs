//! `calculator.*`: arithmetic on two numbers.

use mcp_flow_server::{BadTool, Context, Tool};
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Operands {
    a: f64,
    b: f64,
}

/// All five operations.
pub(crate) fn tools() -> Result<Vec<Tool>, BadTool> {
    Ok(vec![
        operation("add", "Add two numbers", |a, b| Ok(a + b))?,
        operation("subtract", "Subtract b from a", |a, b| Ok(a - b))?,
        operation("multiply", "Multiply two numbers", |a, b| Ok(a * b))?,
        operation("divide", "Divide a by b", divide)?,
        operation("power", "Raise a to the power of b", |a, b| Ok(a.powf(b)))?,
    ])
}

fn operation(
    name: &str,
    description: &str,
    compute: fn(f64, f64) -> Result<f64, &'static str>,
) -> Result<Tool, BadTool> {
    Tool::builder(format!("calculator.{name}"))
        .description(description)
        .input_schema(json!({
            "type": "object",
            "properties": {
                "a": {"type": "number", "description": "First number"},
                "b": {"type": "number", "description": "Second number"}
            },
            "required": ["a", "b"],
            "additionalProperties": false
        }))
        .quick(move |_: &Context, Operands { a, b }: Operands| compute(a, b))
}

fn divide(a: f64, b: f64) -> Result<f64, &'static str> {
    if b == 0.0 { Err("Cannot divide by zero; give a b other than 0.") } else { Ok(a / b) }
}
