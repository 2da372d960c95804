//! Tools of seed 004: `workflow_list`, `workflow_get`, `workflow_next`, `workflow_validate`.
//!
//! They keep no state; the agent reports the steps it has completed.

mod arguments;
mod encoded;
mod registration;

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use mcp_flow_proto::RpcError;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::condition::WorkflowContext;
use crate::library::{Library, LibraryEntry};
use crate::model::{LoopStep, StepRef, Task, Workflow};
use crate::next::{self, Blocked, Next, Round};
use crate::problem::nearest;
use crate::protocol_errors;
use crate::rule::Validation;
use crate::template::Filling;
use arguments::{Get, NextStep, Validate};
use encoded::EncodedResult;

pub(crate) use arguments::{check_context, too_large};
pub(crate) use registration::CallOutcome;
pub use registration::{DefinitionForm, LookupTools, PRINTED_TOOLS, ToolErrors};

/// Server version that workflows may require (WFL-013, WFL-063).
pub const SERVER_VERSION: &str = "1.0.0";

/// Handles `workflow_list` (WFL-021).
fn list(library: &Library) -> EncodedResult {
    #[derive(Serialize)]
    struct Listed<'a> {
        id: &'a str,
        name: &'a str,
        description: &'a str,
        category: &'a str,
        version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        incompatible: Option<String>,
    }
    let mut entries = Vec::new();
    library.for_each(|entry| {
        let Workflow { id, name, description, category, version, .. } = &*entry.workflow;
        let incompatible = incompatible(&entry.workflow);
        let listed = Listed { id, name, description, category, version, incompatible };
        // Strings can always be encoded.
        entries.push(serde_json::value::to_raw_value(&listed).unwrap_or_default());
    });
    EncodedResult::of(&json!({"workflows": entries}))
}

/// Handles `workflow_get` (WFL-025).
fn get(library: &Library, Get { id }: &Get) -> Result<EncodedResult, RpcError> {
    Ok(EncodedResult::of(&*find(library, id)?))
}

/// Handles `workflow_next` (WFL-031).
fn next(library: &Library, call: &NextStep) -> Result<EncodedResult, RpcError> {
    arguments::check_context(&call.context)?;
    let workflow = find(library, &call.workflow_id)?;
    let named = call.current_step.iter().chain(&call.completed_steps);
    let known: HashSet<&str> = workflow.step_ids().collect();
    for id in named {
        if !known.contains(id.as_str()) {
            return Err(protocol_errors::step_not_found(id, nearest(id, workflow.step_ids())));
        }
    }
    let done: HashSet<&str> = call.completed_steps.iter().map(String::as_str).collect();
    let found = next::next(&workflow, &done, &call.context);
    let found = found.map_err(|error| protocol_errors::loop_failed(&error))?;
    Ok(match found {
        Next::Complete => EncodedResult::of(&Step::nothing(COMPLETE, true)),
        Next::Blocked(blocked) => {
            let mut lines = vec![BLOCKED.to_owned()];
            lines.extend(blocked.iter().map(|one| format!("- For `{}`: {}", one.step, one.wanted)));
            let mut ids: Vec<_> = blocked.iter().map(Blocked::whole).collect();
            ids.dedup();
            lines.push(format!(
                "If a step does not apply to this task, add its id to completedSteps instead: {}.",
                ids.join(", ")
            ));
            EncodedResult::of(&Step::nothing(&lines.join("\n"), false))
        }
        Next::Task { task, round, ended, .. } => {
            let context = next::in_round(&call.context, round.as_ref());
            let prompt = next::guidance(&workflow, task, round.as_ref(), &context);
            let guidance = Guidance {
                prompt: &prompt,
                context: round.as_ref().map(variables),
                note: note(&workflow, round.as_ref(), &ended),
                warning: arguments::warn_of_context(&call.context),
            };
            let filled = filled(task, &context);
            EncodedResult::of(&Step {
                step: filled.as_ref().unwrap_or(task),
                guidance,
                is_complete: false,
            })
        }
    })
}

/// Handles `workflow_validate` (WFL-040).
fn validate(library: &Library, call: &Validate) -> Result<EncodedResult, RpcError> {
    let workflow = find(library, &call.workflow_id)?;
    let criteria = match workflow.find(&call.step_id) {
        Some(StepRef::Task(task)) => task.validation_criteria.as_ref(),
        Some(StepRef::Loop(_)) => None,
        None => {
            let near = nearest(&call.step_id, workflow.step_ids());
            return Err(protocol_errors::step_not_found(&call.step_id, near));
        }
    };
    Ok(EncodedResult::of(&Validation::of(criteria, &call.output, &WorkflowContext::new())))
}

/// Finds a workflow this server can run.
pub(crate) fn find(library: &Library, id: &str) -> Result<Arc<Workflow>, RpcError> {
    let Some(workflow) = library.find(id) else {
        return Err(match library.find_broken(id) {
            Some(broken) => protocol_errors::invalid_workflow(id, &broken),
            None => protocol_errors::workflow_not_found(id, library.nearest(id).as_deref()),
        });
    };
    match needs_newer(&workflow) {
        Some(needed) => Err(protocol_errors::too_new(id, needed, SERVER_VERSION)),
        None => Ok(workflow),
    }
}

/// Returns the server version a workflow requires, if this one is older.
fn needs_newer(workflow: &Workflow) -> Option<&str> {
    let needed = workflow.minimum_server_version.as_deref()?;
    let version = |text| semver::Version::parse(text).ok();
    (version(needed)? > version(SERVER_VERSION)?).then_some(needed)
}

/// Returns why a workflow cannot run on this server.
pub fn incompatible(workflow: &Workflow) -> Option<String> {
    needs_newer(workflow)
        .map(|needed| format!("requires server {needed}; this is {SERVER_VERSION}"))
}

/// Resource URI of a workflow.
pub(crate) fn resource_uri(id: &str) -> String {
    format!("workflow:/workflows/{id}")
}

/// Content of that resource.
pub(crate) fn resource_text(entry: &LibraryEntry) -> String {
    serde_json::to_string_pretty(&*entry.workflow).unwrap_or_default()
}

/// Result of `workflow_next`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Step<'a, T> {
    step: &'a T,
    guidance: Guidance<'a>,
    is_complete: bool,
}

impl<'a> Step<'a, Map<String, Value>> {
    /// C-28: a result always has a step, if only an empty one.
    fn nothing(prompt: &'a str, is_complete: bool) -> Self {
        static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        let guidance = Guidance { prompt, context: None, note: None, warning: None };
        Self { step: &NOTHING, guidance, is_complete }
    }
}

#[derive(Serialize)]
struct Guidance<'a> {
    prompt: &'a str,
    /// Variables to add to the context of the next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Loop variables of a round, for the context.
fn variables(round: &Round<'_>) -> Map<String, Value> {
    round.variables().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Note on how to continue after a round and after loops.
fn note(workflow: &Workflow, round: Option<&Round<'_>>, ended: &[&LoopStep]) -> Option<String> {
    let mut notes = Vec::new();
    if !ended.is_empty() {
        let ids: Vec<_> = ended.iter().map(|looped| format!("`{}`", looped.id)).collect();
        notes.push(format!("A loop is over: add {} to completedSteps.", ids.join(", ")));
    }
    if let Some(round) = round.filter(|round| round.is_new) {
        let body: Vec<_> = workflow.body(round.looped).iter().map(|task| &*task.id).collect();
        notes.push(format!(
            "A new round begins: merge guidance.context into the context of your next call, and \
             take {} out of completedSteps until done again. To leave the loop, add `{}` there.",
            body.join(", "),
            round.looped.id
        ));
    } else if round.is_some() && !ended.is_empty() {
        notes.push(
            "Another begins: merge guidance.context into the context of your next call.".to_owned(),
        );
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// Fills in the templates of a task; `None` if it has none.
fn filled(task: &Task, context: &WorkflowContext) -> Option<Task> {
    let texts = [&task.title, &task.prompt].into_iter().chain(&task.guidance);
    let mut filling = Filling::from(context);
    texts.into_iter().any(|text| text.contains("{{")).then(|| Task {
        title: filling.fill(&task.title).into(),
        prompt: filling.fill(&task.prompt).into(),
        guidance: task.guidance.iter().map(|line| filling.fill(line).into()).collect(),
        ..task.clone()
    })
}

const COMPLETE: &str = "All steps of this workflow that apply are done. Tell the user the outcome.";

const BLOCKED: &str = "No step can be done now, and the workflow is not complete: whether the steps \
                       that are left apply is still open. Put this into the context, or another \
                       value if they do not apply, and call workflow_next again:";
