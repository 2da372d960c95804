//! Sentences of violations, and the bounds of a check.

use super::{CheckError, Schema};
use mcp_flow_proto::Raw;
use serde_json::{Value, json};

/// MCP-027, PAT-030, C-31: every violation has a location and a sentence to act on.
#[test]
fn violations_are_named_and_explained() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "number", "minimum": 1},
            "kind": {"enum": ["x", "y"]},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 2}},
            "whole": {"type": ["integer", "null"]},
            "flag": {"type": "boolean"},
            "name": {"type": "string", "minLength": 1, "pattern": "^[a-z]*$"},
            "size": {"oneOf": [{"const": "small", "description": "S"}, {"const": "large"}]},
            "place": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        },
        "required": ["a"],
        "additionalProperties": false,
        "$defs": {"Place": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": false,
        }},
    });
    check(&schema, json!({"a": 1, "place": null, "size": "small"}), &[]);
    check(&schema, json!({}), &["/a a is required"]);
    check(&schema, json!({"a": "abc"}), &["/a a must be a number, not \"abc\""]);
    check(&schema, json!({"a": 0}), &["/a a must be at least 1, not 0"]);
    check(&schema, json!({"a": 1, "flag": 1}), &["/flag flag must be true or false, not 1"]);
    check(&schema, json!({"a": 1, "name": ""}), &["/name name must not be empty"]);
    check(
        &schema,
        json!({"a": 1, "whole": 1.5}),
        &["/whole whole must be null or a whole number, not 1.5"],
    );
    check(
        &schema,
        json!({"a": 1, "kind": 7}),
        &["/kind kind must be one of \"x\" or \"y\", not 7"],
    );
    check(
        &schema,
        json!({"a": 1, "size": null}),
        &["/size size must be \"small\" or \"large\", not null"],
    );
    check(
        &schema,
        json!({"a": 1, "size": "medium"}),
        &["/size size must be \"small\" or \"large\", not \"medium\""],
    );
    check(
        &schema,
        json!({"a": 1, "either": []}),
        &["/either either must be a text or a number, not []"],
    );
    check(
        &schema,
        json!({"list": ["ok", "long"]}),
        &["/a a is required", "/list/1 list.1 must have at most 2 characters"],
    );
    check(
        &schema,
        json!({"a": 1, "place": {"y": 1, "z": 2}}),
        &[
            "/place/x place.x is required",
            "/place/z place.z is not an argument; the object it is in takes x and y",
        ],
    );
}

#[test]
fn unknown_arguments_get_a_suggestion() {
    let two = json!({"properties": {"a": true, "b": true}, "additionalProperties": false});
    check(&two, json!({"c~/": 1}), &["/c~0~1 c~/ is not an argument; this tool takes a and b"]);
    let three = json!({"properties": {"age": true, "email": true, "name": true},
        "additionalProperties": false});
    check(
        &three,
        json!({"e-mail": "", "nmae": "Ada"}),
        &[
            "/e-mail e-mail is not an argument; did you mean email? (this tool takes age, email \
             and name)",
            "/nmae nmae is not an argument; did you mean name? (this tool takes age, email and \
             name)",
        ],
    );
    let none = json!({"type": "object", "additionalProperties": false});
    check(&none, json!({"c": 1}), &["/c c is not an argument; this tool takes none"]);
}

/// Enums with data, as derived: distinguished by a tag, or by their only member.
#[test]
fn the_intended_alternative_is_explained() {
    let dog = json!({"type": "object", "properties": {
        "kind": {"const": "dog"}, "age": {"type": "integer"}}, "required": ["kind", "age"]});
    let cat = json!({"type": "object", "properties": {"kind": {"const": "cat"}},
        "required": ["kind"]});
    let circle = json!({"type": "object", "required": ["Circle"],
        "properties": {"Circle": {"type": "number"}}, "additionalProperties": false});
    let dot = json!({"type": "string", "const": "Dot"});
    let schema = json!({"properties": {
        "pet": {"oneOf": [dog, cat]}, "shape": {"oneOf": [circle, dot]}}});
    check(&schema, json!({"pet": {"kind": "cat"}, "shape": {"Circle": 1}}), &[]);
    check(&schema, json!({"pet": {"kind": "dog"}}), &["/pet/age pet.age is required"]);
    check(
        &schema,
        json!({"pet": {"kind": "cow"}}),
        &["/pet/kind pet.kind must be \"dog\" or \"cat\", not \"cow\""],
    );
    check(&schema, json!({"pet": {}}), &["/pet/kind pet.kind is required: \"dog\" or \"cat\""]);
    check(&schema, json!({"pet": 3}), &["/pet pet must be an object, not 3"]);
    check(
        &schema,
        json!({"shape": {"Circle": "x"}}),
        &["/shape/Circle shape.Circle must be a number, not \"x\""],
    );
    check(
        &schema,
        json!({"shape": {"Square": 1}}),
        &["/shape shape must be an object with Circle or \"Dot\", not {\"Square\":1}"],
    );
}

#[test]
fn schemas_beyond_the_built_in_check_need_the_feature() {
    let schema = json!({"properties": {"a": {"not": {"const": 7}}}});
    let compiled = Schema::compile(&schema);
    assert_eq!(compiled.is_ok(), cfg!(feature = "complete"), "{compiled:?}");
    match compiled {
        Ok(schema) => {
            assert!(schema.accepts(&json!({"a": 1})) && !schema.accepts(&json!({"a": 7})));
        }
        Err(reason) => {
            assert!(reason.starts_with("/properties/a/not: ") && reason.contains("json-schema"));
        }
    }
    let form = json!({"properties": {"a": {"type": "string", "format": "date"}}});
    let form = Schema::compile_with_formats(&form).unwrap();
    assert!(form.check(Raw::Json(r#"{"a":"2024-02-29"}"#)).is_ok());
    assert!(form.check(Raw::Json(r#"{"a":"2023-02-29"}"#)).is_err());
}

fn check(schema: &Value, arguments: Value, expected: &[&str]) {
    let schema = Schema::compile(schema).unwrap();
    let violations = match schema.check(Raw::Json(&arguments.to_string())) {
        Ok(()) => Vec::new(),
        Err(CheckError::Violations(violations)) => violations,
        Err(CheckError::Unreadable(error)) => panic!("{arguments}: {error}"),
    };
    let mut found: Vec<_> = violations
        .iter()
        .map(|violation| format!("{} {}", violation.pointer, violation.sentence))
        .collect();
    found.sort();
    assert_eq!(found, expected, "{arguments}");
}

#[test]
fn long_values_are_not_repeated_in_full() {
    let schema = Schema::compile(&json!({"properties": {"a": {"type": "number"}}})).unwrap();
    let arguments = json!({"a": "é".repeat(10_000)}).to_string();
    let Err(CheckError::Violations(violations)) = schema.check(Raw::Json(&arguments)) else {
        panic!("a text is no number")
    };
    assert!(violations[0].sentence.len() < 200);
}

#[test]
fn the_number_of_violations_is_limited() {
    let schema = Schema::compile(&json!({"additionalProperties": false})).unwrap();
    let members: Vec<_> = (0..10_000).map(|number| format!("\"a{number}\":1")).collect();
    let members = format!("{{{}}}", members.join(","));
    let Err(CheckError::Violations(violations)) = schema.check(Raw::Json(&members)) else {
        panic!("none of the members is allowed")
    };
    assert!(violations.len() <= 20, "{}", violations.len());
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(300_000));
    assert!(matches!(schema.check(Raw::Json(&many)), Err(CheckError::Unreadable(_))));
}

/// PAT-027: neither a schema nor arguments can make a check take forever.
#[cfg(feature = "complete")]
#[test]
fn checks_are_bounded() {
    let mut defs = serde_json::Map::new();
    let too_long =
        " the whole of the arguments takes too many steps to check; give fewer or flatter values";
    for index in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        defs.insert(format!("d{index}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d40".to_owned(), json!({"type": "string"}));
    let doubled = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    check(&doubled, json!({"a": "x"}), &[too_long]);
    let beyond = json!({"not": doubled, "$defs": doubled["$defs"]});
    assert!(Schema::compile(&beyond).unwrap_err().contains("too many checks"));

    // The built-in check does not know `not`.
    let list = json!({"type": "array", "items": {"$ref": "#/$defs/tree"}});
    let nested = json!({"properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"not": true}},
        "$defs": {"tree": {"anyOf": [list, list, {"type": "string"}]}}});
    check(&nested, json!({"a": [["x"], "y"]}), &[]);
    let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
    check(&nested, json!({"a": deep}), &[too_long]);
    assert!(!Schema::compile(&nested).unwrap().accepts(&json!({"a": deep})));
}
