//! Typed questions: builders for flows.
//!
//! ```
//! use mcp_flow_session::question::{Question, choice, confirm, date, integer, number, text};
//! use mcp_flow_session::Date;
//!
//! text("Where to?").length(2..=50).placeholder("a city");
//! text("E-mail?").pattern("^[^@ ]+@[^@ ]+$");
//! text("Anything else?").optional();
//! choice("Which seat?", &["window", "aisle"]);
//! confirm("Book it?").default(false);
//! number("How much?").range(0.0..=1000.0);
//! integer("How many?").range(1..=9);
//! date("Which day?").after(Date::constant(2024, 1, 1));
//! ```

mod choice;
mod custom;
mod date;
mod file;
mod number;
mod optional;
mod text;

use serde_json::Value;

use crate::prompt::{Prompt, PromptType};

pub use choice::{Choosable, Chosen, choice};
pub use custom::{Custom, Free, custom, custom_schema};
pub use date::{Day, date};
pub use file::{File, FileAnswer, file};
pub use number::{Integer, Number, integer, number};
pub use optional::Optional;
pub use text::{Text, text};

/// A prompt with the type of its answer.
pub trait Question: Send {
    /// Type the flow gets.
    type Answer: Send;

    /// Returns the prompt sent to the client.
    fn prompt(&self) -> &Prompt;

    /// Converts a valid answer to its type.
    ///
    /// None if the value does not fit the type: the rules of the prompt allow more than it can
    /// hold.
    fn read(&self, value: Value) -> Option<Self::Answer>;
}

/// Yes-or-no question.
#[derive(Clone, Debug)]
pub struct Confirm(Prompt);

/// Creates a yes-or-no question.
pub fn confirm(message: impl AsRef<str>) -> Confirm {
    Confirm(Prompt::new(PromptType::Confirm, message.as_ref()))
}

impl Confirm {
    /// Sets the default answer.
    #[must_use]
    pub fn default(mut self, answer: bool) -> Self {
        self.0.default_value = Some(answer.into());
        self
    }
}

impl Question for Confirm {
    type Answer = bool;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<bool> {
        value.as_bool()
    }
}
