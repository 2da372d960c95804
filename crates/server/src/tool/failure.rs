//! Failures of tools, for people and for programs.

use std::fmt;

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::RpcErrorKind;
use serde_json::{Map, Value, json};

use super::ToolOutput;

/// A tool's failure: a name to branch on, a message to read, and further data.
///
/// The message is the text of the result; the rest is in `_meta.error`. Any `std::error::Error`
/// converts into a failure by `?`, with its causes.
///
/// ```
/// use mcp_flow_server::tool::Failure;
///
/// fn divide(a: f64, b: f64) -> Result<f64, Failure> {
///     if b == 0.0 {
///         return Err(Failure::new("DIVISION_BY_ZERO", "Cannot divide by zero.").with("a", a));
///     }
///     Ok(a / b)
/// }
///
/// fn parse(text: &str) -> Result<f64, Failure> {
///     Ok(text.parse::<f64>()?)
/// }
/// # assert!(divide(1.0, 0.0).is_err() && parse("x").is_err());
/// ```
// Not a `std::error::Error`, so that every such error can convert into this type by `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    name: String,
    message: String,
    data: Map<String, Value>,
}

impl Failure {
    /// Creates a failure with a name in capitals and a message that says what to do about it.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), data: Map::new() }
    }

    /// Adds a member of data.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.data.insert(name.into(), value.into());
        self
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The failure as an error, where results cannot express it.
    pub fn into_error(self, fault: RpcErrorKind) -> RpcError {
        let error = RpcError::new(fault).message(self.message).with("reason", self.name);
        self.data.into_iter().fold(error, |error, (name, value)| error.with(&name, value))
    }

    /// Changes every text in it.
    pub(crate) fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        change(&mut self.message);
        self.data.values_mut().for_each(|value| each_text(value, change));
    }

    /// The failure as a tool result.
    pub fn into_output(self) -> ToolOutput {
        let mut data = self.data;
        data.insert("domain".to_owned(), "mcp".into());
        data.insert("name".to_owned(), self.name.into());
        let mut output = ToolOutput::failure(self.message.as_str());
        output.meta.insert("error".to_owned(), json!({"message": self.message, "data": data}));
        output
    }
}

fn each_text(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(members) => members.values_mut().for_each(|one| each_text(one, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors include their cause already.
            if !message.ends_with(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self::new("FAILED", message)
    }
}

/// Errors that tools and prompts may fail with: anything that implements `Display`, or a
/// [`Failure`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say what failed",
    note = "use an error that implements `Display`, such as `String`, or `mcp_flow::Failure`"
)]
pub trait IntoFailure {
    /// The failure, with a name and a message.
    fn into_failure(self) -> Failure;

    /// The failure as a tool result.
    fn into_failed_output(self) -> ToolOutput;
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        self
    }

    fn into_failed_output(self) -> ToolOutput {
        self.into_output()
    }
}

impl<E: fmt::Display> IntoFailure for E {
    fn into_failure(self) -> Failure {
        // The alternate form of some errors includes their causes.
        Failure::new("FAILED", format!("{self:#}"))
    }

    fn into_failed_output(self) -> ToolOutput {
        ToolOutput::failure(self.into_failure().message)
    }
}
