//! What is kept of a run.

use mcp_flow_flow::event::Ending;
use mcp_flow_flow::{Session, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was done in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What was done, in order.
    pub steps: Vec<Done>,
}

/// A step that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Record {
    /// What was done in a session: its result if it is over, and what its history shows if not.
    pub fn of(session: &Session) -> Self {
        let read = |value: &Value| serde_json::from_value(value.clone()).ok();
        if let Some(Ending::Completed { data, .. }) = session.ending() {
            return read(data).unwrap_or_default();
        }
        let noted: Option<Self> = session.data.get(NOTED).and_then(read);
        Self { steps: done(session), ..noted.unwrap_or_default() }
    }

    /// The run for people, all outputs included.
    pub fn markdown(&self, id: SessionId, state: &str) -> String {
        let mut text = format!(
            "# {}\n\nWorkflow `{}` {}, run `{id}`: {state}.\n\nContent: sha-256 {}\n",
            self.name, self.workflow_id, self.version, self.hash
        );
        for (index, done) in self.steps.iter().enumerate() {
            let round = done.round.map_or_else(String::new, |round| format!(" (round {round})"));
            let confirmed = if done.confirmed { "\n\n*Confirmed by a person.*" } else { "" };
            let (number, title) = (index + 1, &done.title);
            text.push_str(&format!(
                "\n## {number}. {title}{round}\n\n{}{confirmed}\n",
                done.output
            ));
        }
        text
    }
}

/// The steps of a live session that were done: those whose output was not asked for again.
fn done(session: &Session) -> Vec<Done> {
    let asked = |place: usize| {
        let past = session.history.get(place).map(|turn| &turn.asked);
        past.or(session.open.as_ref().filter(|_| place == session.history.len()))
    };
    let mut done = Vec::new();
    for (place, turn) in session.history.iter().enumerate() {
        let Some(shown) = Shown::of(turn.asked.prompt.ui.as_ref()) else { continue };
        let Some(output) = turn.answered.value["output"].as_str() else { continue };
        let Some(after) = asked(place + 1) else { continue };
        let next = Shown::of(after.prompt.ui.as_ref());
        let confirmed = match next {
            Some(next) if next.refused.is_some() => continue,
            Some(_) => false,
            None => {
                let agreed = session.history.get(place + 1).map(|turn| &turn.answered.value);
                if agreed != Some(&Value::Bool(true)) {
                    continue;
                }
                true
            }
        };
        done.push(Done {
            step_id: shown.step_id,
            title: shown.title,
            round: shown.round,
            output: output.to_owned(),
            confirmed,
        });
    }
    done
}

/// Under which key a run notes which workflow it is of.
pub(super) const NOTED: &str = "run";

/// What the question for a step says of it, beside its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    pub(super) step_id: String,
    pub(super) title: String,
    pub(super) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<u32>,
    /// What was wrong with the last output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Refused>,
}

/// Why a step has to be done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    pub(super) issues: Vec<String>,
    pub(super) suggestions: Vec<String>,
}

impl Shown {
    pub(super) fn of(hints: Option<&Value>) -> Option<Self> {
        serde_json::from_value(hints?.clone()).ok()
    }
}
