//! What is wrong with arguments, in sentences a person or a model can act on.

mod forms;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

use super::MOST_VIOLATIONS;
use crate::tool::Violation;

/// Says what one error of the validator means, in one violation or, where it stands for several
/// faults, in several.
pub(super) fn explain(
    schema: &Value,
    arguments: &Value,
    error: &ValidationError<'_>,
) -> Vec<Violation> {
    let place = error.instance_path().as_str();
    match error.kind() {
        Kind::Required { property } => {
            let pointer = member(place, property.as_str().unwrap_or_default());
            let sentence = format!("{} is required", dotted(&pointer));
            vec![Violation { pointer, sentence }]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_members(schema, error.schema_path().as_str());
            unexpected.iter().take(MOST_VIOLATIONS).map(|name| stray(place, name, &known)).collect()
        }
        // How the validator puts it where no member is allowed at all.
        Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            let object = arguments.pointer(place).and_then(Value::as_object);
            let members = object.into_iter().flat_map(|object| object.keys());
            members.take(MOST_VIOLATIONS).map(|name| stray(place, name, &[])).collect()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            forms::explain(schema, arguments, error, context)
        }
        kind => vec![at(place, &requirement(kind, error))],
    }
}

/// A member that has no place here, and which have.
fn stray(place: &str, name: &str, known: &[&str]) -> Violation {
    let pointer = member(place, &shorten(name));
    let name = dotted(&pointer);
    let owner = if place.is_empty() { "this tool" } else { "the object it is in" };
    let sentence = match known {
        [] if place.is_empty() => format!("{name} is not an argument; this tool takes none"),
        [] => format!("{name} has no meaning here; leave it out"),
        known => format!("{name} is not an argument; {owner} takes {}", list(known, "and")),
    };
    Violation { pointer, sentence }
}

/// What a value must do to be good; the name of the value goes before it.
fn requirement(kind: &Kind, error: &ValidationError<'_>) -> String {
    let given = || shorten(&error.instance().to_string());
    match kind {
        Kind::Type { kind } => format!("must be {}, not {}", type_words(kind), given()),
        Kind::Enum { options } => format!("must be {}, not {}", option_words(options), given()),
        Kind::Constant { expected_value } => format!("must be {expected_value}, not {}", given()),
        Kind::Minimum { limit } => format!("must be at least {limit}, not {}", given()),
        Kind::Maximum { limit } => format!("must be at most {limit}, not {}", given()),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}, not {}", given()),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}, not {}", given()),
        Kind::MultipleOf { multiple_of } => {
            format!("must be a multiple of {multiple_of}, not {}", given())
        }
        Kind::MinLength { limit: 1 } => "must not be empty".to_owned(),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}, not {}", given()),
        Kind::MinItems { limit: 1 } => "must have at least one item".to_owned(),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::UniqueItems => "must not hold the same item twice".to_owned(),
        Kind::MinProperties { limit } => format!("must have at least {limit} members"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} members"),
        Kind::FalseSchema => "must be left out".to_owned(),
        _ => format!("cannot be used: {}", error.masked()),
    }
}

fn at(place: &str, requirement: &str) -> Violation {
    let name =
        if place.is_empty() { "the whole of the arguments".to_owned() } else { dotted(place) };
    Violation { pointer: place.to_owned(), sentence: format!("{name} {requirement}") }
}

fn type_words(kind: &TypeKind) -> String {
    let names: Vec<String> = match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect(),
    };
    let words: Vec<_> = names.iter().map(|name| type_word(name)).collect();
    list(&words, "or")
}

fn type_word(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

fn option_words(options: &Value) -> String {
    let options: Vec<String> =
        options.as_array().into_iter().flatten().map(ToString::to_string).collect();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    match options.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("one of {}", list(several, "or")),
    }
}

/// `a`, `a or b`, `a, b or c`.
fn list(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// The members an object may have, by the place of the rule in the schema that forbids others.
fn known_members<'a>(schema: &'a Value, rule: &str) -> Vec<&'a str> {
    let object = rule.rsplit_once('/').and_then(|(object, _)| schema.pointer(object));
    let properties = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str).collect()
}

fn member(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A JSON Pointer as people write paths: `/a/0/b` becomes `a.0.b`.
pub(in crate::tool) fn dotted(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.map(readable).collect::<Vec<_>>().join(".")
}

/// One part of a pointer, in quotes if it could be taken for something else.
fn readable(part: &str) -> String {
    let part = part.replace("~1", "/").replace("~0", "~");
    let plain = |character: char| character.is_alphanumeric() || "_-$/~@:".contains(character);
    if !part.is_empty() && part.chars().all(plain) { part } else { format!("{part:?}") }
}

/// A text short enough to be repeated in a sentence.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use crate::tool::arguments::ArgumentFault;
    use mcp_flow_proto::Raw;
    use serde_json::{Value, json};

    /// MCP-027, PAT-030, C-31: every violation has its place and a sentence to act on.
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
    fn what_would_be_right_is_said_of_a_stray_argument() {
        let two = json!({"properties": {"a": true, "b": true}, "additionalProperties": false});
        check(&two, json!({"c~/": 1}), &["/c~0~1 c~/ is not an argument; this tool takes a and b"]);
        let none = json!({"type": "object", "additionalProperties": false});
        check(&none, json!({"c": 1}), &["/c c is not an argument; this tool takes none"]);
    }

    /// Enums with data, as they are derived: told apart by a member, or by the only member.
    #[test]
    fn the_form_that_was_meant_is_explained() {
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

    fn check(schema: &Value, arguments: Value, expected: &[&str]) {
        let schema = Schema::compile(schema).unwrap();
        let violations = match schema.check(Raw::Json(&arguments.to_string())) {
            Ok(()) => Vec::new(),
            Err(ArgumentFault::Violations(violations)) => violations,
            Err(ArgumentFault::Unreadable(error)) => panic!("{arguments}: {error}"),
        };
        let mut found: Vec<_> = violations
            .iter()
            .map(|violation| format!("{} {}", violation.pointer, violation.sentence))
            .collect();
        found.sort();
        assert_eq!(found, expected, "{arguments}");
    }
}
