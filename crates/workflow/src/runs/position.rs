//! Position of a run in its workflow: completed steps, known context and current loop round.
//!
//! The agent supplies the context. Loop variables belong to the run; an agent cannot set them.

use std::collections::HashSet;

use serde_json::Value;

use crate::condition::{WorkflowContext, covers, find, lookup};
use crate::model::{LoopStep, Step, Task, Workflow};
use crate::next::{self, KnownContext, LoopFault, Next, Round};

/// Completed steps and known context of a run.
#[derive(Debug)]
pub(super) struct RunPosition<'a> {
    workflow: &'a Workflow,
    /// Context from the agent, without loop variables.
    known: WorkflowContext,
    done: HashSet<&'a str>,
    /// Loop round the run is in.
    round: Option<CurrentRound<'a>>,
}

/// One round of a loop.
#[derive(Debug)]
struct CurrentRound<'a> {
    looped: &'a LoopStep,
    variables: Vec<(&'a str, Value)>,
    /// Variable that bounds the number of rounds, with its value when the loop was entered.
    bound_variable: Option<(&'a str, Value)>,
}

impl<'a> RunPosition<'a> {
    pub(super) fn new(workflow: &'a Workflow, known: WorkflowContext) -> Self {
        let mut position =
            Self { workflow, known: WorkflowContext::new(), done: HashSet::new(), round: None };
        position.add_context(known);
        position
    }

    /// Decides what comes next. A loop that has ended is not entered again.
    pub(super) fn next(&mut self) -> Result<Next<'a>, LoopFault> {
        if let Some(looped) = self.round.as_ref().map(|round| round.looped) {
            // New context does not end a loop that was entered.
            let context = self.context();
            let known = KnownContext { context: &context, fixed: &self.fixed() };
            if let Some(next) = next::next_within(self.workflow, looped, &self.done, known)? {
                return Ok(next);
            }
            self.done.insert(&looped.id);
            self.round = None;
        }
        let context = self.context();
        next::next(
            self.workflow,
            &self.done,
            KnownContext { context: &context, fixed: &self.fixed() },
        )
    }

    /// Enters a step in its loop round. A new round clears the completed steps of the loop body.
    pub(super) fn enter(&mut self, round: Option<&Round<'a>>) {
        if let Some(round) = round.filter(|round| round.is_new) {
            for task in self.workflow.body(round.looped) {
                self.done.remove(&*task.id);
            }
        }
        let before = self.round.take();
        self.round = round.map(|round| {
            let looped = round.looped;
            let same = before.filter(|round| round.looped.id == looped.id);
            let bound_variable = match same {
                Some(round) => round.bound_variable,
                None => {
                    let name = looped.rounds.bound_variable();
                    name.map(|name| (name, lookup(&self.known, name).clone()))
                }
            };
            CurrentRound { looped, variables: round.variables(), bound_variable }
        });
    }

    pub(super) fn complete(&mut self, task: &'a Task) {
        self.done.insert(&task.id);
    }

    /// Context from the agent with `more` added.
    pub(super) fn agent_context(&self, more: &WorkflowContext) -> WorkflowContext {
        let mut agent_context = self.known.clone();
        agent_context.extend(self.without_fixed(more.clone()));
        agent_context
    }

    /// Full context: the agent's and the loop variables.
    pub(super) fn context(&self) -> WorkflowContext {
        self.with(&WorkflowContext::new())
    }

    /// Full context with `more` added.
    pub(super) fn with(&self, more: &WorkflowContext) -> WorkflowContext {
        let mut context = self.agent_context(more);
        // A nested member may have the name of a loop variable; top-level names take precedence.
        for name in self.loops().flat_map(|looped| looped.rounds.names()) {
            if find(&context, name).is_some() {
                context.insert(name.to_owned(), Value::Null);
            }
        }
        let round =
            self.round.iter().flat_map(|round| round.variables.iter().chain(&round.bound_variable));
        context.extend(round.map(|(name, value)| ((*name).to_owned(), value.clone())));
        context
    }

    pub(super) fn add_context(&mut self, more: WorkflowContext) {
        self.known.extend(self.without_fixed(more));
    }

    /// Drops the variables an agent may not set.
    fn without_fixed(&self, mut agent_context: WorkflowContext) -> WorkflowContext {
        let fixed = self.fixed();
        agent_context.retain(|path, _| !fixed.iter().any(|name| covers(name, path)));
        agent_context
    }

    /// Variables an agent may not set: those of all loops, and within a loop the one that bounds
    /// its rounds.
    pub(super) fn fixed(&self) -> Vec<&'a str> {
        let names = self.loops().flat_map(|looped| looped.rounds.names());
        let bound_variable =
            self.round.iter().filter_map(|round| round.looped.rounds.bound_variable());
        names.chain(bound_variable).collect()
    }

    fn loops(&self) -> impl Iterator<Item = &'a LoopStep> + use<'a> {
        self.workflow.steps.iter().filter_map(|step| match step {
            Step::Loop(looped) => Some(looped),
            Step::Task(_) => None,
        })
    }
}
