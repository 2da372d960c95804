//! A workflow, as it is once its file has been read.
//!
//! Written back as JSON it has the members its file had, and those that are always there.

use serde::{Serialize, Serializer};

use crate::condition::Condition;
use crate::rule::Criteria;

/// A task in steps, and what each step must lead to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// What it is called by programs.
    pub id: Box<str>,
    /// What it is called by people.
    pub name: Box<str>,
    /// What it is for.
    pub description: Box<str>,
    /// Its own version, a semantic one.
    pub version: Box<str>,
    /// What kind of task it is.
    pub category: Box<str>,
    /// The oldest server that understands it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_server_version: Option<Box<str>>,
    /// Who the agent is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<Box<str>>,
    /// What must be so before it is begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<Box<str>>,
    /// What to ask the user before it is begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<Box<str>>,
    /// What holds for all steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<Box<str>>,
    /// What is to be done; never empty.
    pub steps: Vec<Step>,
}

impl Workflow {
    /// The step of this id, also one within a loop.
    pub fn find(&self, id: &str) -> Option<Found<'_>> {
        self.steps.iter().find_map(|step| match step {
            Step::Task(task) if &*task.id == id => Some(Found::Task(task)),
            Step::Loop(looped) if &*looped.id == id => Some(Found::Loop(looped)),
            Step::Loop(LoopStep { body: Body::Inline(tasks), .. }) => {
                tasks.iter().find(|task| &*task.id == id).map(Found::Task)
            }
            _ => None,
        })
    }

    /// The ids of all steps, in order.
    pub fn step_ids(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| {
            let inner = match step {
                Step::Loop(LoopStep { body: Body::Inline(tasks), .. }) => tasks.as_slice(),
                _ => &[],
            };
            std::iter::once(step.id()).chain(inner.iter().map(|task| &*task.id))
        })
    }

    /// What one round of a loop consists of.
    pub fn body<'a>(&'a self, looped: &'a LoopStep) -> Vec<&'a Task> {
        match &looped.body {
            Body::Inline(tasks) => tasks.iter().collect(),
            Body::Step(id) => match self.find(id) {
                Some(Found::Task(task)) => vec![task],
                _ => Vec::new(),
            },
        }
    }

    /// Whether a step is only done as part of a loop.
    pub(crate) fn is_body(&self, id: &str) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Loop(LoopStep { body: Body::Step(body), .. }) => &**body == id,
            _ => false,
        })
    }
}

/// A step that was looked up.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A task.
    Task(&'a Task),
    /// A loop.
    Loop(&'a LoopStep),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Step {
    /// Something to be done once.
    Task(Task),
    /// Something to be done again and again.
    Loop(LoopStep),
}

impl Step {
    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Self::Task(task) => &task.id,
            Self::Loop(looped) => &looped.id,
        }
    }

    /// When it is to be done.
    pub fn run_condition(&self) -> Option<&Condition> {
        match self {
            Self::Task(task) => task.run_condition.as_ref(),
            Self::Loop(looped) => looped.run_condition.as_ref(),
        }
    }
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// What it is called by programs.
    pub id: Box<str>,
    /// What it is called by people.
    pub title: Box<str>,
    /// What is to be done.
    pub prompt: Box<str>,
    /// What to mind while doing it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<Box<str>>,
    /// Whether the user is to be asked for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_for_files: Option<bool>,
    /// Whether a person has to agree to what it led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// When it is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// What it must lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_criteria: Option<Criteria>,
}

/// Whether a person has to agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Confirmation {
    /// Always, or never.
    Flag(bool),
    /// If this holds.
    When(Condition),
}

/// Steps that are done again and again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopStep {
    /// What it is called by programs.
    pub id: Box<str>,
    #[serde(rename = "type")]
    pub(crate) kind: LoopTag,
    /// What it is called by people.
    pub title: Box<str>,
    /// When it is to be done at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// How often it is done.
    #[serde(rename = "loop")]
    pub rounds: Loop,
    /// What is done each time.
    pub body: Body,
}

/// What tells a loop from a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopTag;

impl Serialize for LoopTag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("loop")
    }
}

/// What is done in each round of a loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Body {
    /// A step of the workflow, by its id. It is not done by itself.
    Step(Box<str>),
    /// These.
    Inline(Vec<Task>),
}

/// How often something is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loop {
    /// What decides.
    #[serde(rename = "type")]
    pub kind: LoopKind,
    /// More rounds than this are a fault.
    pub max_iterations: u32,
    /// What `while` and `until` go by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// What `for` goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
    /// What `forEach` goes by: a list in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<str>>,
    /// Under which name the context has the number of the round, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_var: Option<Box<str>>,
    /// Under which name the context has the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_var: Option<Box<str>>,
    /// Under which name the context has the number of the item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_var: Option<Box<str>>,
}

impl Loop {
    /// The name of the round's number.
    pub fn iteration_name(&self) -> &str {
        self.iteration_var.as_deref().unwrap_or(ITERATION)
    }

    /// The name of the item.
    pub fn item_name(&self) -> &str {
        self.item_var.as_deref().unwrap_or(ITEM)
    }

    /// The name of the item's number.
    pub fn index_name(&self) -> &str {
        self.index_var.as_deref().unwrap_or(INDEX)
    }

    /// The names of all that a round puts into the context.
    pub(crate) fn names(&self) -> [&str; 3] {
        [self.iteration_name(), self.item_name(), self.index_name()]
    }

    /// Whether it is known beforehand how many rounds there are.
    pub(crate) fn has_total(&self) -> bool {
        matches!(self.kind, LoopKind::For | LoopKind::ForEach)
    }

    /// The variable that says how many rounds there are.
    pub(crate) fn measure(&self) -> Option<&str> {
        match &self.count {
            Some(Count::Variable(name)) => Some(name),
            _ => self.items.as_deref(),
        }
    }
}

/// What the number of a round is called if nothing is said.
pub(crate) const ITERATION: &str = "currentIteration";
/// The same for the item.
pub(crate) const ITEM: &str = "currentItem";
/// The same for the number of the item.
pub(crate) const INDEX: &str = "currentIndex";

/// What decides how often a loop goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LoopKind {
    /// As long as the condition holds.
    While,
    /// As long as the condition does not hold.
    Until,
    /// So many times.
    For,
    /// Once for each item of a list.
    ForEach,
}

/// How many rounds a `for` has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Count {
    /// This many.
    Fixed(u32),
    /// As many as this variable of the context says.
    Variable(Box<str>),
}
