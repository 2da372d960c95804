//! Output of tools.

use std::borrow::Cow;

use mcp_flow_proto::model::{Content, Meta};
use serde_json::Value;

use super::IntoFailure;

use crate::bulk::Bulk;
use crate::context::Context;
use crate::handler::{Outcome, Reply};

/// A tool's result, independent of the revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Content for a person or a model.
    pub content: Vec<Content>,
    /// Structured output for programs.
    pub structured: Option<Value>,
    /// Set if the tool failed.
    pub is_error: bool,
    /// Additional metadata.
    pub meta: Meta,
}

impl ToolOutput {
    /// Creates an output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::content([Content::text(text)])
    }

    /// Creates an output of any content.
    pub fn content(content: impl Into<Vec<Content>>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Adds an item of content.
    #[must_use]
    pub fn with(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// Creates an output of structured data, with the same as JSON text.
    pub fn structured(value: Value) -> Self {
        let text = value.to_string();
        Self { structured: Some(value), ..Self::text(text) }
    }

    /// Creates a failed output with this message.
    pub fn failure(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(message) }
    }
}

/// Types that a tool's function may return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "no result of a tool",
    note = "return text, a number, `bool`, `()`, `Content`, `Vec<Content>`, `Bulk` or `ToolOutput`",
    note = "return a type of your own by marking it with `#[data]`, any other as `Structured<T>`",
    note = "return a failure as `Result<_, E>` where `E` is any error, or `Failure`"
)]
pub trait IntoToolOutput: Sized {
    /// Converts it into a result.
    fn into_tool_output(self) -> ToolOutput;

    /// The JSON Schema of the structured output, if it has one.
    fn output_schema() -> Option<Value> {
        None
    }

    /// Encodes it as the outcome of a call. Plain text skips the conversion to an output.
    fn reply(self, context: &Context) -> Outcome {
        context.reply_output(&self.into_tool_output())
    }

    /// Replies with it, later if it has to be read first.
    fn into_reply(self, context: &Context) -> Reply {
        Reply::Ready(self.reply(context))
    }
}

/// A payload of any size is delivered as the connection can; see [`Context::deliver`].
impl IntoToolOutput for Bulk {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::failure(format!(
            "{} can only be delivered as the result of a call.",
            self.name()
        ))
    }

    fn into_reply(self, context: &Context) -> Reply {
        let context = context.clone();
        Reply::Later(Box::pin(async move {
            let delivered = context.deliver(self).await;
            context.reply_output(&delivered.into_tool_output())
        }))
    }
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> ToolOutput {
        self
    }
}

impl IntoToolOutput for Content {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::content([self])
    }
}

impl IntoToolOutput for Vec<Content> {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::content(self)
    }
}

impl<const N: usize> IntoToolOutput for [Content; N] {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::content(self)
    }
}

impl IntoToolOutput for Value {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::structured(self)
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }

    fn reply(self, context: &Context) -> Outcome {
        context.reply_text(self)
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for Cow<'_, str> {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for () {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::default()
    }
}

impl IntoToolOutput for f32 {
    fn into_tool_output(self) -> ToolOutput {
        // By way of its own digits, which are fewer than those of the same number as an f64.
        self.to_string().parse::<f64>().unwrap_or(f64::NAN).into_tool_output()
    }
}

impl IntoToolOutput for f64 {
    /// Whole numbers are written without a decimal point; non-finite numbers are failures.
    fn into_tool_output(self) -> ToolOutput {
        match finite_text(self) {
            Some(text) => ToolOutput::text(text),
            None => ToolOutput::failure(format!("The result is not a finite number ({self}).")),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match finite_text(self) {
            Some(text) => context.reply_text(text),
            None => context.reply_output(&self.into_tool_output()),
        }
    }
}

fn finite_text(number: f64) -> Option<String> {
    // Most results are small whole numbers, which integers format several times faster.
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53 fits")]
    if number.fract() == 0.0 && number.abs() < 9.0e15 {
        return Some(itoa::Buffer::new().format(number as i64).to_owned());
    }
    number.is_finite().then(|| number.to_string())
}

macro_rules! whole_numbers {
    ($($number:ty)*) => {$(
        impl IntoToolOutput for $number {
            fn into_tool_output(self) -> ToolOutput {
                ToolOutput::text(self.to_string())
            }
        }
    )*};
}

whole_numbers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize bool);

/// A failure is a result like any other: the caller reads it and can act on it (MCP-028).
impl<T: IntoToolOutput, E: IntoFailure> IntoToolOutput for Result<T, E> {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Ok(value) => value.into_tool_output(),
            Err(error) => error.into_failed_output(),
        }
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Ok(value) => value.reply(context),
            Err(error) => context.reply_output(&error.into_failed_output()),
        }
    }

    fn into_reply(self, context: &Context) -> Reply {
        match self {
            Ok(value) => value.into_reply(context),
            Err(error) => Reply::Ready(context.reply_output(&error.into_failed_output())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IntoToolOutput, ToolOutput};

    #[test]
    fn numbers_are_written_without_needless_digits() {
        for (number, text) in [
            (5.0, "5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.0, "0"),
            (1e21, "1000000000000000000000"),
        ] {
            assert_eq!(number.into_tool_output(), ToolOutput::text(text));
        }
        assert!(f64::NAN.into_tool_output().is_error);
        assert!(f64::INFINITY.into_tool_output().is_error);
    }

    /// MCP-028, PAT-032: an error of the tool's own is a failed result.
    #[test]
    fn a_failure_is_a_result() {
        let failed: Result<i64, &str> = Err("no luck");
        assert_eq!(failed.into_tool_output(), ToolOutput::failure("no luck"));
    }
}
