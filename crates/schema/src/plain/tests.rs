//! The built-in check compared with the jsonschema crate.

mod derived;
mod random;

use super::Plain;
use crate::{Violation, complete};
use mcp_flow_proto::{Encoding, Raw};
use serde_json::{Map, Value, json};

/// PAT-030: scan, exact check and the jsonschema crate agree on every pair of schema and value
/// here, in both encodings, and the exact check reports the same violations.
#[test]
fn the_built_in_check_agrees_with_the_complete_one() {
    let mut accepted = 0;
    for schema in plain_schemas() {
        let judge = Judge::new(&schema);
        for text in VALUES {
            accepted += judge.judge(text);
        }
    }
    assert!(accepted > 200, "the scan accepts plain values: {accepted}");
}

#[test]
fn patterns_agree_with_the_complete_check() {
    let mut supported = 0;
    for pattern in PATTERNS {
        let schema = json!({"type": "string", "pattern": pattern});
        if Plain::compile(&schema, false).is_err() {
            continue;
        }
        supported += 1;
        let judge = Judge::new(&schema);
        for text in [
            "", "a", "abc", "a-1", "-", "]", "é", "\n", "12", "_", "a b", "\u{a0}", "a.b", "0x",
            "^", "\\",
        ] {
            judge.judge(&json!(text).to_string());
        }
    }
    assert_eq!(supported, PATTERNS.len() - UNSUPPORTED_PATTERNS, "patterns are supported");
}

#[test]
fn unsupported_keywords_are_reported_with_their_location() {
    for (schema, expected) in [
        (
            json!({"type": "object", "propertyNames": {"maxLength": 1}}),
            "/propertyNames: this keyword",
        ),
        (json!({"properties": {"a": {"not": {}}}}), "/properties/a/not: this keyword"),
        (json!({"items": {"multipleOf": 2}}), "/items/multipleOf: this keyword"),
        (json!({"pattern": "(?=a)"}), "/pattern: this pattern"),
        (json!({"pattern": "["}), "/pattern: this pattern"),
        (json!({"pattern": "("}), "the pattern at /pattern cannot be used"),
        (json!({"$ref": "https://a.example"}), "/$ref: this reference"),
        (json!({"$ref": "#anchor"}), "/$ref: this reference"),
        (json!({"$ref": "#/$defs/a"}), "\"/$defs/a\", where nothing is"),
        (json!({"$ref": "#"}), "leads back to itself"),
        (
            json!({"$defs": {
                "a": {"anyOf": [true, {"$ref": "#/$defs/b"}]},
                "b": {"allOf": [{"$ref": "#/$defs/a"}]},
            }}),
            "leads back to itself",
        ),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "/$schema: this keyword"),
        (json!({"$defs": {"a": {"contains": true}}}), "/$defs/a/contains: this keyword"),
        (json!({"properties": 7}), "/properties must be an object"),
        (json!({"properties": {"a": 7}}), "/properties/a must be a schema"),
        (json!({"type": "text"}), "/type must be types of JSON"),
        (json!({"type": []}), "/type must be types of JSON"),
        (json!({"type": ["string", "string"]}), "/type must be types of JSON"),
        (json!({"enum": 1}), "/enum must be a list"),
        (json!({"minimum": "1"}), "/minimum must be a number"),
        (json!({"minLength": -1}), "/minLength must be a whole number"),
        (json!({"required": ["a", "a"]}), "/required must be a list of different texts"),
        (json!({"anyOf": []}), "/anyOf must be a list that is not empty"),
        (json!({"uniqueItems": 1}), "/uniqueItems must be true or false"),
        (json!({"title": 7}), "/title: this keyword"),
        (json!(7), "the whole of it must be a schema"),
    ] {
        let error = Plain::compile(&schema, false).expect_err(&schema.to_string());
        assert!(error.contains(expected), "{schema}: {error}");
        let is_limit = error.contains("is not supported");
        assert_eq!(error.contains("enable the feature \"json-schema\""), is_limit, "{error}");
    }
}

#[test]
fn formats_are_enforced_where_asked_for() {
    let schema = json!({"properties": {"a": {"type": "string", "format": "email"}}});
    let plain = Plain::compile(&schema, true).unwrap();
    assert!(plain.accepts(Raw::Json(r#"{"a":"a@b.example"}"#)));
    assert!(!plain.accepts(Raw::Json(r#"{"a":"nobody"}"#)));
    let value = json!({"a": "nobody"});
    let complete = complete::validator(&schema, true).unwrap();
    let expected = complete::violations(&complete, &schema, &value);
    assert_eq!(plain.violations(&schema, &value), expected);
    assert!(Plain::compile(&json!({"format": "uuid"}), true).is_err());
}

#[test]
fn objects_may_have_any_number_of_members() {
    for count in [64, 65, 130] {
        let names: Vec<_> = (0..count).map(|number| format!("a{number}")).collect();
        let properties: Map<_, _> = names.iter().map(|name| (name.clone(), json!({}))).collect();
        let schema = json!({"properties": properties, "required": names});
        let judge = Judge::new(&schema);
        assert_eq!(judge.judge(&json!(properties).to_string()) > 0, count == 64);
        judge.judge("{}");
    }
}

/// Nested alternatives double the work with each level; what takes too long is rejected.
#[test]
fn the_work_for_hostile_values_is_bounded() {
    let part = json!({"type": "array", "items": {"$ref": "#/$defs/a"}});
    let schema =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [part, part, {"type": "string"}]}}});
    let plain = Plain::compile(&schema, false).unwrap();
    let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    for (levels, expected) in [(5, "must be"), (100, "too many steps")] {
        let value = deep(levels);
        assert!(!plain.accepts(Raw::Json(&value.to_string())));
        assert!(!plain.is_valid(&schema, &value));
        let violations = plain.violations(&schema, &value);
        assert!(violations[0].sentence.contains(expected), "{violations:?}");
    }
}

/// Deep values match a recursive schema; deeper ones are rejected, and none exceeds the stack of a
/// thread.
#[test]
fn deep_values_are_checked_within_the_stack() {
    let inner = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]});
    let form = json!({"type": "object", "properties": {"Not": inner}, "required": ["Not"]});
    let defs = json!({"a": {"oneOf": [form, {"type": "string"}]}});
    let schema = json!({"$ref": "#/$defs/a", "$defs": defs});
    let judge = Judge::new(&schema);
    let deep = |levels, inner| (0..levels).fold(inner, |inner, _| json!({"Not": inner}));
    assert_eq!(judge.judge(&deep(30, json!("x")).to_string()), 2);
    assert_eq!(judge.judge(&deep(30, json!(7)).to_string()), 0);
    let violations = judge.plain.violations(&schema, &deep(126, json!(7)));
    assert!(violations[0].sentence.contains("too many steps"), "{violations:?}");
    // Too deep to be decoded, so that the exact check never sees it.
    let deeper = "[".repeat(100_000) + &"]".repeat(100_000);
    let plain = Plain::compile(&json!({"items": {"$ref": "#"}}), false).unwrap();
    assert!(!plain.accepts(Raw::Json(&deeper)));
    let next = |place: usize| json!({"items": {"$ref": format!("#/$defs/{}", place + 1)}});
    let defs: Map<_, _> = (0..10_000).map(|place| (place.to_string(), next(place))).collect();
    let error = Plain::compile(&json!({"$defs": defs}), false).unwrap_err();
    assert!(error.contains("so deep a schema"), "{error}");
}

/// One schema, compiled both ways.
struct Judge {
    schema: Value,
    plain: Plain,
    complete: jsonschema::Validator,
}

impl Judge {
    fn new(schema: &Value) -> Self {
        let plain =
            Plain::compile(schema, false).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let complete =
            complete::validator(schema, false).unwrap_or_else(|error| panic!("{schema}: {error}"));
        Self { schema: schema.clone(), plain, complete }
    }

    /// Compares all verdicts on a value; returns the number of encodings the scan accepts.
    fn judge(&self, text: &str) -> usize {
        let Self { schema, plain, complete } = self;
        let value: Value = serde_json::from_str(text).unwrap();
        let is_valid = complete.is_valid(&value);
        let violations = plain.violations(schema, &value);
        assert_eq!(violations.is_empty(), is_valid, "{schema} on {text}: {violations:?}");
        assert_eq!(plain.is_valid(schema, &value), is_valid, "{schema} on {text}");
        let expected = complete::violations(complete, schema, &value);
        assert_eq!(sorted(violations), sorted(expected), "{schema} on {text}");
        let cbor = Encoding::Cbor.encode(&value).unwrap();
        let accepts = [Raw::Json(text), Raw::Cbor(&cbor)].map(|raw| plain.accepts(raw));
        assert!(is_valid || accepts == [false, false], "{schema} does not allow {text}");
        accepts.into_iter().filter(|accepts| *accepts).count()
    }
}

/// Violations in an order independent of the order of keywords.
fn sorted(violations: Vec<Violation>) -> Vec<String> {
    let mut lines: Vec<_> =
        violations.into_iter().map(|one| format!("{} {}", one.pointer, one.sentence)).collect();
    lines.sort();
    lines
}

fn plain_schemas() -> Vec<Value> {
    let tagged = |kind: &str, more: Value| {
        let properties = json!({"kind": {"type": "string", "const": kind}, "a": more});
        json!({"type": "object", "properties": properties, "required": ["kind", "a"]})
    };
    let single = |name: &str, inner: Value| {
        json!({
            "type": "object",
            "properties": {name: inner},
            "required": [name],
            "additionalProperties": false,
        })
    };
    vec![
        json!(true),
        json!(false),
        json!({"description": "anything", "$schema": "https://json-schema.org/draft/2020-12/schema"}),
        json!({"type": "boolean"}),
        json!({"type": "null"}),
        json!({"type": "number"}),
        json!({"type": "number", "minimum": 0, "maximum": 10.5}),
        json!({"exclusiveMinimum": 0, "exclusiveMaximum": 10.5}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": -5}),
        json!({"minimum": 9_007_199_254_740_993_u64}),
        json!({"maximum": 9_007_199_254_740_992_u64}),
        json!({"exclusiveMaximum": 12_345_678_901_234_567_890_u64}),
        json!({"exclusiveMinimum": 12_345_678_901_234_567_889_u64}),
        json!({"minimum": 1e300}),
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 1, "maxLength": 2}),
        json!({"minLength": 2, "pattern": "b"}),
        json!({"type": "string", "enum": ["a", "é"]}),
        json!({"enum": [1, "a", null, [1.0], {"a": 1}, true]}),
        json!({"enum": [9_007_199_254_740_993_u64, 0.5]}),
        json!({"enum": []}),
        json!({"const": 1.0}),
        json!({"const": {"a": {"b": true}}}),
        json!({"type": "string", "const": 7}),
        json!({"type": "string", "pattern": "^[a-z0-9-]+$", "minLength": 1}),
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 3}),
        json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "uniqueItems": true}),
        json!({"uniqueItems": true}),
        json!({"type": ["integer", "null"], "minimum": 0, "format": "int32"}),
        json!({"type": ["null", "string"], "x-more": {"a": 1}}),
        json!({"type": ["string", "number", "array"]}),
        json!({"type": ["integer", "number"]}),
        json!({"type": ["string", "null"], "enum": ["a", null]}),
        json!({"type": ["string", "null"], "enum": ["a"]}),
        json!({"oneOf": [
            {"const": "a", "description": "A", "type": "string"}, {"const": "é"}
        ]}),
        json!({"oneOf": [{"const": "a"}, {"const": "a"}]}),
        json!({"oneOf": [{"const": "a"}, {"const": 1}, {"enum": ["abc", true]}]}),
        json!({"oneOf": [{"type": "integer"}, {"minimum": 1}]}),
        json!({"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "object"}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "null"}
        ]}),
        json!({"anyOf": [true, {"type": "number"}]}),
        json!({"anyOf": [false]}),
        json!({"allOf": [{"type": "object"}, {"required": ["a"]}]}),
        json!({"oneOf": [tagged("x", json!({"type": "number"})), tagged("y", json!({"$ref": "#"}))]}),
        json!({"oneOf": [single("a", json!({"type": "number"})), single("b", json!({"$ref": "#"})), {"type": "string", "const": "abc"}]}),
        json!({"anyOf": [single("a", json!({"type": "number"})), {"properties": {"a": {"type": "object"}}}]}),
        json!({"$ref": "#/$defs/a~1b", "minProperties": 1, "$defs": {"a/b": {"type": "object", "maxProperties": 1}}}),
        json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/properties/a"}}, "additionalProperties": false}),
        json!({"type": "array"}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
        json!({"prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}),
        json!({"prefixItems": [{"type": "string"}], "items": {"type": "string", "maxLength": 1}}),
        json!({"prefixItems": [true], "items": false}),
        json!({"items": false}),
        json!({"items": {"items": true}}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}),
        json!({"type": "object", "required": ["unlisted", "a"]}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"patternProperties": {"^a": {"type": "integer"}, "^.$": {"type": "string"}}, "additionalProperties": false}),
        json!({"properties": {"a": false, "b": true}, "additionalProperties": {"type": "null"}}),
        json!({
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
            "additionalProperties": false
        }),
    ]
}

const VALUES: [&str; 53] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-0.0",
    "1",
    "1.0",
    "1e0",
    "10.5",
    "10.6",
    "-6",
    "0.5",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
    "12345678901234567890",
    "12345678901234567890.0",
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
    "[1,1.0]",
    "[1.5]",
    "[[]]",
    "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1.0}]",
    "{}",
    "{\"a\":1}",
    "{\"a\":null}",
    "{\"\\u0061\":\"x\"}",
    "{\"a\":{\"b\":true}}",
    "{\"a\":{\"b\":1}}",
    "{\"b\":1}",
    "{\"b\":{\"b\":{\"a\":1}}}",
    "{\"b\":{\"b\":{\"a\":\"x\"}}}",
    "{\"a\":1,\"b\":\"abc\"}",
    "{\"kind\":\"x\",\"a\":1}",
    "{\"kind\":\"x\",\"a\":\"1\"}",
    "{\"kind\":\"z\",\"a\":1}",
    "{\"a\":{\"a\":2,\"kind\":\"x\"},\"kind\":\"y\"}",
    "{\"a\":{\"a\":2,\"kind\":\"q\"},\"kind\":\"y\"}",
    "{\"a\":1,\"a\":\"x\"}",
    "\"a-1\\n\"",
    "[\"a\",\"b\"]",
    "[\"a\",\"\\u0061\"]",
    "[\"a\",\"b\",\"c\",\"d\"]",
    "[\"a\",7]",
];

const UNSUPPORTED_PATTERNS: usize = 7;

const PATTERNS: [&str; 33] = [
    "",
    "a",
    "^a",
    "^abc$",
    "^(a|abc)$",
    "^[a-z]+$",
    "^[^a]*$",
    "^\\d+$",
    "^-?\\d+$",
    "^\\D*$",
    "^\\w+$",
    "\\W",
    "\\s",
    "^\\S*$",
    "^[\\w-]+$",
    "^[\\s\\d]+$",
    "^[-a]+$",
    "^[a-]+$",
    "a\\.b",
    "a.b",
    "^.$",
    "^(?:a|b)",
    "^[0-9a-fA-F]{2}$",
    "a{1,2}?",
    "^[a-z&]+$",
    "[\\]\\\\^]",
    // Left to the complete check:
    "^[\\w-z]$",
    "^[a-z--b]$",
    "[[a]]",
    "^(?!a)",
    "(?<name>a)",
    "\\p{L}",
    "[]a]",
];
