//! Arguments against their schema, with every violation in a sentence one can act on.

mod quick;

use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use mcp_flow_proto::{DecodeError, Raw};
use serde_json::{Value, json};

use quick::Quick;

/// A JSON Schema 2020-12, compiled once.
///
/// Most schemas are plain enough for a [`Quick`] check on the encoded arguments. Whatever it does
/// not accept, or a schema it does not know, goes to the complete validator, whose word counts.
///
/// Patterns run in linear time and references never leave the schema, so neither a tool's author
/// nor a caller can make a check expensive.
#[derive(Debug)]
pub(crate) struct Schema {
    source: Value,
    quick: Option<Quick>,
    complete: OnceLock<Validator>,
}

/// Why a tool is not called with the arguments it was given.
#[derive(Debug)]
pub(crate) enum ArgumentFault {
    /// They cannot even be decoded; they nest too deep, for example.
    Unreadable(DecodeError),
    /// They break the schema.
    Violations(Vec<Violation>),
}

/// One way in which arguments break their schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON Pointer into the arguments; empty for the whole.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub sentence: String,
}

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let quick = Quick::compile(schema);
        let complete = OnceLock::new();
        if quick.is_none() {
            // What the quick check understands is known to be good; anything else is tried now.
            let _ = complete.set(validator(schema)?);
        }
        Ok(Self { source: schema.clone(), quick, complete })
    }

    /// Checks arguments that are still encoded.
    pub(crate) fn check(&self, arguments: Raw<'_>) -> Result<(), ArgumentFault> {
        if self.quick.as_ref().is_some_and(|quick| quick.accepts(arguments)) {
            return Ok(());
        }
        if arguments.count() > MOST_VALUES {
            let details = format!("they hold more than {MOST_VALUES} values");
            return Err(ArgumentFault::Unreadable(DecodeError::Shape(details)));
        }
        let arguments: Value = arguments.decode().map_err(ArgumentFault::Unreadable)?;
        let complete = self.complete.get_or_init(|| {
            validator(&self.source).expect("the quick check only understands good schemas")
        });
        if complete.is_valid(&arguments) {
            return Ok(());
        }
        let violations = complete.iter_errors(&arguments).flat_map(|error| explain(&error));
        Err(ArgumentFault::Violations(violations.take(MOST_VIOLATIONS).collect()))
    }
}

/// How many violations are told at once; who breaks more rules will hear of them next time.
const MOST_VIOLATIONS: usize = 20;

/// How many values arguments may hold that have to be built in memory to be checked.
const MOST_VALUES: usize = 256 * 1024;

fn validator(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

impl Violation {
    /// A violation of the arguments as a whole.
    pub(crate) fn whole(sentence: String) -> Self {
        Self { pointer: String::new(), sentence }
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({"pointer": self.pointer, "message": self.sentence})
    }
}

fn explain(error: &ValidationError<'_>) -> Vec<Violation> {
    let place = error.instance_path().as_str().to_owned();
    let name = if place.is_empty() { "the arguments".to_owned() } else { dotted(&place) };
    let at = |pointer: &str, sentence: String| Violation { pointer: pointer.to_owned(), sentence };
    let member =
        |property: &str| format!("{place}/{}", property.replace('~', "~0").replace('/', "~1"));
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let pointer = member(property.as_str().unwrap_or_default());
            vec![at(&pointer, format!("{} is required", dotted(&pointer)))]
        }
        ValidationErrorKind::FalseSchema if place.is_empty() => {
            vec![at("", "this tool takes no arguments".to_owned())]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .take(MOST_VIOLATIONS)
            .map(|property| shorten_text(property))
            .map(|property| {
                let pointer = member(&property);
                at(&pointer, format!("{} is not an argument of this tool", dotted(&pointer)))
            })
            .collect(),
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(several) => {
                    several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            let given = shorten(error.instance());
            vec![at(&place, format!("{name} must be of type {wanted}, not {given}"))]
        }
        ValidationErrorKind::Enum { options } => {
            let given = shorten(error.instance());
            vec![at(&place, format!("{name} must be one of {options}, not {given}"))]
        }
        ValidationErrorKind::Minimum { limit } => {
            vec![at(&place, format!("{name} must be at least {limit}"))]
        }
        ValidationErrorKind::Maximum { limit } => {
            vec![at(&place, format!("{name} must be at most {limit}"))]
        }
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            vec![at(&place, format!("{name} must be more than {limit}"))]
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            vec![at(&place, format!("{name} must be less than {limit}"))]
        }
        ValidationErrorKind::MinLength { limit } => {
            vec![at(&place, format!("{name} must have at least {limit} characters"))]
        }
        ValidationErrorKind::MaxLength { limit } => {
            vec![at(&place, format!("{name} must have at most {limit} characters"))]
        }
        ValidationErrorKind::Pattern { pattern } => {
            vec![at(&place, format!("{name} must match the pattern {pattern}"))]
        }
        _ => vec![at(&place, format!("{name}: {}", error.masked()))],
    }
}

/// A JSON Pointer as people write paths: `/a/0/b` becomes `a.0.b`.
fn dotted(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect::<Vec<_>>().join(".")
}

/// A value short enough to be repeated in a sentence.
fn shorten(value: &Value) -> String {
    shorten_text(&value.to_string())
}

fn shorten_text(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ArgumentFault, Schema, Violation};
    use mcp_flow_proto::Raw;
    use serde_json::{Value, json};

    /// MCP-027, C-31: every violation has its place and a sentence.
    #[test]
    fn violations_are_named_and_explained() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "number", "minimum": 1},
                "kind": {"enum": ["x", "y"]},
                "list": {"type": "array", "items": {"type": "string", "maxLength": 2}},
            },
            "required": ["a"],
            "additionalProperties": false,
        });
        check(&schema, json!({"a": 1}), &[]);
        check(&schema, json!({}), &["/a a is required"]);
        check(&schema, json!({"a": "abc"}), &["/a a must be of type number, not \"abc\""]);
        check(&schema, json!({"a": 0}), &["/a a must be at least 1"]);
        check(&schema, json!({"a": 1, "b~/": 2}), &["/b~0~1 b~/ is not an argument of this tool"]);
        check(
            &schema,
            json!({"a": 1, "kind": 7}),
            &["/kind kind must be one of [\"x\",\"y\"], not 7"],
        );
        check(
            &schema,
            json!({"list": ["ok", "long"]}),
            &["/a a is required", "/list/1 list.1 must have at most 2 characters"],
        );
    }

    #[test]
    fn long_values_are_not_repeated_in_full() {
        let schema = Schema::compile(&json!({"properties": {"a": {"type": "number"}}})).unwrap();
        let arguments = json!({"a": "é".repeat(10_000)}).to_string();
        let violations = violations(&schema, &arguments);
        assert!(violations[0].sentence.len() < 200);
    }

    #[test]
    fn many_violations_are_not_all_told() {
        let schema = Schema::compile(&json!({"additionalProperties": false})).unwrap();
        let members: Vec<_> = (0..10_000).map(|number| format!("\"a{number}\":1")).collect();
        let violations = violations(&schema, &format!("{{{}}}", members.join(",")));
        assert!(violations.len() <= 20, "{}", violations.len());
        let many = format!("{{\"a\":[{}0]}}", "0,".repeat(300_000));
        assert!(matches!(schema.check(Raw::Json(&many)), Err(ArgumentFault::Unreadable(_))));
    }

    fn check(schema: &Value, arguments: Value, expected: &[&str]) {
        let schema = Schema::compile(schema).unwrap();
        let violations = violations(&schema, &arguments.to_string());
        let mut found: Vec<_> = violations
            .iter()
            .map(|violation| format!("{} {}", violation.pointer, violation.sentence))
            .collect();
        found.sort();
        assert_eq!(found, expected, "{arguments}");
    }

    fn violations(schema: &Schema, arguments: &str) -> Vec<Violation> {
        match schema.check(Raw::Json(arguments)) {
            Ok(()) => Vec::new(),
            Err(ArgumentFault::Violations(violations)) => violations,
            Err(ArgumentFault::Unreadable(error)) => panic!("{arguments}: {error}"),
        }
    }
}
