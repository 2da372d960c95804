//! Decision on the next step of a workflow, from completed steps and context alone.
//!
//! Pure: no run, no file and no clock. `runs` keeps the completed steps of a run, `lookup` takes them from
//! the caller.

mod guidance;
mod rounds;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use crate::condition::{Condition, WorkflowContext};
use crate::model::{LoopStep, Step, Task, Workflow};

pub use guidance::{guidance, needs_confirmation, open_about};
pub use rounds::{LoopFault, Round};

/// Next step of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<'a> {
    /// A task to do.
    Task {
        /// The task.
        task: &'a Task,
        /// Loop round it belongs to.
        round: Option<Round<'a>>,
        /// Earlier steps that do not apply in this context.
        passed: Vec<Blocked<'a>>,
        /// Loops before it that have ended and were not reported as completed.
        ended: Vec<&'a LoopStep>,
    },
    /// The context does not decide whether the remaining steps apply.
    Blocked(Vec<Blocked<'a>>),
    /// Every step that applies is completed.
    Complete,
}

/// A step that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// Id of the step.
    pub step: &'a str,
    /// Id of the loop it belongs to, or is.
    pub looped: Option<&'a str>,
    /// Description of what would make it apply.
    pub wanted: String,
    /// True if adding to the context cannot make it apply.
    pub is_decided: bool,
}

impl Next<'_> {
    /// Describes the context needed to decide whether earlier steps apply.
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
    fn by(
        condition: &Condition,
        step: &'a str,
        looped: Option<&'a str>,
        known: KnownContext<'_>,
    ) -> Self {
        let KnownContext { context, fixed } = known;
        let is_decided = condition.is_decided(context, fixed);
        Self { step, looped, wanted: condition.requirement(context), is_decided }
    }

    /// Returns the step to report as completed if it does not apply at all.
    pub fn whole(&self) -> &'a str {
        self.looped.unwrap_or(self.step)
    }
}

/// Context with the variables that cannot be added to.
#[derive(Clone, Copy, Debug)]
pub struct KnownContext<'c> {
    /// Variables.
    pub context: &'c WorkflowContext,
    /// Names of variables that are settled, even if they are missing.
    pub fixed: &'c [&'c str],
}

impl<'c> From<&'c WorkflowContext> for KnownContext<'c> {
    fn from(context: &'c WorkflowContext) -> Self {
        Self { context, fixed: &[] }
    }
}

/// Decides what comes next: the first step, in the order of the file, that is not completed and
/// whose condition holds.
///
/// The round of a loop is read from the context. When all steps of its body are completed or do not
/// apply, the next round begins and they are due again. A step is skipped only if its condition is
/// decided: an undecided condition in its body stops a loop, and one anywhere keeps the workflow
/// incomplete (C-64).
pub fn next<'a, 'c>(
    workflow: &'a Workflow,
    done: &HashSet<&str>,
    known: impl Into<KnownContext<'c>>,
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
                // The round variable belongs to that loop.
                let is_first =
                    !ended.iter().any(|other: &&LoopStep| other.rounds.iteration_name() == name);
                let current_round =
                    is_first.then(|| rounds::current_round(looped, known.context)).flatten();
                let turn = rounds::next(workflow, looped, current_round, done, known)?;
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

/// Decides what comes next within a loop that was entered, ignoring the steps before it; `None` if
/// the loop has ended.
pub fn next_within<'a>(
    workflow: &'a Workflow,
    looped: &'a LoopStep,
    done: &HashSet<&str>,
    known: KnownContext<'_>,
) -> Result<Option<Next<'a>>, LoopFault> {
    let current_round = rounds::current_round(looped, known.context);
    let turn = rounds::next(workflow, looped, current_round, done, known)?;
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

/// Adds the loop variables of a round to a context.
pub fn in_round<'c>(
    context: &'c WorkflowContext,
    round: Option<&Round<'_>>,
) -> Cow<'c, WorkflowContext> {
    let Some(round) = round else { return Cow::Borrowed(context) };
    let mut context = context.clone();
    for (name, value) in round.variables() {
        context.insert(name.to_owned(), value);
    }
    Cow::Owned(context)
}

/// Reads a count from a context value, which may be text.
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
