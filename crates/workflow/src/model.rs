//! Workflow model, as read from a file.
//!
//! Serialized as JSON it has the members of its file, and those with defaults.

use serde::{Serialize, Serializer};

use crate::condition::Condition;
use crate::rule::Criteria;

/// A workflow: ordered steps with validation rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// Identifier.
    pub id: Box<str>,
    /// Display name.
    pub name: Box<str>,
    /// Purpose.
    pub description: Box<str>,
    /// Semantic version of the workflow.
    pub version: Box<str>,
    /// Kind of task.
    pub category: Box<str>,
    /// Oldest server version that can run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_server_version: Option<Box<str>>,
    /// Role the agent takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<Box<str>>,
    /// Conditions that must be met before the first step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<Box<str>>,
    /// Questions to put to the user before the first step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<Box<str>>,
    /// Guidance for all steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<Box<str>>,
    /// Steps in order; never empty.
    pub steps: Vec<Step>,
}

impl Workflow {
    /// Finds a step by id, including those within loops.
    pub fn find(&self, id: &str) -> Option<StepRef<'_>> {
        self.steps.iter().find_map(|step| match step {
            Step::Task(task) if &*task.id == id => Some(StepRef::Task(task)),
            Step::Loop(looped) if &*looped.id == id => Some(StepRef::Loop(looped)),
            Step::Loop(LoopStep { body: LoopBody::Inline(tasks), .. }) => {
                tasks.iter().find(|task| &*task.id == id).map(StepRef::Task)
            }
            _ => None,
        })
    }

    /// Returns the ids of all steps, in order.
    pub fn step_ids(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| {
            let inner = match step {
                Step::Loop(LoopStep { body: LoopBody::Inline(tasks), .. }) => tasks.as_slice(),
                _ => &[],
            };
            std::iter::once(step.id()).chain(inner.iter().map(|task| &*task.id))
        })
    }

    /// Returns the tasks of one round of a loop.
    pub fn body<'a>(&'a self, looped: &'a LoopStep) -> Vec<&'a Task> {
        match &looped.body {
            LoopBody::Inline(tasks) => tasks.iter().collect(),
            LoopBody::Step(id) => match self.find(id) {
                Some(StepRef::Task(task)) => vec![task],
                _ => Vec::new(),
            },
        }
    }

    /// Returns whether a step runs only as the body of a loop.
    pub(crate) fn is_body(&self, id: &str) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Loop(LoopStep { body: LoopBody::Step(body), .. }) => &**body == id,
            _ => false,
        })
    }
}

/// Reference to a step found by id.
#[derive(Clone, Copy, Debug)]
pub enum StepRef<'a> {
    /// A task.
    Task(&'a Task),
    /// A loop.
    Loop(&'a LoopStep),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Step {
    /// A task that runs once.
    Task(Task),
    /// A loop.
    Loop(LoopStep),
}

impl Step {
    /// Returns the id.
    pub fn id(&self) -> &str {
        match self {
            Self::Task(task) => &task.id,
            Self::Loop(looped) => &looped.id,
        }
    }

    /// Returns the condition under which the step runs.
    pub fn run_condition(&self) -> Option<&Condition> {
        match self {
            Self::Task(task) => task.run_condition.as_ref(),
            Self::Loop(looped) => looped.run_condition.as_ref(),
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Identifier.
    pub id: Box<str>,
    /// Display title.
    pub title: Box<str>,
    /// Instructions.
    pub prompt: Box<str>,
    /// Additional guidance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<Box<str>>,
    /// True if the agent is to ask the user for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_for_files: Option<bool>,
    /// Confirmation of the output by a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// Condition under which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// Validation rules of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_criteria: Option<Criteria>,
}

/// Requirement of a confirmation by a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Confirmation {
    /// Always or never.
    Flag(bool),
    /// If this condition holds.
    When(Condition),
}

/// A loop over other steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopStep {
    /// Identifier.
    pub id: Box<str>,
    #[serde(rename = "type")]
    pub(crate) kind: LoopTag,
    /// Display title.
    pub title: Box<str>,
    /// Condition under which the loop is entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// Number of rounds.
    #[serde(rename = "loop")]
    pub rounds: Loop,
    /// Steps of each round.
    pub body: LoopBody,
}

/// Type tag that distinguishes a loop from a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopTag;

impl Serialize for LoopTag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("loop")
    }
}

/// Body of a loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LoopBody {
    /// A step of the workflow, by id. It does not run outside the loop.
    Step(Box<str>),
    /// Tasks defined in the loop.
    Inline(Vec<Task>),
}

/// Rounds of a loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loop {
    /// Kind of loop.
    #[serde(rename = "type")]
    pub kind: LoopKind,
    /// Limit on the rounds. Exceeding it is an error.
    pub max_iterations: u32,
    /// Condition of `while` and `until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// Count of `for`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<LoopCount>,
    /// List of `forEach`, by the name of a context variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<str>>,
    /// Context variable for the number of the round, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_var: Option<Box<str>>,
    /// Context variable for the current item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_var: Option<Box<str>>,
    /// Context variable for the index of the item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_var: Option<Box<str>>,
}

impl Loop {
    /// Returns the name of the round variable.
    pub fn iteration_name(&self) -> &str {
        self.iteration_var.as_deref().unwrap_or(ITERATION)
    }

    /// Returns the name of the item variable.
    pub fn item_name(&self) -> &str {
        self.item_var.as_deref().unwrap_or(ITEM)
    }

    /// Returns the name of the index variable.
    pub fn index_name(&self) -> &str {
        self.index_var.as_deref().unwrap_or(INDEX)
    }

    /// Returns the names of all loop variables.
    pub(crate) fn names(&self) -> [&str; 3] {
        [self.iteration_name(), self.item_name(), self.index_name()]
    }

    /// Returns whether the number of rounds is known in advance.
    pub(crate) fn has_total(&self) -> bool {
        matches!(self.kind, LoopKind::For | LoopKind::ForEach)
    }

    /// Returns the context variable that determines the number of rounds.
    pub(crate) fn bound_variable(&self) -> Option<&str> {
        match &self.count {
            Some(LoopCount::Variable(name)) => Some(name),
            _ => self.items.as_deref(),
        }
    }
}

/// Default name of the round variable.
pub(crate) const ITERATION: &str = "currentIteration";
/// Default name of the item variable.
pub(crate) const ITEM: &str = "currentItem";
/// Default name of the index variable.
pub(crate) const INDEX: &str = "currentIndex";

/// Kind of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LoopKind {
    /// Repeats while the condition holds.
    While,
    /// Repeats until the condition holds.
    Until,
    /// Repeats a number of times.
    For,
    /// Repeats for each item of a list.
    ForEach,
}

/// Number of rounds of a `for` loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LoopCount {
    /// A fixed number.
    Fixed(u32),
    /// The value of a context variable.
    Variable(Box<str>),
}
