//! Instructions for an agent.

use std::borrow::Cow;

use super::{KnownContext, Round};
use crate::condition::WorkflowContext;
use crate::model::{Confirmation, Task, Workflow};
use crate::rule::Criteria;
use crate::template::{Filling, fill_title};

/// Builds the instructions of a step: role, general and step guidance, prompt, and loop round.
///
/// `context` includes the loop variables.
pub fn guidance(
    workflow: &Workflow,
    task: &Task,
    round: Option<&Round<'_>>,
    context: &WorkflowContext,
) -> String {
    let mut filling = Filling::from(context);
    // The prompt comes last and must not run out of the shared limit.
    let prompt = filling.fill(&task.prompt);
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    parts.extend(workflow.agent_role.as_deref().map(|role| filling.fill(role)));
    let lines = workflow.meta_guidance.iter().chain(&task.guidance);
    let lines: Vec<_> = lines.map(|line| format!("- {}", filling.fill(line))).collect();
    if !lines.is_empty() {
        parts.push(lines.join("\n").into());
    }
    parts.push(prompt);
    parts.extend(round.map(|round| in_words(round, context).into()));
    if task.ask_for_files == Some(true) {
        parts.push("Ask the user for the files this step needs.".into());
    }
    if needs_confirmation(task, context) {
        parts.push("The user has to confirm the outcome of this step before you go on.".into());
    }
    parts.join("\n\n")
}

/// Returns whether a person must confirm the output of a step.
pub fn needs_confirmation(task: &Task, context: &WorkflowContext) -> bool {
    match &task.require_confirmation {
        None => false,
        Some(Confirmation::Flag(flag)) => *flag,
        Some(Confirmation::When(condition)) => condition.holds(context),
    }
}

/// Describes the context needed to decide whether a confirmation is required and which rules apply.
pub fn open_about(task: &Task, known: KnownContext<'_>) -> Vec<String> {
    let mut conditions =
        task.validation_criteria.as_ref().map(Criteria::conditions).unwrap_or_default();
    if let Some(Confirmation::When(condition)) = &task.require_confirmation {
        conditions.push(condition);
    }
    let KnownContext { context, fixed } = known;
    let open = conditions
        .into_iter()
        .filter(|condition| !condition.holds(context) && !condition.is_decided(context, fixed));
    let mut wanted: Vec<_> = open.map(|condition| condition.requirement(context)).collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

fn in_words(round: &Round<'_>, context: &WorkflowContext) -> String {
    let Round { looped, iteration, total, item, .. } = round;
    let total = total.map_or_else(String::new, |total| format!(" of {total}"));
    let item = item.as_ref().map_or_else(String::new, |item| format!(", for {item}"));
    let title = fill_title(&looped.title, context);
    format!("This is round {iteration}{total} of the loop \"{title}\"{item}.")
}
