//! Number questions.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Prompt, PromptType, RangeBound};

/// Question for a number.
#[derive(Clone, Debug)]
pub struct Number(Prompt);

/// Creates a question for a number.
pub fn number(message: impl AsRef<str>) -> Number {
    Number(Prompt::new(PromptType::Number, message.as_ref()))
}

impl Number {
    /// Sets the least and the greatest number. An end that is not finite is no bound.
    #[must_use]
    pub fn range(mut self, range: RangeInclusive<f64>) -> Self {
        self.0.validation.min = bound(*range.start());
        self.0.validation.max = bound(*range.end());
        self
    }

    /// Sets the default answer.
    #[must_use]
    pub fn default(mut self, answer: f64) -> Self {
        self.0.default_value = Some(answer.into());
        self
    }

    /// Makes the answer optional.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

impl Question for Number {
    type Answer = f64;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<f64> {
        value.as_f64()
    }
}

/// Question for an integer.
#[derive(Clone, Debug)]
pub struct Integer(Prompt);

/// Creates a question for an integer.
pub fn integer(message: impl AsRef<str>) -> Integer {
    let mut prompt = Prompt::new(PromptType::Number, message.as_ref());
    prompt.validation.integer = true;
    Integer(prompt)
}

impl Integer {
    /// Sets the least and the greatest number.
    #[must_use]
    pub fn range(mut self, range: RangeInclusive<i64>) -> Self {
        self.0.validation.min = Some((*range.start()).into());
        self.0.validation.max = Some((*range.end()).into());
        self
    }

    /// Sets the default answer.
    #[must_use]
    pub fn default(mut self, answer: i64) -> Self {
        self.0.default_value = Some(answer.into());
        self
    }

    /// Makes the answer optional.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

impl Question for Integer {
    type Answer = i64;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<i64> {
        // Some clients write integers as 3.0.
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        value.as_i64().or_else(|| {
            value
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() < 9e15)
                .map(|f| f as i64)
        })
    }
}

fn bound(number: f64) -> Option<RangeBound> {
    serde_json::Number::from_f64(number).map(RangeBound::Number)
}
