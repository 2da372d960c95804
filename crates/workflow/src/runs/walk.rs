//! The flow of a run.

use std::collections::HashSet;

use mcp_flow_engine::{Flow, FlowError, FlowResult};
use mcp_flow_flow::question::{confirm, custom_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::record::{Done, NOTED, Record, Refused, Shown};
use crate::condition::Context;
use crate::library::Library;
use crate::lookup;
use crate::model::{Task, Workflow};
use crate::next::{self, Blocked, Next, Round, guidance, in_round, needs_confirmation};
use crate::read::Reading;
use crate::rule::Verdict;
use crate::source::Format;

/// What a run is started with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start {
    workflow_id: String,
    #[serde(default)]
    context: Context,
}

/// What an agent gives for a step.
#[derive(Debug, Default, Deserialize)]
struct Given {
    #[serde(default)]
    output: String,
    #[serde(default)]
    context: Context,
}

/// Goes through a workflow, step by step.
///
/// The workflow is taken from the library once and kept in the journal: what becomes of its file
/// later is nothing to this run.
pub(super) async fn walk(library: Library, flow: Flow, start: Start) -> FlowResult<Record> {
    let id = start.workflow_id;
    let text: String = flow
        .lookup("workflow", || async {
            let found = lookup::find(&library, &id).map_err(|error| error.text().to_owned())?;
            serde_json::to_string(&*found).map_err(|error| error.to_string())
        })
        .await?;
    let workflow = Reading::of(&text, Format::Json, "general").workflow;
    let workflow =
        workflow.ok_or_else(|| FlowError::new("the workflow cannot be read any more"))?;
    let record = Record {
        workflow_id: workflow.id.to_string(),
        name: workflow.name.to_string(),
        version: workflow.version.to_string(),
        hash: hash(&text),
        steps: Vec::new(),
    };
    let mut walk = Walk { flow, record, context: start.context, done: HashSet::new(), asked: 0 };
    walk.through(&workflow).await?;
    let steps = walk.record.steps.len();
    walk.flow.summary(format!("{} is done, in {steps} steps", workflow.name));
    Ok(walk.record)
}

struct Walk {
    flow: Flow,
    record: Record,
    context: Context,
    done: HashSet<Box<str>>,
    /// How many questions were asked, by which they are told apart.
    asked: u32,
}

impl Walk {
    async fn through(&mut self, workflow: &Workflow) -> FlowResult<()> {
        let mut asked_for: HashSet<String> = HashSet::new();
        self.flow.set(NOTED, &self.record)?;
        loop {
            let done: HashSet<&str> = self.done.iter().map(|id| &**id).collect();
            let found = next::next(workflow, &done, &self.context);
            match found.map_err(|fault| FlowError::new(fault.to_string()))? {
                Next::Complete => return Ok(()),
                Next::Task { task, round } => self.step(workflow, task, round).await?,
                Next::Blocked(blocked) => {
                    // A step whose condition is known not to hold does not apply. One that asks
                    // about something nobody has said is asked for, once.
                    let open: Vec<_> = blocked
                        .into_iter()
                        .filter(|one| !one.is_decided && asked_for.insert(one.step.to_owned()))
                        .collect();
                    if open.is_empty() {
                        return Ok(());
                    }
                    self.ask_for_context(&open).await?;
                }
            }
        }
    }

    /// Has one step done, as often as it takes until it is done well.
    async fn step(
        &mut self,
        workflow: &Workflow,
        task: &Task,
        round: Option<Round<'_>>,
    ) -> FlowResult<()> {
        if let Some(round) = &round {
            if round.is_new {
                for task in workflow.body(round.looped) {
                    self.done.remove(&task.id);
                }
            }
            self.context = in_round(&self.context, Some(round));
        }
        let mut refused = None;
        loop {
            let shown = Shown {
                step_id: task.id.to_string(),
                title: task.title.to_string(),
                prompt: guidance(workflow, task, round.as_ref(), &self.context),
                round: round.as_ref().map(|round| round.iteration),
                refused: refused.take(),
            };
            let given = self.ask(&task.id, &task.title, &shown, true).await?;
            let mut context = self.context.clone();
            context.extend(given.context);
            let verdict = Verdict::of(task.validation_criteria.as_ref(), &given.output, &context);
            if !verdict.valid {
                let Verdict { issues, suggestions, .. } = verdict;
                refused = Some(Refused { issues, suggestions });
                continue;
            }
            let confirmed = needs_confirmation(task, &context);
            if confirmed && !self.confirm(task, &given.output).await? {
                refused = Some(Refused {
                    issues: vec!["The user did not agree to the outcome of this step.".to_owned()],
                    suggestions: vec![
                        "Ask the user what to change, and do the step again.".to_owned(),
                    ],
                });
                continue;
            }
            self.context = context;
            self.done.insert(task.id.clone());
            self.record.steps.push(Done {
                step_id: task.id.to_string(),
                title: task.title.to_string(),
                round: shown.round,
                output: given.output,
                confirmed,
            });
            return Ok(());
        }
    }

    async fn ask_for_context(&mut self, blocked: &[Blocked<'_>]) -> FlowResult<()> {
        let wanted: Vec<_> =
            blocked.iter().map(|one| format!("- For `{}`: {}", one.step, one.wanted)).collect();
        let prompt = format!("{CONTEXT_WANTED}\n{}", wanted.join("\n"));
        let title = "Decide which steps apply".to_owned();
        let step_id = "context".to_owned();
        let shown = Shown { step_id, title, prompt, round: None, refused: None };
        let given = self.ask("context", &shown.title, &shown, false).await?;
        self.context.extend(given.context);
        Ok(())
    }

    async fn ask(
        &mut self,
        id: &str,
        message: &str,
        shown: &Shown,
        needs_output: bool,
    ) -> FlowResult<Given> {
        self.asked += 1;
        let least = u32::from(needs_output);
        let required: &[&str] = if needs_output { &["output"] } else { &[] };
        let schema = json!({
            "type": "object",
            "properties": {
                "output": {"type": "string", "minLength": least},
                "context": {"type": "object"}
            },
            "required": required,
            "additionalProperties": false
        });
        let question = custom_schema(message, schema).ui(serde_json::to_value(shown)?);
        let given = self.flow.ask(&format!("{}.{id}", self.asked), question).await?;
        Ok(serde_json::from_value(given)?)
    }

    /// Asks a person.
    async fn confirm(&mut self, task: &Task, output: &str) -> FlowResult<bool> {
        self.asked += 1;
        let end = output.floor_char_boundary(LONGEST_SHOWN);
        let more = if end < output.len() { " [...]" } else { "" };
        let message = format!(
            "The step \"{}\" is done. Do you agree to what came of it?\n\n{}{more}",
            task.title,
            &output[..end]
        );
        self.flow.ask(&format!("{}.{}.confirm", self.asked, task.id), confirm(message)).await
    }
}

/// The digest of a workflow's content.
fn hash(text: &str) -> String {
    let digest = mcp_flow_seal::digest(&[text.as_bytes()]);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a run is started with, as parameters of its flow.
pub(super) fn parameters(workflow: &str, context: Context) -> Map<String, Value> {
    let mut parameters = Map::new();
    parameters.insert("workflowId".to_owned(), workflow.into());
    parameters.insert("context".to_owned(), Value::Object(context));
    parameters
}

const CONTEXT_WANTED: &str = "Some steps apply only to some tasks, and the context does not say yet \
                              whether to this one. Say so with `context`; what is left out does not \
                              apply.";

/// How much of an output a person is shown with the question.
const LONGEST_SHOWN: usize = 8 * 1024;
