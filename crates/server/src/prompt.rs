//! Prompts: definition, arguments, messages.

mod builder;
pub(crate) mod catalog;
mod collection;
mod forwarded;
mod output;
mod parameter;
mod server;
mod shape;
mod template;
pub(crate) mod texts;

use std::fmt;
use std::sync::Arc;

use mcp_flow_proto::model::PromptDefinition;
use mcp_flow_proto::{Raw, RpcError};
use mcp_flow_schema::CheckError;

use crate::completion::{ResolvedArguments, no_completions, unknown_argument};
use crate::context::Context;
use crate::handler::Reply;
use crate::tool::arguments::violations_error;
use shape::Shape;

pub use builder::{BadPrompt, PromptBuilder};
pub use collection::IntoPrompts;
pub use forwarded::ForwardPrompt;
pub use output::{IntoPromptOutput, PromptOutput};
pub use parameter::PromptParameter;
pub use server::AddPromptsError;

/// A prompt: a template of messages for a model, chosen and filled in by a person.
pub struct Prompt {
    shape: Arc<Shape>,
    function: Box<Function>,
    forward: Option<Box<dyn ForwardPrompt>>,
}

/// Makes messages from texts, one for each argument.
type Function =
    dyn Fn(&Context, &Arc<Shape>, Vec<Option<String>>) -> Result<Reply, CheckError> + Send + Sync;

impl Prompt {
    /// Starts building a prompt.
    ///
    /// ```
    /// use mcp_flow_server::Prompt;
    /// use mcp_flow_server::prompt::PromptParameter;
    ///
    /// let prompt = Prompt::builder("greet")
    ///     .argument(PromptParameter::required("name"))
    ///     .template("Greet {name} the way a pirate would.")
    ///     .unwrap();
    /// assert_eq!(prompt.definition().name, "greet");
    /// ```
    pub fn builder(name: impl Into<String>) -> PromptBuilder {
        PromptBuilder::new(name.into())
    }

    /// The definition that is listed.
    pub fn definition(&self) -> &PromptDefinition {
        &self.shape.definition
    }

    /// Returns whether any of its arguments has completions.
    pub(crate) fn has_completions(&self) -> bool {
        self.forward.is_some() || self.shape.has_completions()
    }

    /// Checks the arguments and makes the messages. A violation is an error in every revision: no
    /// prompt result can express it.
    pub(crate) fn get(&self, context: &Context, arguments: Raw<'_>) -> Reply {
        if let Some(forward) = &self.forward {
            return forward.get(context, arguments);
        }
        let texts = self.shape.read(arguments).map_err(CheckError::Violations);
        let reply = texts.and_then(|texts| (self.function)(context, &self.shape, texts));
        reply.unwrap_or_else(|fault| {
            Reply::Ready(Err(match fault {
                CheckError::Violations(violations) => violations_error(&violations),
                CheckError::Unreadable(error) => {
                    RpcError::invalid_params(format!("the arguments cannot be decoded: {error}"))
                }
            }))
        })
    }

    /// Completes an argument.
    pub(crate) fn complete(
        &self,
        context: &Context,
        argument: &str,
        partial: &str,
        resolved: Raw<'_>,
    ) -> Reply {
        if let Some(forward) = &self.forward {
            return forward.complete(context, argument, partial, resolved);
        }
        let names = self.shape.names();
        let Some(position) = self.shape.position(argument) else {
            return Reply::Ready(Err(unknown_argument(argument, &names)));
        };
        let Some(completer) = self.shape.completer(position) else {
            return no_completions(context);
        };
        match ResolvedArguments::read(resolved, &names) {
            Ok(resolved) => completer.reply(context, partial, resolved),
            Err(error) => Reply::Ready(Err(error)),
        }
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let definition = self.definition();
        formatter.debug_struct("Prompt").field("definition", definition).finish_non_exhaustive()
    }
}
