//! What is kept of a run.

use mcp_flow_session::event::Ending;
use mcp_flow_session::{Session, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::condition::Context;
use crate::model::Workflow;

/// What was done in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Which workflow.
    pub workflow_id: String,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its content, which the run is pinned to.
    pub hash: String,
    /// What is to be known before the first step.
    #[serde(flatten)]
    pub briefing: Briefing,
    /// What was done, in order.
    pub steps: Vec<Done>,
}

/// What a workflow says of itself beside its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Briefing {
    /// What it is for.
    pub description: String,
    /// What must be so before it is begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// What to ask the user before it is begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    /// What holds for all steps.
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

/// A step that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Which step.
    pub step_id: String,
    /// What people call it.
    pub title: String,
    /// In which round of its loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// What came of it.
    pub output: String,
    /// Whether a person agreed to it.
    pub confirmed: bool,
    /// What was said of the task together with it.
    #[serde(default, skip_serializing_if = "Context::is_empty")]
    pub context: Context,
}

impl Record {
    /// What was done in a session: its result if it has one, and what it gathered if not.
    pub fn of(session: &Session) -> Self {
        if let Some(Ending::Completed { data, .. }) = session.ending() {
            return read(data).unwrap_or_default();
        }
        let noted = |key: &str| session.data.get(key).cloned();
        let steps = (1..).map_while(|number| {
            let mut done = noted(&done_key(number))?;
            // The output itself is there once, as the answer to the question for it.
            let answer = noted(done["answer"].as_str()?)?;
            done["output"] = answer["output"].clone();
            if let Some(context) = answer.get("context") {
                done["context"] = context.clone();
            }
            read(&done)
        });
        let record: Self = noted(NOTED).as_ref().and_then(read).unwrap_or_default();
        Self { steps: steps.collect(), ..record }
    }

    /// Which workflow it is of, for an agent that begins or comes back.
    pub(super) fn told(&self) -> Value {
        let Self { workflow_id, name, version, hash, briefing, .. } = self;
        let mut told = json!(briefing);
        told["id"] = workflow_id.as_str().into();
        told["name"] = name.as_str().into();
        told["version"] = version.as_str().into();
        told["hash"] = hash.as_str().into();
        told
    }

    /// The run for people, all outputs included.
    pub fn markdown(&self, id: SessionId, state: &str) -> String {
        let mut text = format!(
            "# {}\n\nWorkflow `{}` {}, run `{id}`: {state}.\n\nContent: sha-256 {}\n",
            self.name, self.workflow_id, self.version, self.hash
        );
        for (index, done) in self.steps.iter().enumerate() {
            let round = done.round.map_or_else(String::new, |round| format!(" (round {round})"));
            // On a line of its own, so that no title can say so.
            let confirmed = if done.confirmed { "Confirmed by a person.\n\n" } else { "" };
            let (number, title) = (index + 1, &done.title);
            text.push_str(&format!("\n## {number}. {title}{round}\n\n{confirmed}"));
            text.push_str(&quoted(&done.output));
            if !done.context.is_empty() {
                let context = Value::Object(done.context.clone());
                text.push_str(&format!("\nSaid of the task:\n\n{}", quoted(&context.to_string())));
            }
        }
        text
    }
}

/// A text of an agent's, so that nothing in it is taken for a part of the record.
fn quoted(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("> {line}\n")).collect()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// Under which key a run notes which workflow it is of.
pub(super) const NOTED: &str = "run";

/// Under which key it notes a step that was done, by its number from 1.
pub(super) fn done_key(number: usize) -> String {
    format!("done.{number}")
}

/// A step that was done, without its output, which is found under the key `answer`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Noted<'a> {
    pub(super) step_id: &'a str,
    pub(super) title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<u32>,
    pub(super) confirmed: bool,
    pub(super) answer: &'a str,
}

/// What the question for a step says of it, beside its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    pub(super) step_id: String,
    pub(super) title: String,
    pub(super) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<u32>,
    /// Whether context is asked for, and no output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_about_context: bool,
    /// What was wrong with the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Refused>,
}

/// Why a step has to be done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    pub(super) issues: Vec<String>,
    pub(super) suggestions: Vec<String>,
}

impl Refused {
    pub(super) fn new(issue: impl Into<String>, suggestion: &str) -> Self {
        Self { issues: vec![issue.into()], suggestions: vec![suggestion.to_owned()] }
    }
}

impl Shown {
    pub(super) fn of(hints: Option<&Value>) -> Option<Self> {
        hints.and_then(read)
    }
}
