//! Text questions.

use std::ops::{Bound, RangeBounds};

use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Prompt, PromptType};

/// Question for a text.
#[derive(Clone, Debug)]
pub struct Text(Prompt);

/// Creates a question for a text.
pub fn text(message: impl AsRef<str>) -> Text {
    Text(Prompt::new(PromptType::Text, message.as_ref()))
}

impl Text {
    /// Sets the allowed number of characters.
    #[must_use]
    pub fn length(mut self, range: impl RangeBounds<u64>) -> Self {
        self.0.validation.min = match range.start_bound() {
            Bound::Included(least) => Some((*least).into()),
            Bound::Excluded(below) => Some(below.saturating_add(1).into()),
            Bound::Unbounded => None,
        };
        self.0.validation.max = match range.end_bound() {
            Bound::Included(most) => Some((*most).into()),
            Bound::Excluded(above) => Some(above.saturating_sub(1).into()),
            Bound::Unbounded => None,
        };
        self
    }

    /// Sets a regular expression that must match. Anchor it to match the whole text.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.0.validation.pattern = Some(pattern.into());
        self
    }

    /// Describes the texts that match the [`pattern`](Self::pattern), such as "three capital letters".
    /// People see this instead of the regular expression.
    #[must_use]
    pub fn pattern_description(mut self, description: impl Into<String>) -> Self {
        self.0.validation.pattern_description = Some(description.into());
        self
    }

    /// Sets the placeholder of the input field.
    #[must_use]
    pub fn placeholder(mut self, text: impl Into<String>) -> Self {
        self.0.placeholder = Some(text.into());
        self
    }

    /// Sets the default answer.
    #[must_use]
    pub fn default(mut self, answer: impl Into<String>) -> Self {
        self.0.default_value = Some(answer.into().into());
        self
    }

    /// Makes the answer optional.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

impl Question for Text {
    type Answer = String;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}
