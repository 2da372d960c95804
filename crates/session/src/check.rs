//! Answers against the rules of their prompt.
//!
//! The same check runs on the server, in a client that wants to help its user early, and on values
//! given before anything was asked. It takes time linear in the answer, whatever the rules.

mod compiled;
mod custom;
mod file;
pub mod limits;
mod plain;
mod sound;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prompt::{Prompt, PromptType};

pub(crate) use plain::parse_date;
pub use sound::BadPrompt;

/// Why an answer was not taken, and what would be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, thiserror::Error)]
#[error("{error}")]
pub struct Violation {
    /// What is wrong. It never repeats the answer, which may be private.
    pub error: String,
    /// What to send instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Violation {
    /// Says what is wrong, with nothing to suggest.
    pub fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), suggestion: None }
    }

    /// Says what to send instead.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

impl Prompt {
    /// Judges an answer and gives back what counts: the answer itself, the default for an empty
    /// one, or null where nothing is required.
    pub fn check(&self, answer: &Value) -> Result<Value, Violation> {
        if is_empty(answer) {
            return match &self.default_value {
                Some(default) => Ok(default.clone()),
                None if self.validation.required == Some(true) => {
                    Err(Violation::new("an answer is required"))
                }
                None => Ok(Value::Null),
            };
        }
        self.check_value(answer)?;
        Ok(answer.clone())
    }

    /// Judges an answer that is not empty.
    fn check_value(&self, answer: &Value) -> Result<(), Violation> {
        match self.kind {
            PromptType::Text => text::check(&self.validation, answer),
            PromptType::Choice => plain::choice(&self.choices, answer),
            PromptType::Confirm => plain::confirm(answer),
            PromptType::Number => plain::number(&self.validation, answer),
            PromptType::Date => plain::date(&self.validation, answer),
            PromptType::File => file::check(&self.validation, answer),
            PromptType::Custom => custom::check(&self.validation, answer),
        }
    }
}

/// Whether an answer says nothing: null and the empty text are what people send who send nothing
/// (INT-120).
pub fn is_empty(answer: &Value) -> bool {
    match answer {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
