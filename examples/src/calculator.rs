//! `calculator.*`: arithmetic on two numbers.
//!
//! The simplest tools: functions of numbers. They return at once, so they are `quick`.

use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};

/// All five tools.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![add, subtract, multiply, divide, power].into_tools()
}

/// Add two numbers
#[tool(name = "calculator.add", category = "arithmetic", quick, read_only, open_world = false)]
pub fn add(
    /// First number
    a: f64,
    /// Second number
    b: f64,
) -> f64 {
    a + b
}

/// Subtract b from a
#[tool(name = "calculator.subtract", category = "arithmetic", quick, read_only, open_world = false)]
pub fn subtract(
    /// First number
    a: f64,
    /// Second number
    b: f64,
) -> f64 {
    a - b
}

/// Multiply two numbers
#[tool(name = "calculator.multiply", category = "arithmetic", quick, read_only, open_world = false)]
pub fn multiply(
    /// First number
    a: f64,
    /// Second number
    b: f64,
) -> f64 {
    a * b
}

/// Divide a by b
#[tool(name = "calculator.divide", category = "arithmetic", quick, read_only, open_world = false)]
pub fn divide(
    /// First number
    a: f64,
    /// Second number, not 0
    b: f64,
) -> Result<f64, Failure> {
    if b == 0.0 {
        let advice = "Cannot divide by zero; give a b other than 0.";
        return Err(Failure::new("DIVISION_BY_ZERO", advice).with("a", a).with("b", b));
    }
    Ok(a / b)
}

/// Raise a to the power of b
#[tool(name = "calculator.power", category = "arithmetic", quick, read_only, open_world = false)]
pub fn power(
    /// First number
    a: f64,
    /// Second number
    b: f64,
) -> f64 {
    a.powf(b)
}

#[cfg(test)]
mod tests {
    use super::{add, divide, multiply, power, subtract};

    /// MCP-064, MCP-065: a tool is tested like a function.
    #[test]
    fn tools_return_numbers() {
        let results = [add(2.0, 3.0), subtract(2.0, 3.0), multiply(2.0, 3.0), power(2.0, 3.0)];
        assert_eq!(results, [5.0, -1.0, 6.0, 8.0]);
        assert_eq!(divide(1.0, 2.0), Ok(0.5));
        assert!(divide(1.0, 0.0).unwrap_err().message().contains("other than 0"));
    }
}
