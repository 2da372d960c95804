//! What comes next in a workflow, decided from what was done and the context alone.

mod guidance;
mod rounds;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use crate::condition::{Condition, Context};
use crate::model::{LoopStep, Step, Task, Workflow};

pub use guidance::{guidance, needs_confirmation, open_about};
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
        /// What would come before it, but does not apply as the context stands.
        passed: Vec<Blocked<'a>>,
        /// Loops before it that are over, and were not said to be done.
        ended: Vec<&'a LoopStep>,
    },
    /// Whether what is left applies is still to be said.
    Blocked(Vec<Blocked<'a>>),
    /// Everything is done that applies.
    Complete,
}

/// A step that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// Which.
    pub step: &'a str,
    /// The loop it belongs to, or is.
    pub looped: Option<&'a str>,
    /// What would make it apply, in words.
    pub wanted: String,
    /// Whether nothing that could still be said would make it apply.
    pub is_decided: bool,
}

impl Next<'_> {
    /// What would have to be said to know whether what comes before this applies.
    pub fn undecided(&self) -> Vec<String> {
        let passed = match self {
            Self::Task { passed, .. } | Self::Blocked(passed) => passed.as_slice(),
            Self::Complete => &[],
        };
        let open = passed.iter().filter(|one| !one.is_decided);
        open.map(|one| format!("For `{}`: {}", one.step, one.wanted)).collect()
    }
}

impl<'a> Blocked<'a> {
    fn by(condition: &Condition, step: &'a str, looped: Option<&'a str>, known: Known<'_>) -> Self {
        let Known { context, given } = known;
        let is_decided = condition.is_decided(context, given);
        Self { step, looped, wanted: condition.wanted(context), is_decided }
    }

    /// The step that is to be called done if it does not apply at all.
    pub fn whole(&self) -> &'a str {
        self.looped.unwrap_or(self.step)
    }
}

/// What is known of a task.
#[derive(Clone, Copy, Debug)]
pub struct Known<'c> {
    /// What was said.
    pub context: &'c Context,
    /// Variables that nobody can say more of: they are as they are, also if they are missing.
    pub given: &'c [&'c str],
}

impl<'c> From<&'c Context> for Known<'c> {
    fn from(context: &'c Context) -> Self {
        Self { context, given: &[] }
    }
}

/// Decides what comes next: the first step, in the order of the file, that is not done and whose
/// condition holds.
///
/// A loop is gone round by the number of its round in the context. When all steps of its body are
/// done or do not apply, the next round begins, and they are to be done again. Only what has been
/// decided does not apply: with an open condition in its body, a loop does not go on, and with one
/// anywhere the workflow is not complete (C-64).
pub fn next<'a, 'c>(
    workflow: &'a Workflow,
    done: &HashSet<&str>,
    known: impl Into<Known<'c>>,
) -> Result<Next<'a>, LoopFault> {
    let known = known.into();
    let (mut passed, mut ended) = (Vec::new(), Vec::new());
    for step in &workflow.steps {
        if done.contains(step.id()) || workflow.is_body(step.id()) {
            continue;
        }
        if let Some(condition) = step.run_condition()
            && !condition.holds(known.context)
        {
            passed.push(Blocked::by(condition, step.id(), None, known));
            continue;
        }
        match step {
            Step::Task(task) => return Ok(Next::Task { task, round: None, passed, ended }),
            Step::Loop(looped) => {
                let name = looped.rounds.iteration_name();
                // What is noted under the name is the round of that one.
                let is_first =
                    !ended.iter().any(|other: &&LoopStep| other.rounds.iteration_name() == name);
                let noted = is_first.then(|| rounds::noted(looped, known.context)).flatten();
                let turn = rounds::next(workflow, looped, noted, done, known)?;
                let is_over = turn.is_over();
                passed.extend(turn.passed);
                if let Some((task, round)) = turn.due {
                    return Ok(Next::Task { task, round: Some(round), passed, ended });
                }
                ended.extend(is_over.then_some(looped));
            }
        }
    }
    passed.retain(|one| !one.is_decided);
    Ok(if passed.is_empty() { Next::Complete } else { Next::Blocked(passed) })
}

/// What comes next within a loop that was entered, whatever there may be before it; nothing if it
/// is over.
pub fn next_within<'a>(
    workflow: &'a Workflow,
    looped: &'a LoopStep,
    done: &HashSet<&str>,
    known: Known<'_>,
) -> Result<Option<Next<'a>>, LoopFault> {
    let noted = rounds::noted(looped, known.context);
    let turn = rounds::next(workflow, looped, noted, done, known)?;
    if turn.is_over() {
        return Ok(None);
    }
    Ok(Some(match turn.due {
        Some((task, round)) => {
            Next::Task { task, round: Some(round), passed: turn.passed, ended: Vec::new() }
        }
        None => Next::Blocked(turn.passed),
    }))
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
