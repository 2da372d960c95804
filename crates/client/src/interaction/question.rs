//! One question of a conversation.

use mcp_flow_session::Violation;
use mcp_flow_session::prompt::{Progress, Prompt, PromptType, Rules};
use serde_json::Value;

/// One question of a conversation. Its texts are the server's: show them through
/// [`neutral`](crate::neutral).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// What is asked, and the rules its answer must keep to.
    pub prompt: Prompt,
    /// What the answer is kept under, if the server says so.
    pub key: Option<String>,
    /// The session that asks; none for what is asked before a call.
    pub session: Option<String>,
    /// Which turn of the conversation it is, if the server says so.
    pub turn: Option<u64>,
    /// How far the conversation has come.
    pub progress: Option<Progress>,
    /// What was wrong with the last answer (INT-087).
    pub rejection: Option<Violation>,
    /// The prompt as it came.
    pub raw: Value,
}

/// What the person says to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// This.
    Value(Value),
    /// Nothing; the conversation is over, perhaps for this reason.
    Cancel(Option<String>),
    /// Nothing for now; the conversation can be taken up later, where the server keeps it.
    Leave,
}

impl Question {
    /// Reads a prompt as a server sends it. One of an unknown kind is asked as a text.
    pub(crate) fn read(raw: Value, progress: Option<&Value>) -> Self {
        let prompt = serde_json::from_value(raw.clone()).unwrap_or_else(|_| {
            let message = raw.get("message").and_then(Value::as_str).unwrap_or("?");
            let rules = raw.get("validation").cloned().unwrap_or_default();
            let rules: Rules = serde_json::from_value(rules).unwrap_or_default();
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
                Some(suggestion) => Violation::new(error).suggest(suggestion),
                None => Violation::new(error),
            }),
            raw,
        }
    }

    /// A question of our own making.
    pub(crate) fn of(key: &str, prompt: Prompt) -> Self {
        let raw = serde_json::to_value(&prompt).unwrap_or_default();
        let key = Some(key.to_owned());
        Self { prompt, key, session: None, turn: None, progress: None, rejection: None, raw }
    }
}
