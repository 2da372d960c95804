//! Going round loops.

use std::collections::HashSet;

use serde_json::Value;

use super::{Blocked, Known, as_count};
use crate::condition::{Context, lookup};
use crate::model::{Count, Loop, LoopKind, LoopStep, Task, Workflow};

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

/// What comes next in a loop.
#[derive(Debug, Default)]
pub(super) struct Turn<'a> {
    /// What is to be done, and in which round; nothing if the loop is over, or cannot go on.
    pub(super) due: Option<(&'a Task, Round<'a>)>,
    /// What does not apply, as far as that says more than that the loop has gone past it.
    pub(super) passed: Vec<Blocked<'a>>,
}

impl<'a> Turn<'a> {
    /// Whether nothing is to be done any more, nor to be said.
    pub(super) fn is_over(&self) -> bool {
        self.due.is_none() && self.passed.iter().all(|one| one.is_decided)
    }

    fn without(passed: Vec<Blocked<'a>>) -> Self {
        Self { due: None, passed }
    }
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

/// The round a loop is in, by the context.
pub(super) fn noted(looped: &LoopStep, context: &Context) -> Option<u32> {
    as_count(lookup(context, looped.rounds.iteration_name()))
        .and_then(|number| u32::try_from(number).ok())
}

/// Goes round, from the round that is noted, until something is to be done.
pub(super) fn next<'a>(
    workflow: &'a Workflow,
    looped: &'a LoopStep,
    noted: Option<u32>,
    done: &HashSet<&str>,
    known: Known<'_>,
) -> Result<Turn<'a>, LoopFault> {
    let (rounds, body) = (&looped.rounds, workflow.body(looped));
    let noted = noted.unwrap_or(1).max(1);
    let is_begun = body.iter().any(|task| done.contains(&*task.id));
    let nothing = HashSet::new();
    let mut given = known.given.to_vec();
    given.extend(rounds.names());
    // A context may be large: it is copied once, and told of each round.
    let mut inside = known.context.clone();
    // What does not apply in the round looked at last.
    let mut idle: Vec<Blocked<'a>> = Vec::new();
    let mut iteration = noted;
    loop {
        let is_new = iteration > noted;
        inside.insert(rounds.iteration_name().to_owned(), iteration.into());
        // What was begun is finished first, whatever has been said since.
        if is_new || !is_begun {
            let known = Known { context: &inside, given: &given };
            match ending(looped, known) {
                Ending::Over => return Ok(Turn::default()),
                Ending::Open(open) => return Ok(Turn::without(open)),
                Ending::NotYet => {}
            }
        }
        let round = match round(looped, iteration, is_new, &inside) {
            Ok(Some(round)) => round,
            Ok(None) if is_begun || noted > 1 => return Ok(Turn::default()),
            Ok(None) => return Ok(Turn::without(never_done(idle, looped, &body))),
            // Rounds in which nothing applies do not bring it to an end.
            Err(_) if !idle.is_empty() && !rounds.has_total() => return Ok(Turn::without(idle)),
            Err(fault) => return Err(fault),
        };
        inside.extend(round.variables().into_iter().map(|(name, value)| (name.to_owned(), value)));
        let done = if is_new { &nothing } else { done };
        let known = Known { context: &inside, given: &given };
        let (task, passed) = first(&body, looped, done, known);
        if let Some(task) = task {
            return Ok(Turn { due: Some((task, round)), passed });
        }
        if passed.iter().any(|one| !one.is_decided) {
            return Ok(Turn::without(passed));
        }
        idle = passed;
        if !idle.is_empty() && !differ(&body, looped) {
            // It would be the same in all rounds that follow.
            let is_never = rounds.has_total() && !is_begun && noted == 1;
            let is_stuck = !rounds.has_total();
            return Ok(Turn::without(if is_never || is_stuck { idle } else { Vec::new() }));
        }
        iteration = iteration.saturating_add(1);
    }
}

/// Whether what applies can differ from one round to the next.
fn differ(body: &[&Task], looped: &LoopStep) -> bool {
    let own = looped.rounds.names();
    let conditions = body.iter().filter_map(|task| task.run_condition.as_ref());
    body.len() > conditions.clone().count()
        || conditions.into_iter().any(|condition| condition.asks_about(&own))
}

/// The steps of a loop of which none was done in any round, but for those that do not apply because
/// of what the rounds are about.
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

/// The first step of a round that is to be done, and those before it that do not apply.
fn first<'a>(
    body: &[&'a Task],
    looped: &'a LoopStep,
    done: &HashSet<&str>,
    known: Known<'_>,
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

/// Whether a loop is over by its condition.
enum Ending<'a> {
    Over,
    NotYet,
    /// That is still to be said.
    Open(Vec<Blocked<'a>>),
}

fn ending<'a>(looped: &'a LoopStep, known: Known<'_>) -> Ending<'a> {
    let Known { context, given } = known;
    let Loop { kind, condition: Some(condition), .. } = &looped.rounds else {
        return Ending::NotYet;
    };
    let goes_on = *kind == LoopKind::While;
    if condition.holds(context) == goes_on {
        return Ending::NotYet;
    }
    if condition.is_decided(context, given) {
        return Ending::Over;
    }
    Ending::Open(vec![Blocked {
        step: &looped.id,
        looped: Some(&looped.id),
        wanted: condition.words(goes_on, context),
        is_decided: false,
    }])
}

/// A round, if the loop has so many.
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
        LoopKind::While | LoopKind::Until => (None, None),
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
