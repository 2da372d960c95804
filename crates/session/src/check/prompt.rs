//! Validation of prompts: an error here is the flow's, never the user's (C-14).

use std::cmp::Ordering;

use super::{compiled, limits, plain, text};
use crate::prompt::{Prompt, PromptType, RangeBound};

/// Reason a prompt cannot be asked. The flow has to be fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPrompt {
    /// The message is empty or too long.
    #[error("the message must have 1 to {} characters", limits::MESSAGE)]
    Message,
    /// The pattern is not a regular expression, or too large to run in bounded time.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// The schema is invalid, or refers to something outside itself.
    #[error("the schema cannot be used: {0}")]
    Schema(String),
    /// There are no options, or too many.
    #[error("a choice needs 1 to {} choices", limits::CHOICES)]
    Choices,
    /// Two options have the same value, so an answer would be ambiguous.
    #[error("two choices have the same value")]
    SameValue,
    /// The range is empty, or its bounds are of the wrong type.
    #[error("min and max do not fit this question")]
    Bounds,
    /// The default violates the prompt's own rules.
    #[error("the default value breaks the rules: {0}")]
    Default(String),
}

impl Prompt {
    /// Validates the prompt itself: its rules can be satisfied, and its default satisfies them.
    pub fn validate(&self) -> Result<(), InvalidPrompt> {
        let rules = &self.validation;
        if self.message.is_empty() || self.message.len() > limits::MESSAGE {
            return Err(InvalidPrompt::Message);
        }
        if let Some(pattern) = &rules.pattern {
            compiled::pattern(pattern).map_err(InvalidPrompt::Pattern)?;
        }
        if let Some(schema) = &rules.schema {
            compiled::schema(schema).map_err(InvalidPrompt::Schema)?;
        }
        if self.kind == PromptType::Choice {
            self.validate_choices()?;
        }
        if !self.are_bounds_valid() {
            return Err(InvalidPrompt::Bounds);
        }
        match &self.default_value {
            None => Ok(()),
            Some(default) => self
                .check_value(default)
                .map_err(|violation| InvalidPrompt::Default(violation.error)),
        }
    }

    fn validate_choices(&self) -> Result<(), InvalidPrompt> {
        if self.choices.is_empty() || self.choices.len() > limits::CHOICES {
            return Err(InvalidPrompt::Choices);
        }
        let mut values: Vec<_> =
            self.choices.iter().map(|choice| choice.value.to_string()).collect();
        values.sort_unstable();
        if values.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(InvalidPrompt::SameValue);
        }
        Ok(())
    }

    fn are_bounds_valid(&self) -> bool {
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
                (Some(RangeBound::Number(min)), Some(RangeBound::Number(max))) => {
                    plain::compare(min, max) != Ordering::Greater
                }
                (Some(RangeBound::Date(_)), _) | (_, Some(RangeBound::Date(_))) => false,
                _ => true,
            },
            PromptType::Date => match (min, max) {
                (Some(RangeBound::Date(min)), Some(RangeBound::Date(max))) => min <= max,
                (Some(RangeBound::Number(_)), _) | (_, Some(RangeBound::Number(_))) => false,
                _ => true,
            },
            PromptType::Choice | PromptType::Confirm | PromptType::File | PromptType::Custom => {
                min.is_none() && max.is_none()
            }
        }
    }
}
