//! Published JSON Schema of workflow files.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// JSON Schema 2020-12 of workflow files, as published.
pub const TEXT: &str = include_str!("../schema/workflow.schema.json");

/// Returns the schema as a value.
pub fn value() -> &'static Map<String, Value> {
    static SCHEMA: LazyLock<Map<String, Value>> =
        LazyLock::new(|| serde_json::from_str(TEXT).expect("the published schema is JSON"));
    &SCHEMA
}

/// Returns the schema in a form that can be embedded in another without resolving its id.
pub(crate) fn inlined() -> Value {
    let mut schema = value().clone();
    schema.remove("$schema");
    schema.remove("$id");
    Value::Object(schema)
}

/// Returns the compiled schema.
#[cfg(test)]
pub(crate) fn compiled() -> &'static mcp_flow_schema::Schema {
    static COMPILED: LazyLock<mcp_flow_schema::Schema> =
        LazyLock::new(|| mcp_flow_schema::Schema::compile(&inlined()).unwrap());
    &COMPILED
}
