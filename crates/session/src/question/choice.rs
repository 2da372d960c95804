//! Questions answered by choosing.

use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Choice, Prompt, PromptType};

/// Something that can be chosen.
///
/// ```
/// use mcp_flow_session::question::{Choosable, Question, choice};
///
/// #[derive(Clone)]
/// struct Offer { number: u32, hotel: String, price: u32 }
///
/// impl Choosable for Offer {
///     fn value(&self) -> serde_json::Value { self.number.into() }
///     fn label(&self) -> String { format!("{} for {}", self.hotel, self.price) }
/// }
///
/// let offers = [Offer { number: 7, hotel: "Astoria".into(), price: 120 }];
/// let question = choice("Which offer?", &offers);
/// assert_eq!(question.prompt().choices[0].label, "Astoria for 120");
/// assert_eq!(question.read(7.into()).unwrap().hotel, "Astoria");
/// ```
pub trait Choosable {
    /// What an answer holds when this is chosen; no two choices of a question have the same.
    fn value(&self) -> Value;

    /// What people read.
    fn label(&self) -> String;
}

impl Choosable for &str {
    fn value(&self) -> Value {
        (*self).into()
    }

    fn label(&self) -> String {
        (*self).to_owned()
    }
}

impl Choosable for String {
    fn value(&self) -> Value {
        self.as_str().into()
    }

    fn label(&self) -> String {
        self.clone()
    }
}

/// Choices told one by one: what is meant, and what is read.
impl<V: Clone + Into<Value>, L: ToString> Choosable for (V, L) {
    fn value(&self) -> Value {
        self.0.clone().into()
    }

    fn label(&self) -> String {
        self.1.to_string()
    }
}

/// A question answered by choosing one of what was offered.
#[derive(Clone, Debug)]
pub struct Chosen<T> {
    prompt: Prompt,
    offered: Vec<T>,
}

/// Asks to choose one of `offered`.
pub fn choice<T: Choosable + Clone>(message: impl AsRef<str>, offered: &[T]) -> Chosen<T> {
    let mut prompt = Prompt::new(PromptType::Choice, message.as_ref());
    prompt.choices = offered
        .iter()
        .map(|offered| Choice { value: offered.value(), label: offered.label() })
        .collect();
    Chosen { prompt, offered: offered.to_vec() }
}

impl<T: Choosable> Chosen<T> {
    /// What counts when nothing is answered.
    #[must_use]
    pub fn default(mut self, answer: &T) -> Self {
        self.prompt.default_value = Some(answer.value());
        self
    }

    /// Lets the question go unanswered.
    pub fn optional(mut self) -> Optional<Self> {
        self.prompt.validation.required = None;
        Optional(self)
    }
}

impl<T: Clone + Send> Question for Chosen<T> {
    type Answer = T;

    fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    fn read(&self, value: Value) -> Option<T> {
        let place = self.prompt.choices.iter().position(|choice| choice.value == value)?;
        self.offered.get(place).cloned()
    }
}
