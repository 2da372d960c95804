//! Reading of validation rules.

use mcp_flow_schema::{UntrustedSchema, schema_cost};
use serde_json::Value;

use super::budget::Kind;
use super::conditions::{self, MAX_DEPTH};
use super::fields::{Fields, Problems, ValuePath};
use crate::problem::{nearest, short};
use crate::rule::{Criteria, Requirement, ValidationRule};

/// Reads the rules of a step, if it has any.
pub(super) fn read_criteria(fields: &Fields<'_>) -> Option<Criteria> {
    let value = fields.get(CRITERIA)?;
    read_value(value, fields.location(CRITERIA), fields.problems())
}

fn read_value(value: &Value, location: ValuePath<'_>, problems: &Problems) -> Option<Criteria> {
    match value {
        Value::Array(items) => {
            let rules: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_rule(value, location.item(index), problems, 1))
                .collect();
            rules.into_iter().collect::<Option<_>>().map(Criteria::All)
        }
        Value::Object(_) => read_rule(value, location, problems, 1).map(Criteria::One),
        _ => {
            problems.error(location, "this must be a rule or a list of rules");
            None
        }
    }
}

fn read_rule(
    value: &Value,
    location: ValuePath<'_>,
    problems: &Problems,
    depth: usize,
) -> Option<ValidationRule> {
    if depth > MAX_DEPTH {
        problems.error(location, format!("rules nest at most {MAX_DEPTH} levels; split this one"));
        return None;
    }
    if !problems.allow(Kind::Rules, 1, location) {
        return None;
    }
    let form = ["and", "or", "not"].into_iter().find(|form| value.get(form).is_some());
    let kind = value.get("type").and_then(Value::as_str);
    let known: &[&str] = match (form, kind) {
        (Some("and"), _) => &["and", "message", "condition"],
        (Some("or"), _) => &["or", "message", "condition"],
        (Some(_), _) => &["not", "message", "condition"],
        (None, Some("contains")) => &["type", "value", "message", "condition"],
        (None, Some("regex")) => &["type", "pattern", "flags", "message", "condition"],
        (None, Some("length")) => &["type", "min", "max", "message", "condition"],
        (None, Some("schema")) => &["type", "schema", "message", "condition"],
        (None, _) => &ANYTHING,
    };
    let fields = Fields::of(value, location, known, problems)?;
    let requirement = match (form, kind) {
        (Some("not"), _) => {
            let inner = read_rule(fields.get("not")?, fields.location("not"), problems, depth + 1);
            inner.map(|rule| Requirement::Not(Box::new(rule)))
        }
        (Some(form), _) => {
            let items = fields.items(form)?;
            let list = fields.location(form);
            let rules: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_rule(value, list.item(index), problems, depth + 1))
                .collect();
            let rules = rules.into_iter().collect::<Option<_>>();
            rules.map(
                |rules| {
                    if form == "and" { Requirement::And(rules) } else { Requirement::Or(rules) }
                },
            )
        }
        (None, Some(kind)) => read_requirement(&fields, kind),
        (None, None) => {
            fields.note_here("a rule has a `type`, or `and`, `or`, `not`");
            None
        }
    };
    let message = fields.text("message", 1..=512);
    let condition = conditions::read(&fields, "condition");
    Some(ValidationRule { requirement: requirement?, message, condition })
}

fn read_requirement(fields: &Fields<'_>, kind: &str) -> Option<Requirement> {
    match kind {
        "contains" => fields.required_text("value", 1..=1024).map(Requirement::Contains),
        "regex" => {
            let pattern = fields.required_text("pattern", 1..=1024)?;
            let flags = match fields.get("flags") {
                Some(Value::String(flags)) => flags,
                Some(_) => {
                    fields.note("flags", "`flags` must be a string such as \"i\"");
                    return None;
                }
                None => "",
            };
            fields
                .problems()
                .pattern(&pattern, flags, fields.location("pattern"))
                .map(Requirement::Regex)
        }
        "length" => {
            let min = fields.whole("min", 0..=u64::MAX);
            let max = fields.whole("max", 0..=u64::MAX);
            if fields.get("min").is_none() && fields.get("max").is_none() {
                fields.note_here("a rule of type length has `min`, `max` or both");
            }
            if min.zip(max).is_some_and(|(min, max)| min > max) {
                fields.note("min", "`min` is more than `max`");
            }
            Some(Requirement::Length { min, max })
        }
        "schema" => {
            let schema = fields.require("schema")?;
            read_schema(schema, fields.location("schema"), fields.problems())?;
            Some(Requirement::Schema(Box::new(schema.clone())))
        }
        other => {
            let meant = nearest(other, TYPES);
            let hint = meant.map_or_else(
                || format!("use one of {}", TYPES.join(", ")),
                |meant| format!("did you mean \"{meant}\"?"),
            );
            fields.note("type", format!("unknown rule type {:?}; {hint}", short(other)));
            None
        }
    }
}

/// Checks that a schema compiles, and takes its cost from the budget.
fn read_schema(schema: &Value, location: ValuePath<'_>, problems: &Problems) -> Option<()> {
    let Some(cost) = schema_cost(schema) else {
        let message = "the schema refers to what is not in it, or too deep into itself; give \
                    references as `#/$defs/name`";
        problems.error(location, message);
        return None;
    };
    if !problems.allow(Kind::Schemas, cost, location) {
        return None;
    }
    for pattern in patterns(schema) {
        // The schema compiler decides whether it is a valid pattern, and a pattern at all.
        let _ = problems.pattern_with_cost(pattern, "", location)?;
    }
    let compiled = UntrustedSchema::compile(schema);
    compiled
        .map_err(|error| problems.error(location, format!("the schema cannot be used: {error}")))
        .ok()?;
    Some(())
}

/// Collects everything in a schema that may be a pattern.
fn patterns(schema: &Value) -> Vec<&str> {
    let mut patterns = Vec::new();
    let mut waiting = vec![schema];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                patterns.extend(members.get("pattern").and_then(Value::as_str));
                let named = members.get("patternProperties").and_then(Value::as_object);
                patterns.extend(named.into_iter().flat_map(|named| named.keys().map(|key| &**key)));
                waiting.extend(members.values());
            }
            _ => {}
        }
    }
    patterns
}

/// Reads rules outside a file.
#[cfg(test)]
pub(crate) fn criteria_of(value: &Value) -> Option<Criteria> {
    let problems = Problems::default();
    let criteria = read_value(value, ValuePath::ROOT, &problems);
    criteria.filter(|_| problems.into_inner().is_empty())
}

const CRITERIA: &str = "validationCriteria";

const TYPES: [&str; 4] = ["contains", "regex", "length", "schema"];

const ANYTHING: [&str; 12] = [
    "type",
    "value",
    "pattern",
    "flags",
    "min",
    "max",
    "schema",
    "and",
    "or",
    "not",
    "message",
    "condition",
];
