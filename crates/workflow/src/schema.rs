//! The published schema of workflow files.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The JSON Schema 2020-12 of workflow files, as it is published.
pub const TEXT: &str = include_str!("../schema/workflow.schema.json");

/// The schema as a value.
pub fn value() -> &'static Map<String, Value> {
    static SCHEMA: LazyLock<Map<String, Value>> =
        LazyLock::new(|| serde_json::from_str(TEXT).expect("the published schema is JSON"));
    &SCHEMA
}

/// The schema as one that can be put into another without its name being looked for elsewhere.
pub(crate) fn inlined() -> Value {
    let mut schema = value().clone();
    schema.remove("$schema");
    schema.remove("$id");
    Value::Object(schema)
}

/// The schema, compiled.
#[cfg(test)]
pub(crate) fn compiled() -> &'static mcp_flow_schema::Schema {
    static COMPILED: LazyLock<mcp_flow_schema::Schema> =
        LazyLock::new(|| mcp_flow_schema::Schema::compile(&inlined()).unwrap());
    &COMPILED
}
