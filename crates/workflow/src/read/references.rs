//! Checks that step ids are unique and that loops refer to existing steps.
//!
//! Works on the parsed values rather than the model, so that these problems are reported together
//! with all others.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::fields::{Problems, ValuePath};
use crate::condition::covers;
use crate::model::{INDEX, ITEM, ITERATION};
use crate::problem::{nearest, short};

pub(super) fn check(steps: &[Value], location: &ValuePath<'_>, problems: &Problems) {
    let mut seen = HashSet::new();
    let mut bodies = HashSet::new();
    let known = Definitions::of(steps);
    for (index, step) in steps.iter().enumerate() {
        let location = location.item(index);
        check_id(step, location, &mut seen, problems);
        match step.get("body") {
            Some(Value::Array(tasks)) => {
                let body = location.member("body");
                for (index, task) in tasks.iter().enumerate() {
                    check_id(task, body.item(index), &mut seen, problems);
                }
            }
            Some(Value::String(id)) => {
                let message = wrong_body(id, &known);
                let twice = || {
                    let id = short(id);
                    format!("`body` names `{id}`, which is the body of another loop; copy the step")
                };
                let message = message.or_else(|| (!bodies.insert(id)).then(twice));
                if let Some(message) = message {
                    problems.error(location.member("body"), message);
                }
            }
            _ => {}
        }
        if let Some(rounds) = step.get("loop") {
            check_names(rounds, &known.variables, location.member("loop"), problems);
        }
    }
}

/// Counts a step and those within it.
pub(super) fn count(step: &Value) -> usize {
    1 + step.get("body").and_then(Value::as_array).map_or(0, Vec::len)
}

/// Steps and variables that can be referred to.
struct Definitions<'a> {
    /// Ids of the steps outside loops, in order.
    ids: Vec<&'a str>,
    /// The same ids, with whether each is a loop.
    outer: HashMap<&'a str, bool>,
    /// Ids of the steps within loops.
    inner: HashSet<&'a str>,
    /// Variables set by loops.
    variables: HashSet<&'a str>,
}

impl<'a> Definitions<'a> {
    fn of(steps: &'a [Value]) -> Self {
        let ids: Vec<_> = steps.iter().filter_map(id_of).collect();
        let mut outer = HashMap::new();
        for step in steps {
            if let Some(id) = id_of(step) {
                outer.entry(id).or_insert_with(|| is_loop(step));
            }
        }
        let bodies = steps.iter().filter_map(|step| step.get("body")?.as_array());
        let inner = bodies.flatten().filter_map(id_of).collect();
        let loops = steps.iter().filter_map(|step| step.get("loop"));
        Self { ids, outer, inner, variables: loops.flat_map(names).collect() }
    }
}

/// Names of a loop's round, item and index variables.
fn names(rounds: &Value) -> [&str; 3] {
    let named = |name: &str, usual| rounds.get(name).and_then(Value::as_str).unwrap_or(usual);
    [named("iterationVar", ITERATION), named("itemVar", ITEM), named("indexVar", INDEX)]
}

/// Checks that the variables of a loop are distinct and not those it depends on.
fn check_names(rounds: &Value, all: &HashSet<&str>, location: ValuePath<'_>, problems: &Problems) {
    for member in ["items", "count"] {
        let Some(path) = rounds.get(member).and_then(Value::as_str) else { continue };
        if all.iter().any(|name| covers(name, path)) {
            let path = short(path);
            let message = format!("`{path}` is set by a loop; name another variable");
            problems.error(location.member(member), message);
        }
    }
    let own = names(rounds);
    let clash =
        |one: usize, other: usize| covers(own[one], own[other]) || covers(own[other], own[one]);
    if clash(0, 1) || clash(0, 2) || clash(1, 2) {
        let message = "the round, the item and its number need distinct names";
        problems.error(location, message);
    }
}

/// Returns the problem of a body that refers to a step.
fn wrong_body(id: &str, known: &Definitions<'_>) -> Option<String> {
    let shown = short(id);
    match known.outer.get(id) {
        Some(true) => Some(format!("`body` names the loop `{shown}`; loops do not nest")),
        Some(false) => None,
        None if known.inner.contains(id) => {
            Some(format!("`body` names `{shown}`, which belongs to another loop"))
        }
        None => {
            let meant = nearest(id, known.ids.iter().copied()).map(short);
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            Some(format!("`body` names `{shown}`, which is not a step of this workflow{hint}"))
        }
    }
}

fn check_id<'a>(
    step: &'a Value,
    location: ValuePath<'_>,
    seen: &mut HashSet<&'a str>,
    problems: &Problems,
) {
    let Some(id) = id_of(step) else { return };
    if !seen.insert(id) {
        let message = format!("another step is called `{}` too; rename one", short(id));
        problems.error(location.member("id"), message);
    }
}

fn id_of(step: &Value) -> Option<&str> {
    step.get("id").and_then(Value::as_str)
}

/// Returns whether a step is meant as a loop.
pub(super) fn is_loop(step: &Value) -> bool {
    step.get("type").is_some() || step.get("loop").is_some()
}
