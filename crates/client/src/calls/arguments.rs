//! Validation of tool arguments against the tool's input schema before they are sent (PAT-027).
//!
//! The schema comes from the server and is untrusted: `mcp_flow_schema` bounds what checking it may
//! cost.

use mcp_flow_proto::model::ToolDefinition;
use mcp_flow_schema::UntrustedSchema;
use serde_json::{Map, Value};

use crate::error::Error;

/// Validates arguments against a tool's input schema. The error names each violation.
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

/// Validates arguments against a schema. If the schema cannot be compiled, nothing is checked: the
/// server validates again.
pub(crate) fn check(
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Result<(), Error> {
    let schema = UntrustedSchema::compile(&Value::Object(schema.clone()));
    let arguments = Value::Object(arguments.clone());
    let checked =
        schema.ok().map(|schema| schema.violations(&arguments, "their whole", MAX_FAULTS));
    let Some(Ok(violations)) = checked else {
        tracing::warn!("the input schema of a tool is invalid; its arguments are not checked");
        return Ok(());
    };
    if violations.is_empty() {
        return Ok(());
    }
    let faults: Vec<_> = violations.into_iter().map(|violation| violation.sentence).collect();
    Err(Error::Usage(format!("invalid arguments: {}", faults.join("; "))))
}

/// Maximum number of violations in one error.
const MAX_FAULTS: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check;

    fn object(value: Value) -> serde_json::Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    /// Neither patterns nor references in a server's schema make the client spend unbounded time or
    /// memory.
    #[test]
    fn hostile_schemas_have_bounded_cost() {
        for pattern in ["^(a+)+$", "^((((a{1,100}){1,100}){1,100}){1,100})$", r"(a*)\\1$"] {
            let schema = object(json!({"properties": {"a": {"pattern": pattern}}}));
            let hostile = object(json!({"a": "a".repeat(50_000) + "!"}));
            let _ = check(&schema, &hostile);
        }
        let next = |place: usize| json!({"$ref": format!("#/$defs/d{}", place + 1)});
        let twice = |place| (format!("d{place}"), json!({"allOf": [next(place), next(place)]}));
        let defs: serde_json::Map<_, _> = (0..60).map(twice).collect();
        let schema = object(json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs}));
        assert!(check(&schema, &object(json!({"a": "a"}))).is_ok());
        // Each level of the arguments doubles the work.
        let part = json!({"items": {"$ref": "#/$defs/a"}});
        let defs = json!({"a": {"anyOf": [part, part, {"type": "string"}]}});
        let schema = object(json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": defs}));
        let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
        assert!(check(&schema, &object(json!({"a": deep}))).is_ok());
        let schema = object(json!({"properties": {"a": {"pattern": "^(a+)+$"}}}));
        assert!(check(&schema, &object(json!({"a": "aaa"}))).is_ok());
        assert!(check(&schema, &object(json!({"a": "aab"}))).is_err());
    }
}
