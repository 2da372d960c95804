//! Where a run is in its workflow.
//!
//! An agent says what is known of the task. How far it has come, the round of a loop included, is
//! not for it to say, so those variables are kept apart from its own.

use std::collections::HashSet;

use serde_json::Value;

use crate::condition::{Context, covers, find, lookup};
use crate::model::{LoopStep, Step, Task, Workflow};
use crate::next::{self, Known, LoopFault, Next, Round};

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
    /// How many rounds there are, as it was when the loop was entered.
    measure: Option<(&'a str, Value)>,
}

impl<'a> Place<'a> {
    pub(super) fn new(workflow: &'a Workflow, known: Context) -> Self {
        let mut place = Self { workflow, known: Context::new(), done: HashSet::new(), lap: None };
        place.learn(known);
        place
    }

    /// What comes next. A loop that is over stays so.
    pub(super) fn next(&mut self) -> Result<Next<'a>, LoopFault> {
        if let Some(looped) = self.lap.as_ref().map(|lap| lap.looped) {
            // A loop that was entered is not left for anything that was said meanwhile.
            let context = self.context();
            let known = Known { context: &context, given: &self.given() };
            if let Some(next) = next::next_within(self.workflow, looped, &self.done, known)? {
                return Ok(next);
            }
            self.done.insert(&looped.id);
            self.lap = None;
        }
        let context = self.context();
        next::next(self.workflow, &self.done, Known { context: &context, given: &self.given() })
    }

    /// Goes to a step, in the round it is in.
    pub(super) fn enter(&mut self, round: Option<&Round<'a>>) {
        if let Some(round) = round.filter(|round| round.is_new) {
            for task in self.workflow.body(round.looped) {
                self.done.remove(&*task.id);
            }
        }
        let before = self.lap.take();
        self.lap = round.map(|round| {
            let looped = round.looped;
            let same = before.filter(|lap| lap.looped.id == looped.id);
            let measure = match same {
                Some(lap) => lap.measure,
                None => {
                    let name = looped.rounds.measure();
                    name.map(|name| (name, lookup(&self.known, name).clone()))
                }
            };
            Lap { looped, variables: round.variables(), measure }
        });
    }

    pub(super) fn finish(&mut self, task: &'a Task) {
        self.done.insert(&task.id);
    }

    /// What the agent would have said with this.
    pub(super) fn said(&self, more: &Context) -> Context {
        let mut said = self.known.clone();
        said.extend(self.own(more.clone()));
        said
    }

    /// All that is known.
    pub(super) fn context(&self) -> Context {
        self.with(&Context::new())
    }

    /// All that would be known with this.
    pub(super) fn with(&self, more: &Context) -> Context {
        let mut context = self.said(more);
        // A member of what was said may have the name of a round; names come before members.
        for name in self.loops().flat_map(|looped| looped.rounds.names()) {
            if find(&context, name).is_some() {
                context.insert(name.to_owned(), Value::Null);
            }
        }
        let lap = self.lap.iter().flat_map(|lap| lap.variables.iter().chain(&lap.measure));
        context.extend(lap.map(|(name, value)| ((*name).to_owned(), value.clone())));
        context
    }

    pub(super) fn learn(&mut self, more: Context) {
        self.known.extend(self.own(more));
    }

    /// What is the agent's to say.
    fn own(&self, mut said: Context) -> Context {
        let given = self.given();
        said.retain(|path, _| !given.iter().any(|name| covers(name, path)));
        said
    }

    /// What is not: all about the rounds of loops, and within a loop how many of them there are.
    pub(super) fn given(&self) -> Vec<&'a str> {
        let names = self.loops().flat_map(|looped| looped.rounds.names());
        let measure = self.lap.iter().filter_map(|lap| lap.looped.rounds.measure());
        names.chain(measure).collect()
    }

    fn loops(&self) -> impl Iterator<Item = &'a LoopStep> + use<'a> {
        self.workflow.steps.iter().filter_map(|step| match step {
            Step::Loop(looped) => Some(looped),
            Step::Task(_) => None,
        })
    }
}
