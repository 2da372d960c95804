//! Parameters of prompts: their definition, and the completion of their values.

use mcp_flow_proto::model::PromptArgument;

use crate::completion::{Completer, Completion, ResolvedArguments};
use crate::context::Context;

/// A parameter of a prompt, as authors declare it. Clients see its definition, a `PromptArgument`.
///
/// ```
/// use mcp_flow_server::prompt::PromptParameter;
///
/// let language = PromptParameter::optional("language")
///     .description("What it is written in")
///     .complete_from(["python", "rust"]);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PromptParameter {
    pub(super) definition: PromptArgument,
    pub(super) completer: Option<Completer>,
    pub(super) secret: bool,
}

impl PromptParameter {
    /// A required argument.
    pub fn required(name: impl Into<String>) -> Self {
        Self::new(name.into(), true)
    }

    /// An optional argument.
    pub fn optional(name: impl Into<String>) -> Self {
        Self::new(name.into(), false)
    }

    fn new(name: String, required: bool) -> Self {
        let definition = PromptArgument { name, required, ..PromptArgument::default() };
        Self { definition, completer: None, secret: false }
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Marks a value that no message may show, such as a password (PAT-045).
    ///
    /// A template that would show it is rejected when it is built. In the output of a function it
    /// is redacted.
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Sets a list of completions. Other values are allowed too.
    pub fn complete_from<T: Into<String>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.completer = Some(Completer::list(values));
        self
    }

    /// Sets a function that completes values from the text typed so far and the arguments already
    /// given. It may block.
    ///
    /// ```
    /// use mcp_flow_server::prompt::PromptParameter;
    ///
    /// let framework = PromptParameter::optional("framework").complete(|_, partial, resolved| {
    ///     let known = match resolved.get("language") {
    ///         Some("python") => vec!["django", "flask"],
    ///         _ => vec!["axum"],
    ///     };
    ///     known.into_iter().filter(|name| name.starts_with(partial)).collect::<Vec<_>>()
    /// });
    /// ```
    pub fn complete<R: Into<Completion>>(
        mut self,
        function: impl Fn(&Context, &str, &ResolvedArguments) -> R + Send + Sync + 'static,
    ) -> Self {
        self.completer = Some(Completer::function(function));
        self
    }
}
