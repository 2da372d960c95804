//! Questions whose answer is validated by a JSON Schema.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Prompt, PromptType};

/// Question for a value of a type that has a schema.
#[derive(Clone, Debug)]
pub struct Custom<T>(Prompt, PhantomData<fn() -> T>);

/// Creates a question for a value of type `T`, whose schema is sent with it.
pub fn custom<T: JsonSchema + DeserializeOwned>(message: impl AsRef<str>) -> Custom<T> {
    let schema = schemars::schema_for!(T).to_value();
    Custom(prompt(message.as_ref(), schema), PhantomData)
}

impl<T> Custom<T> {
    /// Sets hints for the client's user interface.
    #[must_use]
    pub fn ui(mut self, hints: Value) -> Self {
        self.0.ui = Some(hints);
        self
    }

    /// Makes the answer optional.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

impl<T: DeserializeOwned + Send> Question for Custom<T> {
    type Answer = T;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<T> {
        serde_json::from_value(value).ok()
    }
}

/// Question for any JSON that a schema allows.
#[derive(Clone, Debug)]
pub struct Free(Prompt);

/// Creates a question for any JSON that `schema` allows. The schema must not refer to anything
/// outside itself.
pub fn custom_schema(message: impl AsRef<str>, schema: Value) -> Free {
    Free(prompt(message.as_ref(), schema))
}

impl Free {
    /// Sets hints for the client's user interface.
    #[must_use]
    pub fn ui(mut self, hints: Value) -> Self {
        self.0.ui = Some(hints);
        self
    }
}

impl Question for Free {
    type Answer = Value;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<Value> {
        Some(value)
    }
}

/// A prompt is a question with an untyped answer, for flows that are data.
impl Question for Prompt {
    type Answer = Value;

    fn prompt(&self) -> &Prompt {
        self
    }

    fn read(&self, value: Value) -> Option<Value> {
        Some(value)
    }
}

fn prompt(message: &str, schema: Value) -> Prompt {
    let mut prompt = Prompt::new(PromptType::Custom, message);
    prompt.validation.schema = Some(schema);
    prompt
}
