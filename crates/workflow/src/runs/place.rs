//! Where a run is in its workflow.
//!
//! An agent says what is known of the task. How far it has come, the round of a loop included, is
//! not for it to say, so those variables are kept apart from its own.

use std::collections::HashSet;

use serde_json::Value;

use crate::condition::Context;
use crate::model::{Count, LoopStep, Step, Task, Workflow};
use crate::next::{self, LoopFault, Next, Round};

/// What was done of a workflow, and what is known.
#[derive(Debug)]
pub(super) struct Place<'a> {
    workflow: &'a Workflow,
    /// What the agent said, without the variables of loops.
    known: Context,
    done: HashSet<&'a str>,
    /// The loop the run is in.
    lap: Option<Lap<'a>>,
}

/// One round of a loop.
#[derive(Debug)]
struct Lap<'a> {
    looped: &'a LoopStep,
    variables: Vec<(&'a str, Value)>,
}

impl<'a> Place<'a> {
    pub(super) fn new(workflow: &'a Workflow, known: Context) -> Self {
        let mut place = Self { workflow, known: Context::new(), done: HashSet::new(), lap: None };
        place.learn(known);
        place
    }

    /// What comes next. A loop that is over stays so.
    pub(super) fn next(&mut self) -> Result<Next<'a>, LoopFault> {
        loop {
            let found = next::next(self.workflow, &self.done, &self.context());
            let within = match &found {
                Ok(next) => step_of(next),
                Err(fault) => Some(fault.step.as_str()),
            };
            match &self.lap {
                Some(lap) if within != Some(&lap.looped.id) => {
                    self.done.insert(&lap.looped.id);
                    self.lap = None;
                }
                _ => return found,
            }
        }
    }

    /// What would have to be said to know whether the steps before the next one apply: a run goes
    /// in order, so that is decided first.
    pub(super) fn undecided(&self, next: &Next<'a>) -> Vec<String> {
        let (context, end) = (self.context(), step_of(next));
        let before = self.workflow.steps.iter().take_while(|step| Some(step.id()) != end);
        let open = before
            .filter(|step| !self.done.contains(step.id()) && !self.workflow.is_body(step.id()));
        open.filter_map(|step| {
            let condition = step.run_condition()?;
            let is_open = !condition.holds(&context) && !condition.is_decided(&context);
            is_open.then(|| format!("For `{}`: {}", step.id(), condition.wanted(&context)))
        })
        .collect()
    }

    /// Goes to a step, in the round it is in.
    pub(super) fn enter(&mut self, round: Option<&Round<'a>>) {
        if let Some(round) = round.filter(|round| round.is_new) {
            for task in self.workflow.body(round.looped) {
                self.done.remove(&*task.id);
            }
        }
        let lap = |round: &Round<'a>| Lap { looped: round.looped, variables: round.variables() };
        self.lap = round.map(lap);
    }

    pub(super) fn finish(&mut self, task: &'a Task) {
        self.done.insert(&task.id);
    }

    /// All that is known.
    pub(super) fn context(&self) -> Context {
        self.with(&Context::new())
    }

    /// All that would be known with this.
    pub(super) fn with(&self, more: &Context) -> Context {
        let mut context = self.known.clone();
        context.extend(self.own(more.clone()));
        let lap = self.lap.iter().flat_map(|lap| &lap.variables);
        context.extend(lap.map(|(name, value)| ((*name).to_owned(), value.clone())));
        context
    }

    pub(super) fn learn(&mut self, more: Context) {
        self.known.extend(self.own(more));
    }

    /// What is the agent's to say: nothing about the rounds of loops, and within a loop nothing
    /// about how many of them there are.
    fn own(&self, mut said: Context) -> Context {
        for step in &self.workflow.steps {
            if let Step::Loop(LoopStep { rounds, .. }) = step {
                for name in [rounds.iteration_name(), rounds.item_name(), rounds.index_name()] {
                    said.remove(name);
                }
            }
        }
        if let Some(Lap { looped: LoopStep { rounds, .. }, .. }) = &self.lap {
            let count = match &rounds.count {
                Some(Count::Variable(name)) => Some(&**name),
                _ => None,
            };
            for name in rounds.items.as_deref().into_iter().chain(count) {
                said.remove(name);
            }
        }
        said
    }
}

/// The step of the workflow that what comes next belongs to.
fn step_of<'n>(next: &'n Next<'_>) -> Option<&'n str> {
    match next {
        Next::Task { round: Some(round), .. } => Some(&round.looped.id),
        Next::Task { task, round: None } => Some(&task.id),
        Next::Blocked(_) | Next::Complete => None,
    }
}
