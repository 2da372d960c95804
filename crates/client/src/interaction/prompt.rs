//! Prompts of interaction sessions, and their answers.

use mcp_flow_session::InvalidAnswer;
use mcp_flow_session::prompt::{AnswerRules, FlowProgress, Prompt, PromptType};
use serde_json::Value;

/// A prompt that waits for an answer. Its texts are untrusted: show them through
/// [`sanitize`](crate::sanitize).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingPrompt {
    /// Message, type and validation rules.
    pub prompt: Prompt,
    /// Key of the answer, if the server sends one.
    pub key: Option<String>,
    /// Id of the session; `None` for a parameter asked for before a call.
    pub session: Option<String>,
    /// The prompt's `turnId`, if the server sends one.
    pub turn: Option<u64>,
    /// Progress of the session.
    pub progress: Option<FlowProgress>,
    /// Validation error of the last answer (INT-087).
    pub rejection: Option<InvalidAnswer>,
    /// The prompt as received.
    pub raw: Value,
}

/// The host's answer to a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// Answer with this value.
    Value(Value),
    /// Cancel the session, perhaps with a reason.
    Cancel(Option<String>),
    /// Leave the session open, to be resumed later.
    Leave,
}

impl PendingPrompt {
    /// Decodes a prompt. One of an unknown type is asked as text.
    pub(crate) fn read(raw: Value, progress: Option<&Value>) -> Self {
        let prompt = serde_json::from_value(raw.clone()).unwrap_or_else(|_| {
            let message = raw.get("message").and_then(Value::as_str).unwrap_or("?");
            let rules = raw.get("validation").cloned().unwrap_or_default();
            let rules: AnswerRules = serde_json::from_value(rules).unwrap_or_default();
            Prompt { validation: Box::new(rules), ..Prompt::new(PromptType::Text, message) }
        });
        let metadata = |name: &str| raw.get("metadata").and_then(|metadata| metadata.get(name));
        let text = |name: &str| metadata(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            prompt,
            key: text("key"),
            session: None,
            turn: metadata("turnId").and_then(Value::as_u64),
            progress: progress.and_then(|progress| serde_json::from_value(progress.clone()).ok()),
            rejection: text("error").map(|error| match text("suggestion") {
                Some(suggestion) => InvalidAnswer::new(error).suggest(suggestion),
                None => InvalidAnswer::new(error),
            }),
            raw,
        }
    }

    /// Creates a prompt for a parameter of a tool.
    pub(crate) fn of(key: &str, prompt: Prompt) -> Self {
        let raw = serde_json::to_value(&prompt).unwrap_or_default();
        let key = Some(key.to_owned());
        Self { prompt, key, session: None, turn: None, progress: None, rejection: None, raw }
    }
}
