//! The flow of a run.

use mcp_flow_engine::{Flow, FlowError, FlowResult};
use mcp_flow_session::question::{confirm, custom_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::place::Place;
use super::record::{Briefing, Done, NOTED, Noted, Record, Refused, Shown, done_key};
use crate::condition::{Condition, Context};
use crate::library::Library;
use crate::lookup;
use crate::model::{Task, Workflow};
use crate::next::{Known, Next, Round, guidance, needs_confirmation, open_about};
use crate::read::Reading;
use crate::rule::Verdict;
use crate::source::Format;
use crate::template::fill_title;

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
    /// The key of the question it answers.
    #[serde(skip)]
    key: String,
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
        briefing: Briefing::of(&workflow),
        steps: Vec::new(),
    };
    flow.set(NOTED, &record)?;
    let place = Place::new(&workflow, start.context);
    let mut walk = Walk { workflow: &workflow, flow, record, place, asked: 0 };
    walk.through().await?;
    let steps = walk.record.steps.len();
    walk.flow.summary(format!("{} is done, in {steps} steps", workflow.name));
    Ok(walk.record)
}

struct Walk<'a> {
    workflow: &'a Workflow,
    flow: Flow,
    record: Record,
    place: Place<'a>,
    /// How many questions were asked, by which they are told apart.
    asked: u32,
}

impl<'a> Walk<'a> {
    async fn through(&mut self) -> FlowResult<()> {
        let mut refused = None;
        loop {
            let found = self.place.next();
            // What has to be said before it is known which step is next.
            let wanted = match &found {
                Err(fault) if fault.is_mendable => vec![fault.to_string()],
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
                // A step whose condition is known not to hold does not apply.
                _ => return Ok(()),
            }
        }
    }

    /// Has one step done, as often as it takes until it is done well.
    async fn step(&mut self, task: &'a Task, round: Option<Round<'a>>) -> FlowResult<()> {
        self.place.enter(round.as_ref());
        let before = self.place.context();
        let mut refused = None;
        // An agent cannot do without the person by saying now, or the next time, that none is needed.
        let mut needs_person = needs_confirmation(task, &before);
        loop {
            let shown = Shown {
                step_id: task.id.to_string(),
                title: fill_title(&task.title, &before),
                prompt: guidance(self.workflow, task, round.as_ref(), &before),
                round: round.as_ref().map(|round| round.iteration),
                is_about_context: false,
                refused: refused.take(),
            };
            let given = self.ask(&shown).await?;
            let after = self.place.with(&given.context);
            needs_person |= needs_confirmation(task, &after);
            refused = self.judge(task, &given, [&before, &after]);
            if refused.is_some() {
                continue;
            }
            if needs_person && !self.confirm(&shown, &given.output).await? {
                refused = Some(Refused::new(
                    "The user did not agree to the outcome of this step.",
                    "Ask the user what to change, and do the step again.",
                ));
                continue;
            }
            self.place.learn(given.context.clone());
            self.place.finish(task);
            return self.note(shown, given, needs_person);
        }
    }

    /// What is wrong with what was given for a step, by what was known before it and is known now.
    fn judge(&self, task: &Task, given: &Given, [before, after]: [&Context; 2]) -> Option<Refused> {
        if given.output.trim().is_empty() {
            return Some(Refused::new(
                "The step has no output yet.",
                "Do the step, and give what came of it as `output`.",
            ));
        }
        if let Some(refused) = self.too_large(&given.context) {
            return Some(refused);
        }
        let fixed = self.place.given();
        let open = open_about(task, Known { context: after, given: &fixed });
        if !open.is_empty() {
            return Some(Refused::new(
                format!("What this step must lead to is still open: {}", open.join("; ")),
                "Say it with `context`, also if it does not apply.",
            ));
        }
        // A rule does not cease to count because the agent says so together with the output.
        let counted =
            |condition: &Condition| condition.holds(before) && condition.is_decided(before, &fixed);
        let verdict = Verdict::by(task.validation_criteria.as_ref(), &given.output, &|condition| {
            condition.holds(after) || counted(condition)
        });
        let Verdict { valid, issues, suggestions } = verdict;
        (!valid).then_some(Refused { issues, suggestions })
    }

    fn too_large(&self, more: &Context) -> Option<Refused> {
        let told = lookup::too_large(&self.place.said(more))?;
        Some(Refused::new(told, "Set what is not needed any more to null."))
    }

    /// Keeps what was done.
    fn note(&mut self, shown: Shown, given: Given, confirmed: bool) -> FlowResult<()> {
        let Shown { step_id, title, round, .. } = shown;
        let Given { output, context, key: answer } = given;
        let key = done_key(self.record.steps.len() + 1);
        let noted = Noted { step_id: &step_id, title: &title, round, confirmed, answer: &answer };
        self.flow.set(&key, &noted)?;
        self.record.steps.push(Done { step_id, title, round, output, confirmed, context });
        Ok(())
    }

    /// Asks for what decides which steps apply; says what was wrong with an answer that does not.
    async fn ask_for_context(
        &mut self,
        wanted: &[String],
        refused: Option<Refused>,
    ) -> FlowResult<Option<Refused>> {
        let lines: Vec<_> = wanted.iter().map(|one| format!("- {one}")).collect();
        let shown = Shown {
            step_id: "context".to_owned(),
            title: "Say what the next steps depend on".to_owned(),
            prompt: format!("{CONTEXT_WANTED}\n{}", lines.join("\n")),
            round: None,
            is_about_context: true,
            refused,
        };
        let given = self.ask(&shown).await?;
        if let Some(refused) = self.too_large(&given.context) {
            return Ok(Some(refused));
        }
        self.place.learn(given.context);
        Ok(Some(Refused::new(
            "The context still leaves open what is next.",
            "Give every variable that is asked for with `context`, also those that do not apply.",
        )))
    }

    async fn ask(&mut self, shown: &Shown) -> FlowResult<Given> {
        self.asked += 1;
        let key = format!("{}.{}", self.asked, shown.step_id);
        // What is missing is judged with the step, which can be tried again as often as it takes.
        let schema = json!({
            "type": "object",
            "properties": {"output": {"type": "string"}, "context": {"type": "object"}},
            "additionalProperties": false
        });
        let question = custom_schema(&shown.title, schema).ui(serde_json::to_value(shown)?);
        let given: Given = serde_json::from_value(self.flow.ask(&key, question).await?)?;
        Ok(Given { key, ..given })
    }

    /// Asks a person.
    async fn confirm(&mut self, shown: &Shown, output: &str) -> FlowResult<bool> {
        self.asked += 1;
        let end = output.floor_char_boundary(LONGEST_SHOWN);
        let more = if end < output.len() { " [...]" } else { "" };
        let message = format!(
            "The step \"{}\" is done. Do you agree to what came of it?\n\n{}{more}",
            shown.title,
            &output[..end]
        );
        self.flow.ask(&format!("{}.{}.confirm", self.asked, shown.step_id), confirm(message)).await
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

const CONTEXT_WANTED: &str = "Which steps apply depends on what the context does not say yet. Say \
                              it with `context`:";

/// How much of an output a person is shown with the question.
const LONGEST_SHOWN: usize = 8 * 1024;
