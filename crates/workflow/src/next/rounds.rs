//! Loop rounds.

use std::collections::HashSet;

use serde_json::Value;

use super::{Blocked, KnownContext, as_count};
use crate::condition::{WorkflowContext, lookup};
use crate::model::{Loop, LoopCount, LoopKind, LoopStep, Task, Workflow};

/// One round of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Round<'a> {
    /// The loop.
    pub looped: &'a LoopStep,
    /// Number of the round, from 1.
    pub iteration: u32,
    /// Number of rounds, where known.
    pub total: Option<u64>,
    /// Item of a `forEach` round.
    pub item: Option<Value>,
    /// True if it begins now, after the previous round.
    pub is_new: bool,
}

/// Next step within a loop.
#[derive(Debug, Default)]
pub(super) struct NextInLoop<'a> {
    /// The task that is due and its round; `None` if the loop has ended or is undecided.
    pub(super) due: Option<(&'a Task, Round<'a>)>,
    /// Skipped steps, unless the loop has gone past them.
    pub(super) passed: Vec<Blocked<'a>>,
}

impl<'a> NextInLoop<'a> {
    /// Returns whether nothing is due or undecided.
    pub(super) fn is_over(&self) -> bool {
        self.due.is_none() && self.passed.iter().all(|one| one.is_decided)
    }

    fn without(passed: Vec<Blocked<'a>>) -> Self {
        Self { due: None, passed }
    }
}

impl<'a> Round<'a> {
    /// Returns the loop variables of this round.
    pub fn variables(&self) -> Vec<(&'a str, Value)> {
        let rounds = &self.looped.rounds;
        let mut variables = vec![(rounds.iteration_name(), Value::from(self.iteration))];
        if let Some(item) = &self.item {
            variables.push((rounds.item_name(), item.clone()));
            variables.push((rounds.index_name(), Value::from(self.iteration - 1)));
        }
        variables
    }
}

/// Reason a loop cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the loop `{step}` {reason}")]
pub struct LoopFault {
    /// Id of the loop.
    pub step: String,
    /// Description.
    pub reason: String,
    /// True if a different context would let it continue.
    pub is_recoverable: bool,
}

/// Reads the round of a loop from the context.
pub(super) fn current_round(looped: &LoopStep, context: &WorkflowContext) -> Option<u32> {
    as_count(lookup(context, looped.rounds.iteration_name()))
        .and_then(|number| u32::try_from(number).ok())
}

/// Advances from the current round until a task is due.
pub(super) fn next<'a>(
    workflow: &'a Workflow,
    looped: &'a LoopStep,
    current_round: Option<u32>,
    done: &HashSet<&str>,
    known: KnownContext<'_>,
) -> Result<NextInLoop<'a>, LoopFault> {
    let (rounds, body) = (&looped.rounds, workflow.body(looped));
    let current_round = current_round.unwrap_or(1).max(1);
    let is_begun = body.iter().any(|task| done.contains(&*task.id));
    let nothing = HashSet::new();
    let mut fixed = known.fixed.to_vec();
    fixed.extend(rounds.names());
    // A context may be large: it is copied once and updated for each round.
    let mut inside = known.context.clone();
    // Steps that do not apply in the last round.
    let mut idle: Vec<Blocked<'a>> = Vec::new();
    let mut iteration = current_round;
    loop {
        let is_new = iteration > current_round;
        inside.insert(rounds.iteration_name().to_owned(), iteration.into());
        // A round that was begun is completed first, whatever the context says now.
        if is_new || !is_begun {
            let known = KnownContext { context: &inside, fixed: &fixed };
            match ending(looped, known) {
                Ending::Over => return Ok(NextInLoop::default()),
                Ending::Open(open) => return Ok(NextInLoop::without(open)),
                Ending::NotYet => {}
            }
        }
        let round = match round(looped, iteration, is_new, &inside) {
            Ok(Some(round)) => round,
            Ok(None) if is_begun || current_round > 1 => return Ok(NextInLoop::default()),
            Ok(None) => return Ok(NextInLoop::without(never_done(idle, looped, &body))),
            // Rounds in which nothing applies do not end the loop.
            Err(_) if !idle.is_empty() && !rounds.has_total() => {
                return Ok(NextInLoop::without(idle));
            }
            Err(fault) => return Err(fault),
        };
        inside.extend(round.variables().into_iter().map(|(name, value)| (name.to_owned(), value)));
        let done = if is_new { &nothing } else { done };
        let known = KnownContext { context: &inside, fixed: &fixed };
        let (task, passed) = first(&body, looped, done, known);
        if let Some(task) = task {
            return Ok(NextInLoop { due: Some((task, round)), passed });
        }
        if passed.iter().any(|one| !one.is_decided) {
            return Ok(NextInLoop::without(passed));
        }
        idle = passed;
        if !idle.is_empty() && !differ(&body, looped) {
            // It would be the same in all later rounds.
            let is_never = rounds.has_total() && !is_begun && current_round == 1;
            let is_stuck = !rounds.has_total();
            return Ok(NextInLoop::without(if is_never || is_stuck { idle } else { Vec::new() }));
        }
        iteration = iteration.saturating_add(1);
    }
}

/// Returns whether different steps can apply in different rounds.
fn differ(body: &[&Task], looped: &LoopStep) -> bool {
    let own = looped.rounds.names();
    let conditions = body.iter().filter_map(|task| task.run_condition.as_ref());
    body.len() > conditions.clone().count()
        || conditions.into_iter().any(|condition| condition.asks_about(&own))
}

/// Steps of a loop of which none applied in any round, except for those whose condition depends on
/// loop variables.
fn never_done<'a>(
    mut idle: Vec<Blocked<'a>>,
    looped: &LoopStep,
    body: &[&Task],
) -> Vec<Blocked<'a>> {
    let own = looped.rounds.names();
    idle.retain(|one| {
        let task = body.iter().find(|task| &*task.id == one.step);
        let condition = task.and_then(|task| task.run_condition.as_ref());
        condition.is_some_and(|condition| !condition.asks_about(&own))
    });
    idle
}

/// Returns the first task due in a round, and the skipped ones before it.
fn first<'a>(
    body: &[&'a Task],
    looped: &'a LoopStep,
    done: &HashSet<&str>,
    known: KnownContext<'_>,
) -> (Option<&'a Task>, Vec<Blocked<'a>>) {
    let mut passed = Vec::new();
    for task in body.iter().filter(|task| !done.contains(&*task.id)) {
        match &task.run_condition {
            Some(condition) if !condition.holds(known.context) => {
                passed.push(Blocked::by(condition, &task.id, Some(&looped.id), known));
            }
            _ => return (Some(task), passed),
        }
    }
    (None, passed)
}

/// Evaluation of a loop's condition.
enum Ending<'a> {
    Over,
    NotYet,
    /// Undecided.
    Open(Vec<Blocked<'a>>),
}

fn ending<'a>(looped: &'a LoopStep, known: KnownContext<'_>) -> Ending<'a> {
    let KnownContext { context, fixed } = known;
    let Loop { kind, condition: Some(condition), .. } = &looped.rounds else {
        return Ending::NotYet;
    };
    let goes_on = *kind == LoopKind::While;
    if condition.holds(context) == goes_on {
        return Ending::NotYet;
    }
    if condition.is_decided(context, fixed) {
        return Ending::Over;
    }
    Ending::Open(vec![Blocked {
        step: &looped.id,
        looped: Some(&looped.id),
        wanted: condition.words(goes_on, context),
        is_decided: false,
    }])
}

/// Returns a round, if the loop has that many.
fn round<'a>(
    looped: &'a LoopStep,
    iteration: u32,
    is_new: bool,
    context: &WorkflowContext,
) -> Result<Option<Round<'a>>, LoopFault> {
    let rounds = &looped.rounds;
    let fault = |reason: String, is_recoverable: bool| LoopFault {
        step: looped.id.to_string(),
        reason,
        is_recoverable,
    };
    let (total, item) = match rounds.kind {
        LoopKind::While | LoopKind::Until => (None, None),
        LoopKind::For => {
            let count = match &rounds.count {
                None => 0,
                Some(LoopCount::Fixed(count)) => u64::from(*count),
                Some(LoopCount::Variable(name)) => {
                    let value = lookup(context, name);
                    as_count(value).ok_or_else(|| {
                        let reason = format!("needs `{name}` to be a number, not {value}");
                        fault(reason, true)
                    })?
                }
            };
            (Some(count), None)
        }
        LoopKind::ForEach => {
            let name = rounds.items.as_deref().unwrap_or_default();
            let Value::Array(items) = lookup(context, name) else {
                let reason = format!("needs `{name}` to be a list in the context");
                return Err(fault(reason, true));
            };
            (Some(items.len() as u64), items.get(iteration as usize - 1).cloned())
        }
    };
    if total.is_some_and(|total| u64::from(iteration) > total) {
        return Ok(None);
    }
    if iteration > rounds.max_iterations {
        let most = rounds.max_iterations;
        let reason = format!("has reached its limit of {most} rounds without coming to an end");
        return Err(fault(reason, false));
    }
    Ok(Some(Round { looped, iteration, total, item, is_new }))
}
