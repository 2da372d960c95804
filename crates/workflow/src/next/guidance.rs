//! What an agent is told to do.

use std::borrow::Cow;

use super::{Known, Round};
use crate::condition::Context;
use crate::model::{Confirmation, Task, Workflow};
use crate::rule::Criteria;
use crate::template::{Filling, fill_title};

/// The working instructions of a step: the role, what to mind in all steps and in this one, what to
/// do, and which round it is.
///
/// `context` is that of the round.
pub fn guidance(
    workflow: &Workflow,
    task: &Task,
    round: Option<&Round<'_>>,
    context: &Context,
) -> String {
    let mut filling = Filling::from(context);
    // What is to be done comes last, and must not lack room for what comes before.
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

/// Whether a person has to agree to what a step led to.
pub fn needs_confirmation(task: &Task, context: &Context) -> bool {
    match &task.require_confirmation {
        None => false,
        Some(Confirmation::Flag(flag)) => *flag,
        Some(Confirmation::When(condition)) => condition.holds(context),
    }
}

/// What would have to be said before it is known whether a person has to agree, and which rules
/// count.
pub fn open_about(task: &Task, known: Known<'_>) -> Vec<String> {
    let mut conditions =
        task.validation_criteria.as_ref().map(Criteria::conditions).unwrap_or_default();
    if let Some(Confirmation::When(condition)) = &task.require_confirmation {
        conditions.push(condition);
    }
    let Known { context, given } = known;
    let open = conditions
        .into_iter()
        .filter(|condition| !condition.holds(context) && !condition.is_decided(context, given));
    let mut wanted: Vec<_> = open.map(|condition| condition.wanted(context)).collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

fn in_words(round: &Round<'_>, context: &Context) -> String {
    let Round { looped, iteration, total, item, .. } = round;
    let total = total.map_or_else(String::new, |total| format!(" of {total}"));
    let item = item.as_ref().map_or_else(String::new, |item| format!(", for {item}"));
    let title = fill_title(&looped.title, context);
    format!("This is round {iteration}{total} of the loop \"{title}\"{item}.")
}
