//! Questions answered by whatever a JSON Schema allows.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Prompt, PromptType};

/// A question answered by a value of a type that has a schema.
#[derive(Clone, Debug)]
pub struct Custom<T>(Prompt, PhantomData<fn() -> T>);

/// Asks for a value of type `T`, whose schema goes with the question.
pub fn custom<T: JsonSchema + DeserializeOwned>(message: impl AsRef<str>) -> Custom<T> {
    let schema = schemars::schema_for!(T).to_value();
    Custom(prompt(message.as_ref(), schema), PhantomData)
}

impl<T> Custom<T> {
    /// Tells a client how the question might be shown.
    #[must_use]
    pub fn ui(mut self, hints: Value) -> Self {
        self.0.ui = Some(hints);
        self
    }

    /// Lets the question go unanswered.
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

/// A question answered by any JSON a schema allows.
#[derive(Clone, Debug)]
pub struct Free(Prompt);

/// Asks for whatever `schema` allows. The schema may not refer to anything outside itself.
pub fn custom_schema(message: impl AsRef<str>, schema: Value) -> Free {
    Free(prompt(message.as_ref(), schema))
}

impl Free {
    /// Tells a client how the question might be shown.
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

/// A prompt is a question too, answered by plain JSON: for flows made of data.
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
