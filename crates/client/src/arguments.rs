//! Arguments, checked against the schema of their tool before they are sent (PAT-027).

use mcp_flow_proto::model::ToolDefinition;
use serde_json::{Map, Value};

use crate::error::Error;

/// Whether arguments fit a tool; if not, which of them does not, and why.
///
/// ```
/// use mcp_flow_client::{check_arguments, model::ToolDefinition};
/// use serde_json::json;
///
/// let schema = json!({"properties": {"a": {"type": "number"}}, "required": ["a"]});
/// let tool = ToolDefinition { input_schema: schema.as_object().unwrap().clone(), ..Default::default() };
/// let check = |arguments: serde_json::Value| check_arguments(&tool, arguments.as_object().unwrap());
///
/// assert!(check(json!({"a": 1})).is_ok());
/// assert!(check(json!({"a": "x"})).unwrap_err().to_string().contains("a: "));
/// assert!(check(json!({})).unwrap_err().to_string().contains("\"a\" is a required property"));
/// ```
pub fn check_arguments(tool: &ToolDefinition, arguments: &Map<String, Value>) -> Result<(), Error> {
    check(&tool.input_schema, arguments)
}

/// Whether arguments fit a schema. One that cannot be used is no reason to send nothing: the
/// server checks again.
pub(crate) fn check(
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Result<(), Error> {
    let Ok(validator) = jsonschema::validator_for(&Value::Object(schema.clone())) else {
        tracing::warn!("the schema of a tool cannot be used, so its arguments are not checked");
        return Ok(());
    };
    let arguments = Value::Object(arguments.clone());
    let faults: Vec<_> = validator
        .iter_errors(&arguments)
        .take(MOST_FAULTS)
        .map(|fault| {
            let place = fault.instance_path().to_string();
            match place.trim_start_matches('/') {
                "" => fault.to_string(),
                place => format!("{}: {fault}", crate::neutral::shorten(place, 100)),
            }
        })
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!("the arguments do not fit: {}", faults.join("; ")))),
    }
}

/// How many faults are named at once.
const MOST_FAULTS: usize = 8;
