//! Reading of conditions.

use serde_json::Value;

use super::budget::Kind;
use super::fields::{Fields, Problems, ValuePath, shown};
use crate::condition::{Comparison, Condition};
use crate::problem::nearest;

/// Reads the condition in a member, if there is one.
pub(super) fn read(fields: &Fields<'_>, name: &str) -> Option<Condition> {
    let value = fields.get(name)?;
    read_value(value, fields.location(name), fields.problems(), 1)
}

fn read_value(
    value: &Value,
    location: ValuePath<'_>,
    problems: &Problems,
    depth: usize,
) -> Option<Condition> {
    if depth > MAX_DEPTH {
        problems
            .error(location, format!("conditions nest at most {MAX_DEPTH} levels; split this one"));
        return None;
    }
    if !problems.allow(Kind::Conditions, 1, location) {
        return None;
    }
    let fields = Fields::of(value, location, &KNOWN, problems)?;
    let forms: Vec<_> = FORMS.iter().copied().filter(|form| fields.get(form).is_some()).collect();
    let [form] = forms.as_slice() else {
        let near = fields.members().find_map(|(name, _)| nearest(name, FORMS.iter().copied()));
        let message = match (forms.as_slice(), near) {
            ([], Some(_)) => return None,
            ([], None) => "a condition has `var`, `and`, `or` or `not`".to_owned(),
            (several, _) => format!("a condition has only one of {}", several.join(", ")),
        };
        fields.note_here(message);
        return None;
    };
    if *form != "var" {
        for (name, _) in fields.members().filter(|(name, _)| name != form && KNOWN.contains(name)) {
            fields.note(name, format!("`{name}` cannot be combined with `{form}`"));
        }
    }
    match *form {
        "var" => read_variable(&fields),
        "not" => {
            let condition =
                read_value(fields.get("not")?, fields.location("not"), problems, depth + 1)?;
            Some(Condition::Not(Box::new(condition)))
        }
        both => {
            let items = fields.items(both)?;
            let list = fields.location(both);
            let read: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_value(value, list.item(index), problems, depth + 1))
                .collect();
            let conditions = read.into_iter().collect::<Option<_>>()?;
            Some(if both == "and" { Condition::And(conditions) } else { Condition::Or(conditions) })
        }
    }
}

fn read_variable(fields: &Fields<'_>) -> Option<Condition> {
    let name = fields.variable("var");
    let others = fields.members().filter(|(name, _)| TESTS.contains(name));
    let comparisons: Vec<_> =
        others.map(|(name, value)| read_comparison(fields, name, value)).collect();
    Some(Condition::Variable {
        name: name?,
        comparisons: comparisons.into_iter().collect::<Option<_>>()?,
    })
}

fn read_comparison(fields: &Fields<'_>, name: &str, value: &Value) -> Option<Comparison> {
    let number = |test: fn(serde_json::Number) -> Comparison| match value {
        Value::Number(number) => Some(test(number.clone())),
        _ => {
            fields.note(name, format!("`{name}` must be a number, not {}", shown(value)));
            None
        }
    };
    match name {
        "equals" => Some(Comparison::Equals(value.clone())),
        "not_equals" => Some(Comparison::NotEquals(value.clone())),
        "gt" => number(Comparison::Gt),
        "gte" => number(Comparison::Gte),
        "lt" => number(Comparison::Lt),
        "lte" => number(Comparison::Lte),
        "in" => fields.items("in").map(|items| Comparison::In(items.clone())),
        "contains" => Some(Comparison::Contains(value.clone())),
        "startsWith" => fields.text(name, 1..=1024).map(Comparison::StartsWith),
        "endsWith" => fields.text(name, 1..=1024).map(Comparison::EndsWith),
        "matches" => {
            let pattern = fields.text(name, 1..=1024)?;
            fields.problems().pattern(&pattern, "", fields.location(name)).map(Comparison::Matches)
        }
        _ => None,
    }
}

/// Reads the condition at a path.
pub fn read_condition(
    value: &Value,
    location: ValuePath<'_>,
    problems: &Problems,
) -> Option<Condition> {
    read_value(value, location, problems, 1)
}

/// Reads a condition outside a file.
#[cfg(test)]
pub(crate) fn condition_of(value: &Value) -> Option<Condition> {
    let problems = Problems::default();
    let condition = read_value(value, ValuePath::ROOT, &problems, 1);
    condition.filter(|_| problems.into_inner().is_empty())
}

/// Limit on the nesting depth of conditions, and of rules.
pub(super) const MAX_DEPTH: usize = 16;

const KNOWN: [&str; 15] = [
    "var",
    "and",
    "or",
    "not",
    "equals",
    "not_equals",
    "gt",
    "gte",
    "lt",
    "lte",
    "in",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
];

/// Members that determine the form of a condition.
const FORMS: &[&str] = KNOWN.split_at(4).0;

/// Members that are comparisons.
const TESTS: &[&str] = KNOWN.split_at(4).1;
