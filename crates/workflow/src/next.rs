//! What comes next in a workflow, decided from what was done and the context alone.

mod guidance;
mod rounds;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use crate::condition::Context;
use crate::model::{Step, Task, Workflow};

pub use guidance::{guidance, needs_confirmation};
pub use rounds::{LoopFault, Round};

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<'a> {
    /// This is to be done.
    Task {
        /// What.
        task: &'a Task,
        /// In which round of which loop, if it belongs to one.
        round: Option<Round<'a>>,
    },
    /// What is left does not apply as long as the context stays as it is.
    Blocked(Vec<Blocked<'a>>),
    /// Everything is done.
    Complete,
}

/// A step that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// Which.
    pub step: &'a str,
    /// What would make it apply, in words.
    pub wanted: String,
    /// Whether all that it asks about is in the context.
    pub is_decided: bool,
}

/// Decides what comes next: the first step, in the order of the file, that is not done and whose
/// condition holds.
///
/// A loop is gone round by the number of its round in the context. When all steps of its body are
/// done, the next round begins, and they are to be done again.
pub fn next<'a>(
    workflow: &'a Workflow,
    done: &HashSet<&str>,
    context: &Context,
) -> Result<Next<'a>, LoopFault> {
    let mut blocked = Vec::new();
    for step in &workflow.steps {
        if done.contains(step.id()) || workflow.is_body(step.id()) {
            continue;
        }
        if let Some(condition) = step.run_condition()
            && !condition.holds(context)
        {
            blocked.push(Blocked {
                step: step.id(),
                wanted: condition.wanted(context),
                is_decided: condition.is_decided(context),
            });
            continue;
        }
        match step {
            Step::Task(task) => return Ok(Next::Task { task, round: None }),
            Step::Loop(looped) => {
                if let Some((task, round)) = rounds::next(workflow, looped, done, context)? {
                    return Ok(Next::Task { task, round: Some(round) });
                }
            }
        }
    }
    Ok(if blocked.is_empty() { Next::Complete } else { Next::Blocked(blocked) })
}

/// A context with what a round adds to it.
pub fn in_round<'c>(context: &'c Context, round: Option<&Round<'_>>) -> Cow<'c, Context> {
    let Some(round) = round else { return Cow::Borrowed(context) };
    let mut context = context.clone();
    for (name, value) in round.variables() {
        context.insert(name.to_owned(), value);
    }
    Cow::Owned(context)
}

/// A text of a context that says how many there are of something.
pub(crate) fn as_count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && *float >= 0.0)?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is whole, and casts saturate"
            )]
            Some(float as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
