//! Flow of a workflow run: executes the steps of a workflow in order.

use mcp_flow_engine::{Flow, FlowError, FlowResult};
use mcp_flow_session::question::{confirm, custom_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::position::RunPosition;
use super::record::{
    Briefing, CompletedStep, RECORD_KEY, Rejection, RunRecord, ShownStep, StoredStep, done_key,
};
use crate::condition::{Condition, WorkflowContext};
use crate::library::Library;
use crate::lookup;
use crate::model::{Task, Workflow};
use crate::next::{KnownContext, Next, Round, guidance, needs_confirmation, open_about};
use crate::read::Reading;
use crate::rule::Validation;
use crate::source::Format;
use crate::template::fill_title;

/// Start parameters of a run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start {
    workflow_id: String,
    #[serde(default)]
    context: WorkflowContext,
}

/// Answer of an agent to a step's prompt.
#[derive(Debug, Default, Deserialize)]
struct StepAnswer {
    #[serde(default)]
    output: String,
    #[serde(default)]
    context: WorkflowContext,
    /// Key of the prompt it answers.
    #[serde(skip)]
    key: String,
}

/// Runs a workflow, step by step.
///
/// The workflow is read from the library once and stored in the journal: later changes of its file
/// do not affect the run.
pub(super) async fn execute(library: Library, flow: Flow, start: Start) -> FlowResult<RunRecord> {
    let id = start.workflow_id;
    let text: String = flow
        .lookup("workflow", || async {
            let found = lookup::find(&library, &id).map_err(|error| error.text().to_owned())?;
            serde_json::to_string(&*found).map_err(|error| error.to_string())
        })
        .await?;
    let workflow = Reading::of(&text, Format::Json, "general").workflow;
    let workflow = workflow.ok_or_else(|| FlowError::new("the workflow can no longer be read"))?;
    let record = RunRecord {
        workflow_id: workflow.id.to_string(),
        name: workflow.name.to_string(),
        version: workflow.version.to_string(),
        hash: mcp_flow_seal::sha256_hex(text.as_bytes()),
        briefing: Briefing::of(&workflow),
        steps: Vec::new(),
    };
    flow.set(RECORD_KEY, &record)?;
    let position = RunPosition::new(&workflow, start.context);
    let mut executor = Executor { workflow: &workflow, flow, record, position, asked: 0 };
    executor.run_steps().await?;
    let steps = executor.record.steps.len();
    executor.flow.summary(format!("{} is done, in {steps} steps", workflow.name));
    Ok(executor.record)
}

struct Executor<'a> {
    workflow: &'a Workflow,
    flow: Flow,
    record: RunRecord,
    position: RunPosition<'a>,
    /// Number of prompts so far, part of their keys.
    asked: u32,
}

impl<'a> Executor<'a> {
    async fn run_steps(&mut self) -> FlowResult<()> {
        let mut refused = None;
        loop {
            let found = self.position.next();
            // Context needed to decide which step is next.
            let wanted = match &found {
                Err(fault) if fault.is_recoverable => vec![fault.to_string()],
                Err(fault) => return Err(FlowError::new(fault.to_string())),
                Ok(next) => next.undecided(),
            };
            if !wanted.is_empty() {
                refused = self.ask_for_context(&wanted, refused).await?;
                continue;
            }
            refused = None;
            match found {
                Ok(Next::Task { task, round, .. }) => self.step(task, round).await?,
                // A step whose condition is decided and does not hold does not apply.
                _ => return Ok(()),
            }
        }
    }

    /// Asks for the output of one step until it is valid and, where required, confirmed.
    async fn step(&mut self, task: &'a Task, round: Option<Round<'a>>) -> FlowResult<()> {
        self.position.enter(round.as_ref());
        let before = self.position.context();
        let mut refused = None;
        // An agent cannot skip the confirmation by changing the context with this output or a later
        // one.
        let mut needs_person = needs_confirmation(task, &before);
        loop {
            let shown = ShownStep {
                step_id: task.id.to_string(),
                title: fill_title(&task.title, &before),
                prompt: guidance(self.workflow, task, round.as_ref(), &before),
                round: round.as_ref().map(|round| round.iteration),
                is_about_context: false,
                refused: refused.take(),
            };
            let given = self.ask(&shown).await?;
            let after = self.position.with(&given.context);
            needs_person |= needs_confirmation(task, &after);
            refused = self.check(task, &given, [&before, &after]);
            if refused.is_some() {
                continue;
            }
            if needs_person && !self.confirm(&shown, &given.output).await? {
                refused = Some(Rejection::new(
                    "The user did not agree to the outcome of this step.",
                    "Ask the user what to change, and do the step again.",
                ));
                continue;
            }
            self.position.add_context(given.context.clone());
            self.position.complete(task);
            return self.record_step(shown, given, needs_person);
        }
    }

    /// Checks an answer against the step's rules, in the context before and after it.
    fn check(
        &self,
        task: &Task,
        given: &StepAnswer,
        [before, after]: [&WorkflowContext; 2],
    ) -> Option<Rejection> {
        if given.output.trim().is_empty() {
            return Some(Rejection::new(
                "The step has no output yet.",
                "Do the step, and pass its result as `output`.",
            ));
        }
        if let Some(refused) = self.too_large(&given.context) {
            return Some(refused);
        }
        let fixed = self.position.fixed();
        let open = open_about(task, KnownContext { context: after, fixed: &fixed });
        if !open.is_empty() {
            return Some(Rejection::new(
                format!("The outcome of this step is still undecided: {}", open.join("; ")),
                "Set it with `context`, even if it does not apply.",
            ));
        }
        // An agent cannot disable a rule by context it gives together with the output.
        let applied =
            |condition: &Condition| condition.holds(before) && condition.is_decided(before, &fixed);
        let validation =
            Validation::by(task.validation_criteria.as_ref(), &given.output, &|condition| {
                condition.holds(after) || applied(condition)
            });
        let Validation { valid, issues, suggestions } = validation;
        (!valid).then_some(Rejection { issues, suggestions })
    }

    fn too_large(&self, more: &WorkflowContext) -> Option<Rejection> {
        let message = lookup::too_large(&self.position.agent_context(more))?;
        Some(Rejection::new(message, "Set variables that are no longer needed to null."))
    }

    /// Records a completed step.
    fn record_step(
        &mut self,
        shown: ShownStep,
        given: StepAnswer,
        confirmed: bool,
    ) -> FlowResult<()> {
        let ShownStep { step_id, title, round, .. } = shown;
        let StepAnswer { output, context, key: answer } = given;
        let key = done_key(self.record.steps.len() + 1);
        let stored =
            StoredStep { step_id: &step_id, title: &title, round, confirmed, answer: &answer };
        self.flow.set(&key, &stored)?;
        self.record.steps.push(CompletedStep { step_id, title, round, output, confirmed, context });
        Ok(())
    }

    /// Asks for the context that decides which steps apply. Returns the issue with the answer, to
    /// show if the next step is still undecided.
    async fn ask_for_context(
        &mut self,
        wanted: &[String],
        refused: Option<Rejection>,
    ) -> FlowResult<Option<Rejection>> {
        let lines: Vec<_> = wanted.iter().map(|one| format!("- {one}")).collect();
        let shown = ShownStep {
            step_id: "context".to_owned(),
            title: "Provide the context that decides the next steps".to_owned(),
            prompt: format!("{CONTEXT_WANTED}\n{}", lines.join("\n")),
            round: None,
            is_about_context: true,
            refused,
        };
        let given = self.ask(&shown).await?;
        if let Some(refused) = self.too_large(&given.context) {
            return Ok(Some(refused));
        }
        self.position.add_context(given.context);
        Ok(Some(Rejection::new(
            "The context does not decide the next step yet.",
            "Set every requested variable with `context`, including those that do not apply.",
        )))
    }

    async fn ask(&mut self, shown: &ShownStep) -> FlowResult<StepAnswer> {
        self.asked += 1;
        let key = format!("{}.{}", self.asked, shown.step_id);
        // Missing members are reported with the step, which can be repeated without limit.
        let schema = json!({
            "type": "object",
            "properties": {"output": {"type": "string"}, "context": {"type": "object"}},
            "additionalProperties": false
        });
        let question = custom_schema(&shown.title, schema).ui(serde_json::to_value(shown)?);
        let given: StepAnswer = serde_json::from_value(self.flow.ask(&key, question).await?)?;
        Ok(StepAnswer { key, ..given })
    }

    /// Asks a person to confirm an output.
    async fn confirm(&mut self, shown: &ShownStep, output: &str) -> FlowResult<bool> {
        self.asked += 1;
        let end = output.floor_char_boundary(MAX_SHOWN_LENGTH);
        let more = if end < output.len() { " [...]" } else { "" };
        let message = format!(
            "The step \"{}\" is done. Do you accept the result?\n\n{}{more}",
            shown.title,
            &output[..end]
        );
        self.flow.ask(&format!("{}.{}.confirm", self.asked, shown.step_id), confirm(message)).await
    }
}

/// Start parameters of a run, as parameters of its flow.
pub(super) fn parameters(workflow: &str, context: WorkflowContext) -> Map<String, Value> {
    let mut parameters = Map::new();
    parameters.insert("workflowId".to_owned(), workflow.into());
    parameters.insert("context".to_owned(), Value::Object(context));
    parameters
}

const CONTEXT_WANTED: &str = "Which steps apply depends on what the context does not say yet. Say \
                              it with `context`:";

/// Limit on the bytes of an output shown with a confirmation.
const MAX_SHOWN_LENGTH: usize = 8 * 1024;
