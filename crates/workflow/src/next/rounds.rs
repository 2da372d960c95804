//! Going round loops.

use std::collections::HashSet;

use serde_json::Value;

use super::{as_count, in_round};
use crate::condition::{Context, lookup};
use crate::model::{Count, LoopKind, LoopStep, Task, Workflow};

/// One round of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Round<'a> {
    /// Which loop.
    pub looped: &'a LoopStep,
    /// Which round, from 1.
    pub iteration: u32,
    /// How many rounds there will be, where that is known.
    pub total: Option<u64>,
    /// What the round is about, where it is about something.
    pub item: Option<Value>,
    /// Whether it begins now, after another round has been completed.
    pub is_new: bool,
}

impl<'a> Round<'a> {
    /// What the context has in this round.
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

/// Why a loop cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the loop `{step}` {reason}")]
pub struct LoopFault {
    /// Which loop.
    pub step: String,
    /// Why.
    pub reason: String,
    /// Whether it could go on with another context.
    pub is_mendable: bool,
}

/// What comes next in a loop; nothing if it is over.
pub(super) fn next<'a>(
    workflow: &'a Workflow,
    looped: &'a LoopStep,
    done: &HashSet<&str>,
    context: &Context,
) -> Result<Option<(&'a Task, Round<'a>)>, LoopFault> {
    let body = workflow.body(looped);
    let noted = as_count(lookup(context, looped.rounds.iteration_name()));
    let iteration = noted.and_then(|number| u32::try_from(number).ok()).unwrap_or(1).max(1);
    let Some(current) = round(looped, iteration, false, context)? else { return Ok(None) };
    if let Some(task) = first(&body, done, &in_round(context, Some(&current))) {
        return Ok(Some((task, current)));
    }
    let following = iteration.saturating_add(1);
    let Some(new) = round(looped, following, true, context)? else { return Ok(None) };
    let task = first(&body, &HashSet::new(), &in_round(context, Some(&new)));
    Ok(task.map(|task| (task, new)))
}

/// The first step of a round that is to be done.
fn first<'a>(body: &[&'a Task], done: &HashSet<&str>, context: &Context) -> Option<&'a Task> {
    let applies = |task: &&&Task| {
        let condition = task.run_condition.as_ref();
        !done.contains(&*task.id) && condition.is_none_or(|condition| condition.holds(context))
    };
    body.iter().find(applies).copied()
}

/// A round, if the loop has it.
fn round<'a>(
    looped: &'a LoopStep,
    iteration: u32,
    is_new: bool,
    context: &Context,
) -> Result<Option<Round<'a>>, LoopFault> {
    let rounds = &looped.rounds;
    let fault = |reason: String, is_mendable: bool| LoopFault {
        step: looped.id.to_string(),
        reason,
        is_mendable,
    };
    let (total, item) = match rounds.kind {
        LoopKind::While | LoopKind::Until => {
            let holds = rounds.condition.as_ref().is_none_or(|condition| condition.holds(context));
            if holds == (rounds.kind == LoopKind::Until) {
                return Ok(None);
            }
            (None, None)
        }
        LoopKind::For => {
            let count = match &rounds.count {
                None => 0,
                Some(Count::Fixed(count)) => u64::from(*count),
                Some(Count::Variable(name)) => {
                    let value = lookup(context, name);
                    as_count(value).ok_or_else(|| {
                        let reason =
                            format!("goes by `{name}`, which must be a number, not {value}");
                        fault(reason, true)
                    })?
                }
            };
            (Some(count), None)
        }
        LoopKind::ForEach => {
            let name = rounds.items.as_deref().unwrap_or_default();
            let Value::Array(items) = lookup(context, name) else {
                let reason = format!("goes by `{name}`, which must be a list in the context");
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
