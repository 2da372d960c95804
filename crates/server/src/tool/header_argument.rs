//! Arguments mirrored in HTTP headers, for proxies that route by them.

use serde_json::{Map, Value};

/// An argument that clients mirror in an HTTP header, marked with `x-mcp-header`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderArgument {
    /// The name of the header.
    pub header: String,
    /// The path of members that leads to the argument.
    pub path: Vec<String>,
}

/// Finds the marked arguments of a schema, once, when the tool is built.
pub(super) fn find(schema: &Map<String, Value>) -> Vec<HeaderArgument> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<HeaderArgument>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (property, schema) in properties.into_iter().flatten() {
        let Some(schema) = schema.as_object() else { continue };
        path.push(property.clone());
        if let Some(name) = schema.get("x-mcp-header").and_then(Value::as_str) {
            found.push(HeaderArgument { header: format!("Mcp-Param-{name}"), path: path.clone() });
        }
        collect(schema, path, found);
        path.pop();
    }
}
