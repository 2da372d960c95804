//! Schemas of every kind that tools have, from simple to unusual.

use serde_json::{Value, json};

/// Returns all schemas; the letter `a` selects the first, and `q` the first that is derived from a
/// type.
pub(super) fn all() -> Vec<Value> {
    let mut all = by_hand().to_vec();
    all.extend(derived());
    all
}

/// Schemas derived from types, which are validated without the jsonschema crate.
fn derived() -> [Value; 6] {
    let tagged = |kind: &str, name: &str, member: Value| {
        let properties = json!({name: member, "kind": {"type": "string", "const": kind}});
        json!({"type": "object", "properties": properties, "required": ["kind", name]})
    };
    let single = |name: &str, member: Value| object(json!({name: member}), &[name]);
    let expression = json!({"$ref": "#/$defs/expression"});
    let shape = json!({"anyOf": [{"$ref": "#/$defs/shape"}, {"type": "null"}]});
    [
        json!({
            "type": "object",
            "properties": {"a": expression},
            "$defs": {"expression": {"oneOf": [
                tagged("a", "list", json!({"type": "array", "items": expression})),
                tagged("b", "a", expression),
                tagged("c", "number", json!({"type": "number"})),
            ]}},
        }),
        json!({
            "type": "object",
            "properties": {"a": shape, "b": {"type": "array", "items": shape}},
            "$defs": {"shape": {"oneOf": [
                single("a", json!({"type": "number"})),
                single("b", shape),
                {"type": "string", "const": "kind"},
            ]}},
        }),
        json!({
            "type": "object",
            "properties": {
                "table": {"type": "object", "additionalProperties": {"type": "integer"}},
                "list": {
                    "type": "object",
                    "patternProperties": {"^-?\\d+$": {"type": "string"}},
                    "additionalProperties": false,
                },
                "any": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true},
            },
        }),
        object(
            json!({
                "list": {
                    "type": "array",
                    "prefixItems": [{"type": "string"}, {"type": "number"}],
                    "minItems": 2,
                    "maxItems": 2,
                },
                "a": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]},
                "b": {"type": ["string", "number", "null"], "maxLength": 1, "minimum": 0},
            }),
            &["list"],
        ),
        object(
            json!({
                "a": {"exclusiveMinimum": 0, "exclusiveMaximum": 9_007_199_254_740_993_u64},
                "b": {"enum": [1, "a", null, 0.5]},
                "kind": {"const": 9_007_199_254_740_993_u64},
                "text": {"type": "string", "pattern": "^\\w+[.-]\\d{2}$"},
            }),
            &[],
        ),
        json!({
            "type": "object",
            "allOf": [{"required": ["a"]}, {"properties": {"a": {"oneOf": [
                {"type": "integer"}, {"type": "number", "minimum": 5},
            ]}}}],
            "maxProperties": 2,
        }),
    ]
}

/// Simple schemas come before those that need the jsonschema crate.
fn by_hand() -> [Value; 16] {
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

/// Schema most tools have: an object with these members and no others.
fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
