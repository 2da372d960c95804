//! Validation of answers against the rules of their prompt.
//!
//! The same check runs on the server, in clients that validate early, and on values given at the
//! start. It takes time linear in the answer, whatever the rules.

mod compiled;
mod custom;
mod file;
pub mod limits;
mod plain;
mod prompt;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prompt::{Prompt, PromptType};

pub(crate) use plain::parse_date;
pub use prompt::InvalidPrompt;

/// Reason an answer is invalid, with a suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, thiserror::Error)]
#[error("{error}")]
pub struct InvalidAnswer {
    /// The rule that is violated. Never repeats the answer, which may be private.
    pub error: String,
    /// Suggestion what to send instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl InvalidAnswer {
    /// Creates one without a suggestion.
    pub fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), suggestion: None }
    }

    /// Adds a suggestion what to send instead.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

impl Prompt {
    /// Validates an answer and returns the value that counts: the answer itself, the default for an
    /// empty one, or null if none is required.
    pub fn check(&self, answer: &Value) -> Result<Value, InvalidAnswer> {
        if is_empty(answer) {
            return match &self.default_value {
                Some(default) => Ok(default.clone()),
                None if self.validation.required == Some(true) => {
                    Err(InvalidAnswer::new("an answer is required"))
                }
                None => Ok(Value::Null),
            };
        }
        self.check_value(answer)?;
        Ok(answer.clone())
    }

    /// Validates an answer that is not empty.
    fn check_value(&self, answer: &Value) -> Result<(), InvalidAnswer> {
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

/// Returns whether an answer is empty: null or the empty string (INT-120).
pub fn is_empty(answer: &Value) -> bool {
    match answer {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
