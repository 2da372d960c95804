//! Reading rules.

use mcp_flow_schema::{UntrustedSchema, schema_cost};
use serde_json::Value;

use super::allowance::Kind;
use super::conditions::{self, DEEPEST};
use super::fields::{Fields, Notes, Place};
use crate::problem::{nearest, short};
use crate::rule::{Criteria, Demand, Rule};

/// The rules of a step, if it has any.
pub(super) fn read_criteria(fields: &Fields<'_>) -> Option<Criteria> {
    let value = fields.get(CRITERIA)?;
    read_value(value, fields.place(CRITERIA), fields.notes())
}

fn read_value(value: &Value, place: Place<'_>, notes: &Notes) -> Option<Criteria> {
    match value {
        Value::Array(items) => {
            let rules: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_rule(value, place.item(index), notes, 1))
                .collect();
            rules.into_iter().collect::<Option<_>>().map(Criteria::All)
        }
        Value::Object(_) => read_rule(value, place, notes, 1).map(Criteria::One),
        _ => {
            notes.error(place, "this must be a rule or a list of rules");
            None
        }
    }
}

fn read_rule(value: &Value, place: Place<'_>, notes: &Notes, depth: usize) -> Option<Rule> {
    if depth > DEEPEST {
        notes.error(place, format!("rules nest at most {DEEPEST} levels; split this one"));
        return None;
    }
    if !notes.allow(Kind::Rules, 1, place) {
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
    let fields = Fields::of(value, place, known, notes)?;
    let demand = match (form, kind) {
        (Some("not"), _) => {
            let inner = read_rule(fields.get("not")?, fields.place("not"), notes, depth + 1);
            inner.map(|rule| Demand::Not(Box::new(rule)))
        }
        (Some(form), _) => {
            let items = fields.items(form)?;
            let list = fields.place(form);
            let rules: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_rule(value, list.item(index), notes, depth + 1))
                .collect();
            let rules = rules.into_iter().collect::<Option<_>>();
            rules.map(|rules| if form == "and" { Demand::And(rules) } else { Demand::Or(rules) })
        }
        (None, Some(kind)) => read_demand(&fields, kind),
        (None, None) => {
            fields.note_here("a rule has a `type`, or `and`, `or`, `not`");
            None
        }
    };
    let message = fields.text("message", 1..=512);
    let condition = conditions::read(&fields, "condition");
    Some(Rule { demand: demand?, message, condition })
}

fn read_demand(fields: &Fields<'_>, kind: &str) -> Option<Demand> {
    match kind {
        "contains" => fields.required_text("value", 1..=1024).map(Demand::Contains),
        "regex" => {
            let pattern = fields.required_text("pattern", 1..=1024)?;
            let flags = match fields.get("flags") {
                Some(Value::String(flags)) => flags,
                Some(_) => {
                    fields.note("flags", "`flags` must be a text such as \"i\"");
                    return None;
                }
                None => "",
            };
            fields.notes().pattern(&pattern, flags, fields.place("pattern")).map(Demand::Regex)
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
            Some(Demand::Length { min, max })
        }
        "schema" => {
            let schema = fields.require("schema")?;
            read_schema(schema, fields.place("schema"), fields.notes())?;
            Some(Demand::Schema(Box::new(schema.clone())))
        }
        other => {
            let meant = nearest(other, TYPES);
            let hint = meant.map_or_else(
                || format!("use one of {}", TYPES.join(", ")),
                |meant| format!("did you mean \"{meant}\"?"),
            );
            fields.note("type", format!("there are no rules of type {:?}; {hint}", short(other)));
            None
        }
    }
}

/// Whether a schema can be used, and at what cost.
fn read_schema(schema: &Value, place: Place<'_>, notes: &Notes) -> Option<()> {
    let Some(cost) = schema_cost(schema) else {
        let told = "the schema refers to what is not in it, or too deep into itself; give \
                    references as `#/$defs/name`";
        notes.error(place, told);
        return None;
    };
    if !notes.allow(Kind::Schemas, cost, place) {
        return None;
    }
    for pattern in patterns(schema) {
        // Whether it is good, and a pattern at all, is for the validator to say.
        let _ = notes.weighed(pattern, "", place)?;
    }
    let compiled = UntrustedSchema::compile(schema);
    compiled
        .map_err(|error| notes.error(place, format!("the schema cannot be used: {error}")))
        .ok()?;
    Some(())
}

/// All that may be patterns in a schema.
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

/// Rules by themselves.
#[cfg(test)]
pub(crate) fn criteria_of(value: &Value) -> Option<Criteria> {
    let notes = Notes::default();
    let criteria = read_value(value, Place::ROOT, &notes);
    criteria.filter(|_| notes.into_inner().is_empty())
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
