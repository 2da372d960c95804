//! Prompts that another server defines and renders.

use std::sync::Arc;

use mcp_flow_proto::model::PromptDefinition;
use mcp_flow_proto::{Raw, RpcError};

use super::builder::{BadPrompt, check_name};
use super::shape::Shape;
use super::{Function, Prompt, PromptOutput};
use crate::context::Context;
use crate::handler::{Outcome, Reply};

/// Forwards requests for a prompt to the server that defines it.
pub trait ForwardPrompt: Send + Sync + 'static {
    /// Gets the prompt. The arguments are an object, and are not validated.
    fn get(&self, context: &Context, arguments: Raw<'_>) -> Reply;

    /// Completes the value of an argument, given those of others.
    fn complete(&self, context: &Context, argument: &str, value: &str, others: Raw<'_>) -> Reply;
}

impl PromptOutput {
    /// Encodes the output as the outcome of `prompts/get`, in the form of the caller's revision.
    pub fn reply_to(self, context: &Context) -> Outcome {
        self.reply(context, None)
    }
}

impl Prompt {
    /// Creates a prompt that another server defines. Its definition is listed as it is.
    pub fn forwarded(
        definition: PromptDefinition,
        forward: impl ForwardPrompt,
    ) -> Result<Self, BadPrompt> {
        check_name(&definition.name)?;
        let function: Box<Function> =
            Box::new(|_, _, _| Ok(Reply::Ready(Err(RpcError::internal()))));
        let shape = Arc::new(Shape::described(definition));
        Ok(Self { shape, function, forward: Some(Box::new(forward)) })
    }
}
