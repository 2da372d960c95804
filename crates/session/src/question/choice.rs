//! Choice of one option.

use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{ChoiceOption, Prompt, PromptType};

/// An option of a choice.
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
    /// Value of the answer when this is chosen; unique among the options of a question.
    fn value(&self) -> Value;

    /// Label shown to the user.
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

/// Options as pairs of value and label.
impl<V: Clone + Into<Value>, L: ToString> Choosable for (V, L) {
    fn value(&self) -> Value {
        self.0.clone().into()
    }

    fn label(&self) -> String {
        self.1.to_string()
    }
}

/// Choice of one option.
#[derive(Clone, Debug)]
pub struct Chosen<T> {
    prompt: Prompt,
    offered: Vec<T>,
}

/// Creates a choice of one of `offered`.
pub fn choice<T: Choosable + Clone>(message: impl AsRef<str>, offered: &[T]) -> Chosen<T> {
    let mut prompt = Prompt::new(PromptType::Choice, message.as_ref());
    prompt.choices = offered
        .iter()
        .map(|offered| ChoiceOption { value: offered.value(), label: offered.label() })
        .collect();
    Chosen { prompt, offered: offered.to_vec() }
}

impl<T: Choosable> Chosen<T> {
    /// Sets the default answer.
    #[must_use]
    pub fn default(mut self, answer: &T) -> Self {
        self.prompt.default_value = Some(answer.value());
        self
    }

    /// Makes the answer optional.
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
        let index = self.prompt.choices.iter().position(|choice| choice.value == value)?;
        self.offered.get(index).cloned()
    }
}
