//! Reading conditions.

use serde_json::Value;

use super::allowance::Kind;
use super::fields::{Fields, Notes, Place, shown};
use crate::condition::{Condition, Test};
use crate::problem::nearest;

/// The condition in a member, if there is one.
pub(super) fn read(fields: &Fields<'_>, name: &str) -> Option<Condition> {
    let value = fields.get(name)?;
    read_value(value, fields.place(name), fields.notes(), 1)
}

fn read_value(value: &Value, place: Place<'_>, notes: &Notes, depth: usize) -> Option<Condition> {
    if depth > DEEPEST {
        notes.error(place, format!("conditions nest at most {DEEPEST} levels; split this one"));
        return None;
    }
    if !notes.allow(Kind::Conditions, 1, place) {
        return None;
    }
    let fields = Fields::of(value, place, &KNOWN, notes)?;
    let forms: Vec<_> = FORMS.iter().copied().filter(|form| fields.get(form).is_some()).collect();
    let [form] = forms.as_slice() else {
        let near = fields.members().find_map(|(name, _)| nearest(name, FORMS.iter().copied()));
        let told = match (forms.as_slice(), near) {
            ([], Some(_)) => return None,
            ([], None) => "a condition has `var`, `and`, `or` or `not`".to_owned(),
            (several, _) => format!("a condition has only one of {}", several.join(", ")),
        };
        fields.note_here(told);
        return None;
    };
    if *form != "var" {
        for (name, _) in fields.members().filter(|(name, _)| name != form && KNOWN.contains(name)) {
            fields.note(name, format!("`{name}` has no place beside `{form}`"));
        }
    }
    match *form {
        "var" => read_variable(&fields),
        "not" => {
            let condition = read_value(fields.get("not")?, fields.place("not"), notes, depth + 1)?;
            Some(Condition::Not(Box::new(condition)))
        }
        both => {
            let items = fields.items(both)?;
            let list = fields.place(both);
            let read: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, value)| read_value(value, list.item(index), notes, depth + 1))
                .collect();
            let conditions = read.into_iter().collect::<Option<_>>()?;
            Some(if both == "and" { Condition::And(conditions) } else { Condition::Or(conditions) })
        }
    }
}

fn read_variable(fields: &Fields<'_>) -> Option<Condition> {
    let name = fields.variable("var");
    let others = fields.members().filter(|(name, _)| TESTS.contains(name));
    let tests: Vec<_> = others.map(|(name, value)| read_test(fields, name, value)).collect();
    Some(Condition::Variable { name: name?, tests: tests.into_iter().collect::<Option<_>>()? })
}

fn read_test(fields: &Fields<'_>, name: &str, value: &Value) -> Option<Test> {
    let number = |test: fn(serde_json::Number) -> Test| match value {
        Value::Number(number) => Some(test(number.clone())),
        _ => {
            fields.note(name, format!("`{name}` must be a number, not {}", shown(value)));
            None
        }
    };
    match name {
        "equals" => Some(Test::Equals(value.clone())),
        "not_equals" => Some(Test::NotEquals(value.clone())),
        "gt" => number(Test::Gt),
        "gte" => number(Test::Gte),
        "lt" => number(Test::Lt),
        "lte" => number(Test::Lte),
        "in" => fields.items("in").map(|items| Test::In(items.clone())),
        "contains" => Some(Test::Contains(value.clone())),
        "startsWith" => fields.text(name, 1..=1024).map(Test::StartsWith),
        "endsWith" => fields.text(name, 1..=1024).map(Test::EndsWith),
        "matches" => {
            let pattern = fields.text(name, 1..=1024)?;
            fields.notes().pattern(&pattern, "", fields.place(name)).map(Test::Matches)
        }
        _ => None,
    }
}

/// A condition by itself.
#[cfg(test)]
pub(crate) fn condition_of(value: &Value) -> Option<Condition> {
    let notes = Notes::default();
    let condition = read_value(value, Place::ROOT, &notes, 1);
    condition.filter(|_| notes.into_inner().is_empty())
}

/// How many levels conditions may nest, and rules, too.
pub(super) const DEEPEST: usize = 16;

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

/// What a condition is: one of the first names.
const FORMS: &[&str] = KNOWN.split_at(4).0;

/// What is asked of its variable: one of the others.
const TESTS: &[&str] = KNOWN.split_at(4).1;
