//! Validation by the jsonschema crate, for schemas that the built-in check does not support.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::sentence::{Rule, required, unknown_member};
use crate::{MAX_VIOLATIONS, Violation, forms};

/// Compiles a schema of 2020-12. Its patterns run in linear time and bounded memory, and it refers
/// to nothing outside.
pub(crate) fn validator(schema: &Value, formats: bool) -> Result<Validator, String> {
    validator_of(Draft::Draft202012, schema, formats)
}

/// Compiles a schema of the dialect that it declares, 2020-12 by default.
#[cfg(feature = "complete")]
pub(crate) fn validator_as_declared(schema: &Value) -> Result<Validator, String> {
    match Draft::Draft202012.detect(schema) {
        Draft::Draft202012 => validator(schema, false),
        draft @ (Draft::Draft201909 | Draft::Draft7 | Draft::Draft6 | Draft::Draft4) => {
            validator_of(draft, schema, false)
        }
        _ => Err("its dialect is not supported; use JSON Schema 2020-12".to_owned()),
    }
}

fn validator_of(draft: Draft, schema: &Value, formats: bool) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN).dfa_size_limit(PATTERN);
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(formats)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Limit on the bytes of a compiled pattern.
const PATTERN: usize = 1024 * 1024;

/// Lists the violations of a schema; none if the arguments conform.
pub(crate) fn violations(
    validator: &Validator,
    schema: &Value,
    arguments: &Value,
) -> Vec<Violation> {
    if validator.is_valid(arguments) {
        return Vec::new();
    }
    let violations =
        validator.iter_errors(arguments).flat_map(|error| explain(schema, arguments, &error));
    violations.take(MAX_VIOLATIONS).collect()
}

/// Explains one error of the validator, which may stand for several violations.
fn explain(schema: &Value, arguments: &Value, error: &ValidationError<'_>) -> Vec<Violation> {
    let location = error.instance_path().as_str();
    let at_rule = error.schema_path().as_str();
    match error.kind() {
        Kind::Required { property } => {
            vec![required(location, property.as_str().unwrap_or_default())]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_members(schema, at_rule);
            unexpected
                .iter()
                .take(MAX_VIOLATIONS)
                .map(|name| unknown_member(location, name, &known))
                .collect()
        }
        // The validator's way to report that no member is allowed.
        Kind::FalseSchema if at_rule.ends_with("/additionalProperties") => {
            let object = arguments.pointer(location).and_then(Value::as_object);
            let members = object.into_iter().flat_map(|object| object.keys());
            members.take(MAX_VIOLATIONS).map(|name| unknown_member(location, name, &[])).collect()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let forms = forms::listed(schema, at_rule);
            forms::explain(&forms, error.instance(), location, |index| {
                let errors = context.get(index).into_iter().flatten();
                errors.flat_map(|error| explain(schema, arguments, error)).collect()
            })
        }
        kind => vec![broken_rule(kind, error)],
    }
}

fn broken_rule(kind: &Kind, error: &ValidationError<'_>) -> Violation {
    let violation =
        |rule: Rule<'_>| rule.violation(error.instance_path().as_str(), error.instance());
    match kind {
        Kind::Type { kind } => {
            let names: Vec<String> = match kind {
                TypeKind::Single(one) => vec![one.to_string()],
                TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect(),
            };
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            violation(Rule::Type(&names))
        }
        Kind::Enum { options } => violation(Rule::Options(options)),
        Kind::Constant { expected_value } => violation(Rule::Constant(expected_value)),
        Kind::Minimum { limit } => violation(Rule::Bound("at least", limit)),
        Kind::Maximum { limit } => violation(Rule::Bound("at most", limit)),
        Kind::ExclusiveMinimum { limit } => violation(Rule::Bound("more than", limit)),
        Kind::ExclusiveMaximum { limit } => violation(Rule::Bound("less than", limit)),
        Kind::MultipleOf { multiple_of } => violation(Rule::Bound("a multiple of", multiple_of)),
        Kind::MinLength { limit } => violation(Rule::Length("at least", *limit, "characters")),
        Kind::MaxLength { limit } => violation(Rule::Length("at most", *limit, "characters")),
        Kind::Pattern { pattern } => violation(Rule::Pattern(pattern)),
        Kind::MinItems { limit } => violation(Rule::Length("at least", *limit, "items")),
        Kind::MaxItems { limit } => violation(Rule::Length("at most", *limit, "items")),
        Kind::UniqueItems => violation(Rule::Unique),
        Kind::MinProperties { limit } => violation(Rule::Length("at least", *limit, "members")),
        Kind::MaxProperties { limit } => violation(Rule::Length("at most", *limit, "members")),
        Kind::FalseSchema => violation(Rule::Nothing),
        _ => violation(Rule::Other(&error.masked())),
    }
}

/// The members an object may have, by the location of the rule that forbids others.
fn known_members<'a>(schema: &'a Value, rule: &str) -> Vec<&'a str> {
    let object = rule.rsplit_once('/').and_then(|(object, _)| schema.pointer(object));
    let properties = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str).collect()
}
