//! Reading rules.

use serde_json::Value;

use super::conditions;
use super::fields::{Fields, Notes, Place};
use crate::pattern::Pattern;
use crate::problem::nearest;
use crate::rule::{Criteria, Demand, Rule, validator};

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
                .map(|(index, value)| read_rule(value, place.item(index), notes))
                .collect();
            rules.into_iter().collect::<Option<_>>().map(Criteria::All)
        }
        Value::Object(_) => read_rule(value, place, notes).map(Criteria::One),
        _ => {
            notes.error(place, "this must be a rule or a list of rules");
            None
        }
    }
}

fn read_rule(value: &Value, place: Place<'_>, notes: &Notes) -> Option<Rule> {
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
            let inner = read_rule(fields.get("not")?, fields.place("not"), notes);
            inner.map(|rule| Demand::Not(Box::new(rule)))
        }
        (Some(form), _) => {
            let items = fields.items(form)?;
            let list = fields.place(form);
            let rules: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_rule(value, list.item(index), notes))
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
            Pattern::new(&pattern, flags)
                .map_err(|told| fields.note("pattern", told))
                .ok()
                .map(Demand::Regex)
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
            validator(schema).map_err(|told| fields.note("schema", told)).ok()?;
            Some(Demand::Schema(Box::new(schema.clone())))
        }
        other => {
            let meant = nearest(other, TYPES);
            let hint = meant.map_or_else(
                || format!("use one of {}", TYPES.join(", ")),
                |meant| format!("did you mean \"{meant}\"?"),
            );
            fields.note("type", format!("there are no rules of type {other:?}; {hint}"));
            None
        }
    }
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

const ANYTHING: [&str; 11] = [
    "type",
    "value",
    "pattern",
    "flags",
    "min",
    "max",
    "schema",
    "and",
    "or",
    "message",
    "condition",
];
