//! Whether steps are told apart by their ids, and loops refer to what is there.
//!
//! It goes by what is written, not by what could be read, so that this is told together with all
//! else that is wrong.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::fields::{Notes, Place};
use crate::condition::covers;
use crate::model::{INDEX, ITEM, ITERATION};
use crate::problem::{nearest, short};

pub(super) fn check(steps: &[Value], place: &Place<'_>, notes: &Notes) {
    let mut seen = HashSet::new();
    let mut bodies = HashSet::new();
    let known = Known::of(steps);
    for (index, step) in steps.iter().enumerate() {
        let place = place.item(index);
        check_id(step, place, &mut seen, notes);
        match step.get("body") {
            Some(Value::Array(tasks)) => {
                let body = place.member("body");
                for (index, task) in tasks.iter().enumerate() {
                    check_id(task, body.item(index), &mut seen, notes);
                }
            }
            Some(Value::String(id)) => {
                let told = wrong_body(id, &known);
                let twice = || {
                    let id = short(id);
                    format!("`body` names `{id}`, as another loop does; copy the step")
                };
                let told = told.or_else(|| (!bodies.insert(id)).then(twice));
                if let Some(told) = told {
                    notes.error(place.member("body"), told);
                }
            }
            _ => {}
        }
        if let Some(rounds) = step.get("loop") {
            check_names(rounds, &known.variables, place.member("loop"), notes);
        }
    }
}

/// How many steps a step is, with those within it.
pub(super) fn count(step: &Value) -> usize {
    1 + step.get("body").and_then(Value::as_array).map_or(0, Vec::len)
}

/// What there is to refer to, by what is written.
struct Known<'a> {
    /// The steps that are in no loop, in order.
    ids: Vec<&'a str>,
    /// The same, with whether they are loops.
    outer: HashMap<&'a str, bool>,
    /// The steps within loops.
    inner: HashSet<&'a str>,
    /// What loops set.
    variables: HashSet<&'a str>,
}

impl<'a> Known<'a> {
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

/// What a loop calls the number of its round, its item and the number of that.
fn names(rounds: &Value) -> [&str; 3] {
    let named = |name: &str, usual| rounds.get(name).and_then(Value::as_str).unwrap_or(usual);
    [named("iterationVar", ITERATION), named("itemVar", ITEM), named("indexVar", INDEX)]
}

/// Whether what a loop goes by is something to be said, and what it sets are different things.
fn check_names(rounds: &Value, all: &HashSet<&str>, place: Place<'_>, notes: &Notes) {
    for member in ["items", "count"] {
        let Some(path) = rounds.get(member).and_then(Value::as_str) else { continue };
        if all.iter().any(|name| covers(name, path)) {
            let path = short(path);
            let told = format!("`{path}` is set by a loop itself; name another variable");
            notes.error(place.member(member), told);
        }
    }
    let own = names(rounds);
    let clash =
        |one: usize, other: usize| covers(own[one], own[other]) || covers(own[other], own[one]);
    if clash(0, 1) || clash(0, 2) || clash(1, 2) {
        let told = "the round, the item and its number need names of their own";
        notes.error(place, told);
    }
}

/// What is wrong with a body that names a step.
fn wrong_body(id: &str, known: &Known<'_>) -> Option<String> {
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
            Some(format!("`body` names `{shown}`, which is no step here{hint}"))
        }
    }
}

fn check_id<'a>(step: &'a Value, place: Place<'_>, seen: &mut HashSet<&'a str>, notes: &Notes) {
    let Some(id) = id_of(step) else { return };
    if !seen.insert(id) {
        let told = format!("another step is called `{}` too; rename one", short(id));
        notes.error(place.member("id"), told);
    }
}

fn id_of(step: &Value) -> Option<&str> {
    step.get("id").and_then(Value::as_str)
}

/// Whether something is meant to be a loop.
pub(super) fn is_loop(step: &Value) -> bool {
    step.get("type").is_some() || step.get("loop").is_some()
}
