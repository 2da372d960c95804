//! Whether steps are told apart by their ids, and loops refer to what is there.
//!
//! It goes by what is written, not by what could be read, so that this is told together with all
//! else that is wrong.

use std::collections::HashSet;

use serde_json::Value;

use super::fields::{Notes, Place};
use crate::condition::covers;
use crate::model::{INDEX, ITEM, ITERATION};
use crate::problem::nearest;

pub(super) fn check(steps: &[Value], place: &Place<'_>, notes: &Notes) {
    let mut seen = HashSet::new();
    let mut bodies = HashSet::new();
    let names: Vec<_> = steps.iter().filter_map(|step| step.get("loop")).map(names).collect();
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
                let told = wrong_body(id, steps);
                let twice = || format!("`body` names `{id}`, as another loop does; copy the step");
                let told = told.or_else(|| (!bodies.insert(id)).then(twice));
                if let Some(told) = told {
                    notes.error(place.member("body"), told);
                }
            }
            _ => {}
        }
        if let Some(rounds) = step.get("loop") {
            check_names(rounds, &names, place.member("loop"), notes);
        }
    }
}

/// What a loop calls the number of its round, its item and the number of that.
fn names(rounds: &Value) -> [&str; 3] {
    let named = |name: &str, usual| rounds.get(name).and_then(Value::as_str).unwrap_or(usual);
    [named("iterationVar", ITERATION), named("itemVar", ITEM), named("indexVar", INDEX)]
}

/// Whether what a loop goes by is something to be said, and what it sets are different things.
fn check_names(rounds: &Value, all: &[[&str; 3]], place: Place<'_>, notes: &Notes) {
    for member in ["items", "count"] {
        let Some(path) = rounds.get(member).and_then(Value::as_str) else { continue };
        if all.iter().flatten().any(|name| covers(name, path)) {
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
fn wrong_body(id: &str, steps: &[Value]) -> Option<String> {
    let inner = |step: &Value| {
        let tasks = step.get("body").and_then(Value::as_array);
        tasks.is_some_and(|tasks| tasks.iter().any(|task| id_of(task) == Some(id)))
    };
    match steps.iter().find(|step| id_of(step) == Some(id)) {
        Some(step) if is_loop(step) => {
            Some(format!("`body` names the loop `{id}`; loops do not nest"))
        }
        Some(_) => None,
        None if steps.iter().any(inner) => {
            Some(format!("`body` names `{id}`, which belongs to another loop"))
        }
        None => {
            let meant = nearest(id, steps.iter().filter_map(id_of));
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            Some(format!("`body` names `{id}`, which is no step here{hint}"))
        }
    }
}

fn check_id<'a>(step: &'a Value, place: Place<'_>, seen: &mut HashSet<&'a str>, notes: &Notes) {
    let Some(id) = id_of(step) else { return };
    if !seen.insert(id) {
        notes.error(place.member("id"), format!("another step is called `{id}` too; rename one"));
    }
}

fn id_of(step: &Value) -> Option<&str> {
    step.get("id").and_then(Value::as_str)
}

/// Whether something is meant to be a loop.
pub(super) fn is_loop(step: &Value) -> bool {
    step.get("type").is_some() || step.get("loop").is_some()
}
