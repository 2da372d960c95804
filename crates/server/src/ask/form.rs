//! Elicitation forms with a typed answer.

use std::fmt;
use std::marker::PhantomData;

use mcp_flow_proto::model::{BadForm, ElicitAction, Field, FormSchema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::NotAccepted;
use crate::tool::answer::form_schema;

/// An elicitation form whose answer is a `T`.
///
/// `T` is a struct of simple fields: text, numbers, booleans, enums without data, and lists of such
/// enums. Doc comments of its fields become their descriptions.
#[must_use]
pub struct Form<T = Map<String, Value>> {
    message: String,
    schema: Result<FormSchema, BadForm>,
    answer: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + JsonSchema> Form<T> {
    /// Derives a form from a type, with a message that says why it is to be filled in.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_schema(message, FormSchema::from_schema(&form_schema::<T>()))
    }
}

impl Form {
    /// Builds a form of these fields, for what is known only at run time.
    ///
    /// ```
    /// use mcp_flow_server::Form;
    /// use mcp_flow_server::proto::model::Field;
    ///
    /// let cities = vec!["Rome", "Oslo"];
    /// let form = Form::of("Where to?", [Field::choice("city", cities).required()]);
    /// ```
    pub fn of(message: impl Into<String>, fields: impl Into<Vec<Field>>) -> Self {
        Self::with_schema(message, Ok(FormSchema::new(fields)))
    }
}

impl<T> Form<T> {
    fn with_schema(message: impl Into<String>, schema: Result<FormSchema, BadForm>) -> Self {
        Self { message: message.into(), schema, answer: PhantomData }
    }

    pub(super) fn into_parts(self) -> Result<(String, FormSchema), BadForm> {
        Ok((self.message, self.schema?))
    }
}

impl<T: DeserializeOwned + JsonSchema> From<&str> for Form<T> {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl<T: DeserializeOwned + JsonSchema> From<String> for Form<T> {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl<T> fmt::Debug for Form<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, schema) = (&self.message, &self.schema);
        formatter.debug_struct("Form").field("message", message).field("schema", schema).finish()
    }
}

/// The user's response to an elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// The user accepted, with this answer.
    Accepted(T),
    /// The user declined.
    Declined,
    /// The user dismissed the question.
    Cancelled,
}

impl<T> Elicited<T> {
    /// The answer; an error if the user did not accept.
    pub fn accepted(self) -> Result<T, NotAccepted> {
        match self {
            Self::Accepted(answer) => Ok(answer),
            Self::Declined => Err(NotAccepted::Declined),
            Self::Cancelled => Err(NotAccepted::Cancelled),
        }
    }

    pub(super) fn new(
        action: ElicitAction,
        answer: impl FnOnce() -> Result<T, String>,
    ) -> Result<Self, String> {
        match action {
            ElicitAction::Accept => answer().map(Self::Accepted),
            ElicitAction::Decline => Ok(Self::Declined),
            ElicitAction::Cancel => Ok(Self::Cancelled),
        }
    }
}
