//! Reading of loops.

use serde_json::Value;

use super::fields::{Fields, Problems, ValuePath, shown};
use super::{conditions, is_identifier, read_task};
use crate::model::{Loop, LoopBody, LoopCount, LoopKind, LoopStep, LoopTag};

pub(super) fn read(
    value: &Value,
    location: ValuePath<'_>,
    problems: &Problems,
) -> Option<LoopStep> {
    let fields = Fields::of(value, location, &LOOP_STEP, problems)?;
    let id = fields.identifier("id");
    let title = fields.required_text("title", 1..=128);
    match fields.get("type") {
        Some(kind) if kind == "loop" => {}
        Some(kind) => fields.note("type", format!("`type` must be \"loop\", not {}", shown(kind))),
        None => fields.note_here("a step with a `loop` has `type: loop`"),
    }
    let run_condition = conditions::read(&fields, "runCondition");
    let rounds = fields.require("loop");
    let rounds = rounds.and_then(|value| read_rounds(value, fields.location("loop"), problems));
    let body = fields.require("body").and_then(|value| read_body(value, &fields));
    Some(LoopStep {
        id: id?,
        kind: LoopTag,
        title: title?,
        run_condition,
        rounds: rounds?,
        body: body?,
    })
}

fn read_body(value: &Value, fields: &Fields<'_>) -> Option<LoopBody> {
    match value {
        Value::String(id) if is_identifier(id) => Some(LoopBody::Step(id.as_str().into())),
        Value::Array(items) if !items.is_empty() => {
            let location = fields.location("body");
            let mut tasks = Vec::new();
            let mut whole = true;
            for (index, value) in items.iter().enumerate() {
                let location = location.item(index);
                if value.get("loop").is_some() {
                    fields
                        .problems()
                        .error(location, "loops do not nest; put this loop beside the other");
                    whole = false;
                } else if let Some(task) = read_task(value, location, fields.problems()) {
                    tasks.push(task);
                } else {
                    whole = false;
                }
            }
            whole.then_some(LoopBody::Inline(tasks))
        }
        _ => {
            fields.note("body", "`body` must be the id of a step, or a list of steps");
            None
        }
    }
}

fn read_rounds(value: &Value, location: ValuePath<'_>, problems: &Problems) -> Option<Loop> {
    let fields = Fields::of(value, location, &LOOP, problems)?;
    let kind = fields.require("type").and_then(|value| read_kind(value, &fields));
    fields.require("maxIterations");
    let most = fields.whole("maxIterations", 1..=1000);
    let condition = conditions::read(&fields, "condition");
    let count = read_count(&fields);
    let items = fields.variable("items");
    if let Some(kind) = kind {
        let needed = match kind {
            LoopKind::While | LoopKind::Until => "condition",
            LoopKind::For => "count",
            LoopKind::ForEach => "items",
        };
        fields.require(needed);
        for other in ["condition", "count", "items"] {
            if other != needed && fields.get(other).is_some() {
                fields.note(other, format!("`{other}` does not apply to a loop over `{needed}`"));
            }
        }
    }
    let [iteration_var, item_var, index_var] =
        ["iterationVar", "itemVar", "indexVar"].map(|name| fields.variable(name));
    Some(Loop {
        kind: kind?,
        max_iterations: u32::try_from(most?).ok()?,
        condition,
        count,
        items,
        iteration_var,
        item_var,
        index_var,
    })
}

fn read_kind(value: &Value, fields: &Fields<'_>) -> Option<LoopKind> {
    match value.as_str() {
        Some("while") => Some(LoopKind::While),
        Some("until") => Some(LoopKind::Until),
        Some("for") => Some(LoopKind::For),
        Some("forEach") => Some(LoopKind::ForEach),
        _ => {
            let message =
                format!("`type` must be while, until, for or forEach, not {}", shown(value));
            fields.note("type", message);
            None
        }
    }
}

fn read_count(fields: &Fields<'_>) -> Option<LoopCount> {
    match fields.get("count")? {
        Value::String(_) => fields.variable("count").map(LoopCount::Variable),
        _ => {
            let count = fields.whole("count", 0..=1000)?;
            u32::try_from(count).ok().map(LoopCount::Fixed)
        }
    }
}

const LOOP_STEP: [&str; 6] = ["id", "type", "title", "runCondition", "loop", "body"];

const LOOP: [&str; 8] =
    ["type", "maxIterations", "condition", "count", "items", "iterationVar", "itemVar", "indexVar"];
