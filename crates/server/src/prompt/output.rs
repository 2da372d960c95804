//! Output of prompts.

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::{PAYLOAD_TOO_LARGE, PROMPT_FAILED};
use mcp_flow_proto::model::{Content, GetPromptResult, MessageList, Meta, PromptMessage};
use std::borrow::Cow;

use crate::context::Context;
use crate::handler::Outcome;
use crate::output_filter::{each_text, strip};
use crate::revision::{add_server_info, result_type};
use crate::tool::{Failure, IntoFailure};

/// The messages of a prompt, independent of the revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptOutput {
    /// The description; that of the prompt itself if `None`.
    pub description: Option<String>,
    /// The messages.
    pub messages: Vec<PromptMessage>,
    /// Additional metadata.
    pub meta: Meta,
}

impl PromptOutput {
    /// Creates an output of these messages.
    pub fn new(messages: impl Into<Vec<PromptMessage>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// Sets another description than the prompt's own.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Encodes it in the form of the caller's revision.
    ///
    /// It contains arguments of the caller and is shown to people and models, so terminal escape
    /// sequences are removed (PAT-043).
    pub(super) fn reply(mut self, context: &Context, description: Option<&str>) -> Outcome {
        self.each_text(strip);
        let (server, revision) = (context.server(), context.revision());
        let mut meta = Cow::Borrowed(&self.meta);
        if revision.is_stateless() {
            add_server_info(meta.to_mut(), server.info_value().clone());
        }
        let payload = context.reply(&GetPromptResult {
            result_type: result_type(revision),
            description: self.description.as_deref().or(description),
            messages: MessageList { items: &self.messages, revision, form: server.content_form() },
            meta: Some(&*meta).filter(|meta| !meta.is_empty()),
        })?;
        let (size, limit) = (payload.bytes.len(), server.limits().result_bytes);
        if size <= limit { Ok(payload) } else { Err(too_large(size, limit)) }
    }

    /// Changes every text in it that people see.
    fn each_text(&mut self, mut change: impl FnMut(&mut String)) {
        self.description.iter_mut().for_each(&mut change);
        self.messages.iter_mut().for_each(|message| each_text(&mut message.content, &mut change));
    }
}

/// The error for a prompt that exceeds the result limit.
pub(super) fn too_large(size: usize, limit: usize) -> RpcError {
    tracing::warn!(size, limit, "a prompt exceeds the result limit");
    let details = format!(
        "The prompt is {size} bytes long and was not sent, because this server sends at most \
         {limit} bytes. Give shorter arguments."
    );
    RpcError::new(PAYLOAD_TOO_LARGE).message("Prompt too large").details(details)
}

/// Redacts secret values in a function's output, then encodes it.
pub(super) fn reply(
    context: &Context,
    output: Result<PromptOutput, Failure>,
    secrets: &[String],
    description: Option<&str>,
) -> Outcome {
    let mut hide = |text: &mut String| {
        for secret in secrets.iter().filter(|secret| text.contains(*secret)).collect::<Vec<_>>() {
            *text = text.replace(secret, HIDDEN);
        }
    };
    match output {
        Ok(mut output) => {
            if !secrets.is_empty() {
                output.each_text(hide);
            }
            output.reply(context, description)
        }
        Err(mut failure) => {
            failure.each_text(&mut hide);
            failure.each_text(&mut strip);
            Err(failure.into_error(PROMPT_FAILED))
        }
    }
}

/// Replacement for a secret.
const HIDDEN: &str = "[secret]";

/// Types that a prompt's function may return.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "no messages",
    note = "return text, `Content`, `PromptMessage`, `Vec<PromptMessage>` or `PromptOutput`",
    note = "return a failure as `Result<_, E>` where `E` is any error, or `Failure`"
)]
pub trait IntoPromptOutput {
    /// Converts it into messages, or a failure.
    fn into_prompt_output(self) -> Result<PromptOutput, Failure>;
}

impl IntoPromptOutput for PromptOutput {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        Ok(self)
    }
}

impl IntoPromptOutput for Vec<PromptMessage> {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        Ok(PromptOutput::new(self))
    }
}

impl<const N: usize> IntoPromptOutput for [PromptMessage; N] {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        Ok(PromptOutput::new(self))
    }
}

impl IntoPromptOutput for PromptMessage {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        Ok(PromptOutput::new([self]))
    }
}

/// One user message.
impl IntoPromptOutput for Content {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        PromptMessage::user(self).into_prompt_output()
    }
}

/// One user message.
impl IntoPromptOutput for String {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        PromptMessage::user(self).into_prompt_output()
    }
}

/// One user message.
impl IntoPromptOutput for &str {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        PromptMessage::user(self).into_prompt_output()
    }
}

/// A failure is an error: no prompt result can express it.
impl<T: IntoPromptOutput, E: IntoFailure> IntoPromptOutput for Result<T, E> {
    fn into_prompt_output(self) -> Result<PromptOutput, Failure> {
        self.map_err(IntoFailure::into_failure)?.into_prompt_output()
    }
}
