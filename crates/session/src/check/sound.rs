//! Whether a question can be asked at all: a fault here is the flow's, never the user's (C-14).

use std::cmp::Ordering;

use super::{compiled, limits, plain, text};
use crate::prompt::{Bound, Prompt, PromptType};

/// Why a question cannot be asked. The flow has to be mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPrompt {
    /// There is no message, or too much of it.
    #[error("the message must have 1 to {} characters", limits::MESSAGE)]
    Message,
    /// The pattern is no regular expression, or one too large to run in bounded time.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// The schema is not one, or refers to something outside itself.
    #[error("the schema cannot be used: {0}")]
    Schema(String),
    /// There is nothing to choose from, or too much.
    #[error("a choice needs 1 to {} choices", limits::CHOICES)]
    Choices,
    /// Two choices have one value, so that an answer would not say which is meant.
    #[error("two choices have the same value")]
    SameValue,
    /// The bounds leave nothing between them, or are of the wrong kind.
    #[error("min and max do not fit this question")]
    Bounds,
    /// The default breaks the question's own rules.
    #[error("the default value breaks the rules: {0}")]
    Default(String),
}

impl Prompt {
    /// Whether this question can be asked: its rules can be kept, and its default keeps them.
    pub fn sound(&self) -> Result<(), BadPrompt> {
        let rules = &self.validation;
        if self.message.is_empty() || self.message.len() > limits::MESSAGE {
            return Err(BadPrompt::Message);
        }
        if let Some(pattern) = &rules.pattern {
            compiled::pattern(pattern).map_err(BadPrompt::Pattern)?;
        }
        if let Some(schema) = &rules.schema {
            compiled::schema(schema).map_err(BadPrompt::Schema)?;
        }
        if self.kind == PromptType::Choice {
            self.sound_choices()?;
        }
        if !self.sound_bounds() {
            return Err(BadPrompt::Bounds);
        }
        match &self.default_value {
            None => Ok(()),
            Some(default) => {
                self.check_value(default).map_err(|violation| BadPrompt::Default(violation.error))
            }
        }
    }

    fn sound_choices(&self) -> Result<(), BadPrompt> {
        if self.choices.is_empty() || self.choices.len() > limits::CHOICES {
            return Err(BadPrompt::Choices);
        }
        let mut values: Vec<_> =
            self.choices.iter().map(|choice| choice.value.to_string()).collect();
        values.sort_unstable();
        if values.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(BadPrompt::SameValue);
        }
        Ok(())
    }

    fn sound_bounds(&self) -> bool {
        let (min, max) = (self.validation.min.as_ref(), self.validation.max.as_ref());
        match self.kind {
            PromptType::Text => {
                let least = text::count(min);
                least.is_some() == min.is_some()
                    && text::count(max).is_some() == max.is_some()
                    && least.unwrap_or(0) <= text::count(max).unwrap_or(limits::TEXT)
                    && least.unwrap_or(0) <= limits::TEXT
            }
            PromptType::Number => match (min, max) {
                (Some(Bound::Number(min)), Some(Bound::Number(max))) => {
                    plain::compare(min, max) != Ordering::Greater
                }
                (Some(Bound::Date(_)), _) | (_, Some(Bound::Date(_))) => false,
                _ => true,
            },
            PromptType::Date => match (min, max) {
                (Some(Bound::Date(min)), Some(Bound::Date(max))) => min <= max,
                (Some(Bound::Number(_)), _) | (_, Some(Bound::Number(_))) => false,
                _ => true,
            },
            PromptType::Choice | PromptType::Confirm | PromptType::File | PromptType::Custom => {
                min.is_none() && max.is_none()
            }
        }
    }
}
