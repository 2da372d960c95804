//! Structured results.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::derived::result_schema;
use super::{IntoToolOutput, ToolOutput};

/// A structured result with an output schema, and the same as JSON text.
///
/// Types marked with `#[data]` are returned as they are; this is for all others, such as lists.
///
/// ```
/// use mcp_flow_server::tool::{IntoToolOutput, Structured};
///
/// let output = Structured(vec![1, 2, 3]).into_tool_output();
/// assert_eq!(output.structured, Some(serde_json::json!([1, 2, 3])));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolOutput for Structured<T> {
    fn into_tool_output(self) -> ToolOutput {
        match serde_json::to_value(self.0) {
            Ok(value) => ToolOutput::structured(value),
            Err(error) => {
                ToolOutput::failure(format!("The result cannot be written as JSON: {error}"))
            }
        }
    }

    fn output_schema() -> Option<Value> {
        Some(result_schema::<T>())
    }
}
