//! Tools with hand-written input schemas.

use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};
use serde_json::{Value, json};

/// All tools of this module.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    (wordy(), mirrored()).into_tools()
}

/// A schema with keywords of draft 2020-12 beyond types and properties; all of them must be listed.
fn wordy() -> Result<Tool, BadTool> {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    Tool::builder("json_schema_2020_12_tool")
        .description("Tool with JSON Schema 2020-12 features")
        .input_schema(schema)
        .quick(|_: &Context, arguments: Value| format!("Called with {arguments}"))
}

/// One of its arguments is also sent as a header, with the same value.
fn mirrored() -> Result<Tool, BadTool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": {
                "type": "string",
                "description": "Where to run, also sent as a header",
                "x-mcp-header": "Region",
            },
        },
    });
    Tool::builder("test_mirrored_argument")
        .description("Returns the region it is told, in the body and in a header")
        .input_schema(schema)
        .quick(|_: &Context, arguments: Value| {
            format!("Region: {}", arguments["region"].as_str().unwrap_or("none"))
        })
}
