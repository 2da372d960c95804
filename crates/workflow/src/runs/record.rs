//! Stored and exported record of a run.

use mcp_flow_session::event::Ending;
use mcp_flow_session::{Session, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::condition::WorkflowContext;
use crate::model::Workflow;

/// Steps and outputs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Id of the workflow.
    pub workflow_id: String,
    /// Display name of the workflow.
    pub name: String,
    /// Version of the workflow.
    pub version: String,
    /// SHA-256 of the workflow's content, which the run is pinned to.
    pub hash: String,
    /// General sections of the workflow.
    #[serde(flatten)]
    pub briefing: Briefing,
    /// Completed steps, in order.
    pub steps: Vec<CompletedStep>,
}

/// General sections of a workflow, which apply before and across its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Briefing {
    /// Purpose of the workflow.
    pub description: String,
    /// Conditions that must be met before the first step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// Questions to put to the user before the first step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    /// Guidance for all steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<String>,
}

impl Briefing {
    pub(super) fn of(workflow: &Workflow) -> Self {
        let texts = |texts: &[Box<str>]| texts.iter().map(ToString::to_string).collect();
        Self {
            description: workflow.description.to_string(),
            preconditions: texts(&workflow.preconditions),
            clarification_prompts: texts(&workflow.clarification_prompts),
            meta_guidance: texts(&workflow.meta_guidance),
        }
    }
}

/// A completed step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletedStep {
    /// Id of the step.
    pub step_id: String,
    /// Display title.
    pub title: String,
    /// Round of its loop, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Output given by the agent.
    pub output: String,
    /// True if a person confirmed it.
    pub confirmed: bool,
    /// Context given together with the output.
    #[serde(default, skip_serializing_if = "WorkflowContext::is_empty")]
    pub context: WorkflowContext,
}

impl RunRecord {
    /// Reads the record of a session: from its result if it completed, otherwise from its
    /// accumulated data.
    pub fn of(session: &Session) -> Self {
        if let Some(Ending::Completed { data, .. }) = session.ending() {
            return read(data).unwrap_or_default();
        }
        let noted = |key: &str| session.data.get(key).cloned();
        let steps = (1..).map_while(|number| {
            let mut done = noted(&done_key(number))?;
            // The output is stored once, as the answer to the step's prompt.
            let answer = noted(done["answer"].as_str()?)?;
            done["output"] = answer["output"].clone();
            if let Some(context) = answer.get("context") {
                done["context"] = context.clone();
            }
            read(&done)
        });
        let record: Self = noted(RECORD_KEY).as_ref().and_then(read).unwrap_or_default();
        Self { steps: steps.collect(), ..record }
    }

    /// JSON description of the workflow, for an agent that starts or resumes a run.
    pub(super) fn description(&self) -> Value {
        let Self { workflow_id, name, version, hash, briefing, .. } = self;
        let mut description = json!(briefing);
        description["id"] = workflow_id.as_str().into();
        description["name"] = name.as_str().into();
        description["version"] = version.as_str().into();
        description["hash"] = hash.as_str().into();
        description
    }

    /// Renders the run as Markdown, with all outputs.
    pub fn markdown(&self, id: SessionId, state: &str) -> String {
        let mut text = format!(
            "# {}\n\nWorkflow `{}` {}, run `{id}`: {state}.\n\nContent: sha-256 {}\n",
            self.name, self.workflow_id, self.version, self.hash
        );
        for (index, done) in self.steps.iter().enumerate() {
            let round = done.round.map_or_else(String::new, |round| format!(" (round {round})"));
            // On a line of its own, so that no title can imitate it.
            let confirmed = if done.confirmed { "Confirmed by a person.\n\n" } else { "" };
            let (number, title) = (index + 1, &done.title);
            text.push_str(&format!("\n## {number}. {title}{round}\n\n{confirmed}"));
            text.push_str(&quoted(&done.output));
            if !done.context.is_empty() {
                let context = Value::Object(done.context.clone());
                text.push_str(&format!("\nContext:\n\n{}", quoted(&context.to_string())));
            }
        }
        text
    }
}

/// Quotes text of an agent, so that none of it reads as part of the record.
fn quoted(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("> {line}\n")).collect()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// Data key of the record without its steps.
pub(super) const RECORD_KEY: &str = "run";

/// Data key of a completed step, by its number from 1.
pub(super) fn done_key(number: usize) -> String {
    format!("done.{number}")
}

/// Stored form of a completed step. The output is stored under the key `answer`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredStep<'a> {
    pub(super) step_id: &'a str,
    pub(super) title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<u32>,
    pub(super) confirmed: bool,
    pub(super) answer: &'a str,
}

/// UI hints of a step's prompt: the step as shown to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShownStep {
    pub(super) step_id: String,
    pub(super) title: String,
    pub(super) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<u32>,
    /// True if only context is asked for, no output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_about_context: bool,
    /// Issues with the previous answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Rejection>,
}

/// Reason a step must be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rejection {
    pub(super) issues: Vec<String>,
    pub(super) suggestions: Vec<String>,
}

impl Rejection {
    pub(super) fn new(issue: impl Into<String>, suggestion: &str) -> Self {
        Self { issues: vec![issue.into()], suggestions: vec![suggestion.to_owned()] }
    }
}

impl ShownStep {
    pub(super) fn of(hints: Option<&Value>) -> Option<Self> {
        hints.and_then(read)
    }
}
