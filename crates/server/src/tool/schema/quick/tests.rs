//! The quick check beside the complete one.

use super::Quick;
use mcp_flow_proto::{Encoding, Raw};
use serde_json::{Value, json};

/// PAT-030: what the quick check accepts, the complete one accepts too, for every pair of a
/// schema and a value here, in both encodings.
#[test]
fn the_quick_check_never_accepts_what_the_complete_one_refuses() {
    let mut accepted = 0;
    for schema in plain_schemas() {
        let quick = Quick::compile(&schema).unwrap_or_else(|| panic!("{schema} is plain"));
        let complete = jsonschema::draft202012::new(&schema).unwrap();
        for text in VALUES {
            let value: Value = serde_json::from_str(text).unwrap();
            let cbor = Encoding::Cbor.encode(&value).unwrap();
            for raw in [Raw::Json(text), Raw::Cbor(&cbor)] {
                if quick.accepts(raw) {
                    accepted += 1;
                    assert!(complete.is_valid(&value), "{schema} does not allow {text}");
                }
            }
        }
    }
    assert!(accepted > 100, "the check accepts plain values: {accepted}");
}

#[test]
fn what_it_does_not_understand_is_left_to_the_complete_check() {
    for schema in [
        json!({"type": "object", "minProperties": 1}),
        json!({"type": ["string", "number"]}),
        json!({"type": ["string", "null"], "enum": ["a"]}),
        json!({"oneOf": [{"const": "a"}, {"const": "a"}]}),
        json!({"oneOf": [{"const": "a"}, {"const": 1}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        json!({"type": "string", "pattern": "\\d"}),
        json!({"type": "string", "pattern": "[^a]"}),
        json!({"type": "string", "pattern": "a|b"}),
        json!({"type": "string", "pattern": "["}),
        json!({"type": "array", "items": {"type": "number"}, "uniqueItems": true}),
        json!({"type": "array", "uniqueItems": true}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}),
        json!({"type": "object", "required": ["unlisted"]}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "string", "enum": [1]}),
        json!({"type": "object", "title": 7}),
        json!({"type": "object", "properties": {"a": true}, "required": ["a", "a"]}),
        json!({"anyOf": []}),
        json!(false),
    ] {
        assert!(Quick::compile(&schema).is_none(), "{schema}");
    }
}

fn plain_schemas() -> Vec<Value> {
    vec![
        json!(true),
        json!({"description": "anything"}),
        json!({"type": "boolean"}),
        json!({"type": "number"}),
        json!({"type": "number", "minimum": 0, "maximum": 10.5}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": -5}),
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 1, "maxLength": 2}),
        json!({"type": "string", "enum": ["a", "é"]}),
        json!({"type": "string", "pattern": "^[a-z0-9-]+$", "minLength": 1}),
        json!({"type": "string", "pattern": "b"}),
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 3}),
        json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "uniqueItems": true}),
        json!({"type": ["integer", "null"], "minimum": 0, "format": "int32"}),
        json!({"type": ["null", "string"], "x-more": {"a": 1}}),
        json!({"type": ["string", "null"], "enum": ["a", null]}),
        json!({"oneOf": [
            {"const": "a", "description": "A", "type": "string"}, {"const": "é"}
        ]}),
        json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "null"}
        ]}),
        json!({"type": "array"}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}),
        json!({
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
            "additionalProperties": false
        }),
    ]
}

const VALUES: [&str; 36] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.0",
    "1e0",
    "10.5",
    "10.6",
    "-6",
    "0.5",
    "9007199254740993",
    "12345678901234567890",
    "1e300",
    "\"\"",
    "\"a\"",
    "\"\\u0061\"",
    "\"é\"",
    "\"abc\"",
    "\"\\n\"",
    "[]",
    "[1]",
    "[1,2,3]",
    "[1.5]",
    "[[]]",
    "{}",
    "{\"a\":1}",
    "{\"\\u0061\":\"x\"}",
    "{\"a\":{\"b\":true}}",
    "{\"a\":{\"b\":1}}",
    "{\"b\":1}",
    "\"a-1\\n\"",
    "[\"a\",\"b\"]",
    "[\"a\",\"\\u0061\"]",
    "[\"a\",\"b\",\"c\",\"d\"]",
];
