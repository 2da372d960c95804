//! Date questions.

use jiff::civil::Date;
use serde_json::Value;

use super::{Optional, Question};
use crate::check::parse_date;
use crate::prompt::{Prompt, PromptType};

/// Question for a date.
#[derive(Clone, Debug)]
pub struct Day(Prompt);

/// Creates a question for a date.
pub fn date(message: impl AsRef<str>) -> Day {
    Day(Prompt::new(PromptType::Date, message.as_ref()))
}

impl Day {
    /// Allows only dates after this one.
    #[must_use]
    pub fn after(self, day: Date) -> Self {
        self.from(day.tomorrow().unwrap_or(Date::MAX))
    }

    /// Allows only dates before this one.
    #[must_use]
    pub fn before(self, day: Date) -> Self {
        self.until(day.yesterday().unwrap_or(Date::MIN))
    }

    /// Sets the earliest date.
    #[must_use]
    pub fn from(mut self, day: Date) -> Self {
        self.0.validation.min = Some(day.into());
        self
    }

    /// Sets the latest date.
    #[must_use]
    pub fn until(mut self, day: Date) -> Self {
        self.0.validation.max = Some(day.into());
        self
    }

    /// Sets the default answer.
    #[must_use]
    pub fn default(mut self, day: Date) -> Self {
        self.0.default_value = Some(day.to_string().into());
        self
    }

    /// Makes the answer optional.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

impl Question for Day {
    type Answer = Date;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<Date> {
        parse_date(value.as_str()?)
    }
}
