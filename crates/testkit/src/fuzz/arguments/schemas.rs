//! Schemas of every kind that tools have, from plain to exotic.

use serde_json::{Value, json};

/// All schemas; the letter `a` chooses the first. The plain ones, which are checked without
/// decoding, come before those that are left to the complete check.
pub(super) fn all() -> [Value; 16] {
    [
        object(json!({"a": {"type": "number"}, "b": {"type": "number"}}), &["a", "b"]),
        json!({"type": "object"}),
        object(
            json!({
                "number": {"type": "number", "minimum": -0.5, "maximum": 10.5},
                "whole": {"type": "integer", "minimum": -5, "maximum": 9_007_199_254_740_993_u64},
                "text": {"type": "string", "minLength": 1, "maxLength": 3},
            }),
            &[],
        ),
        object(json!({"kind": {"type": "string", "enum": ["a", "é", "\n", ""]}}), &["kind"]),
        json!({
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"a": {"type": "integer"}, "on": {"type": "boolean"}},
                        "required": ["a"],
                    },
                    "minItems": 1,
                    "maxItems": 3,
                },
                "any": true,
                "table": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            },
        }),
        object(
            json!({
                "": {"type": "boolean"},
                "a/b": object(json!({"~": {"type": "number"}, "~1": {"type": "null"}}), &["~"]),
            }),
            &[""],
        ),
        object(
            json!({
                "text": {"type": ["string", "null"], "maxLength": 3},
                "a": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            }),
            &["a"],
        ),
        object(
            json!({
                "text": {"type": "string", "pattern": "^[a-zé]+[0-9]?$"},
                "kind": {"type": "string", "pattern": "\\d"},
            }),
            &[],
        ),
        json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"$ref": "#/properties/a"}},
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer"},
                        "list": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                    },
                    "required": ["a"],
                },
            },
        }),
        json!({
            "type": "object",
            "properties": {"a": {"type": "number"}},
            "patternProperties": {"^l": {"type": "array"}},
            "additionalProperties": {"type": "string", "maxLength": 2},
        }),
        json!({
            "type": "object",
            "oneOf": [
                object(json!({"kind": {"const": "a"}, "a": {"type": "number"}}), &["kind", "a"]),
                object(json!({"kind": {"const": "b"}, "b": {"type": "string"}}), &["kind", "b"]),
            ],
        }),
        json!({
            "type": "object",
            "properties": {
                "a": {"exclusiveMinimum": 0, "multipleOf": 0.5},
                "b": {"exclusiveMaximum": 10, "not": {"const": 7}},
                "kind": {"enum": [1, "a", null, [1.0], {"a": 1}]},
            },
        }),
        json!({
            "type": "object",
            "minProperties": 1,
            "maxProperties": 3,
            "propertyNames": {"maxLength": 4},
            "dependentRequired": {"a": ["b"]},
            "dependentSchemas": {"b": {"required": ["list"]}},
        }),
        json!({
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "prefixItems": [{"type": "string"}, {"type": "number"}],
                    "items": false,
                },
                "table": {"contains": {"type": "number"}, "maxContains": 2, "uniqueItems": true},
                "a": false,
            },
        }),
        json!({
            "type": "object",
            "properties": {"kind": {"type": "string"}},
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["a"], "properties": {"a": {"type": "number"}}},
            "else": {"allOf": [{"properties": {"b": true}}, {"properties": {"list": true}}]},
            "unevaluatedProperties": false,
        }),
        json!({"type": "object", "properties": {}, "required": ["any"], "maxProperties": 2}),
    ]
}

/// The schema most tools have: an object with these members and no others.
fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
