//! Builder of a prompt, finished by a template or one of three kinds of function.

use std::sync::Arc;

use mcp_flow_proto::model::{Icon, PromptDefinition, PromptMessage};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::output::{self, PromptOutput, too_large};
use super::shape::Shape;
use super::template::Template;
use super::{Function, IntoPromptOutput, Prompt, PromptParameter};
use crate::context::Context;
use crate::handler::Reply;
use crate::tool::{argument_schema, is_valid_name};

/// Builds a prompt; finished by [`template`](Self::template), [`get`](Self::get),
/// [`quick`](Self::quick) or [`blocking`](Self::blocking).
#[derive(Debug)]
#[must_use]
pub struct PromptBuilder {
    definition: PromptDefinition,
    arguments: Vec<PromptParameter>,
}

impl PromptBuilder {
    pub(super) fn new(name: String) -> Self {
        let definition = PromptDefinition { name, ..PromptDefinition::default() };
        Self { definition, arguments: Vec::new() }
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

    /// Adds an icon: an image in an `https:` or `data:` URI.
    pub fn icon(mut self, icon: impl Into<Icon>) -> Self {
        self.definition.icons.push(icon.into());
        self
    }

    /// Adds a member of the listed `_meta`.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.meta.insert(name.into(), value.into());
        self
    }

    /// Adds an argument, or details of one derived from the type of the arguments.
    pub fn argument(mut self, argument: PromptParameter) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Finishes the prompt with a template of one user message. `{name}` stands for the argument of
    /// that name, `{{` and `}}` for braces.
    ///
    /// Values are not expanded again: braces in a value stay braces, and no value can begin another
    /// message.
    ///
    /// ```
    /// use mcp_flow_server::Prompt;
    /// use mcp_flow_server::prompt::PromptParameter;
    ///
    /// let prompt = Prompt::builder("analyze_data")
    ///     .description("Asks for an analysis of data")
    ///     .argument(PromptParameter::required("data").description("The data"))
    ///     .template("Analyze this data: {data}")
    ///     .unwrap();
    /// assert!(prompt.definition().arguments[0].required);
    ///
    /// let fault = Prompt::builder("broken").template("Analyze {data}").unwrap_err();
    /// assert!(fault.to_string().contains("{data} is not an argument"));
    /// ```
    pub fn template(self, template: &str) -> Result<Prompt, BadPrompt> {
        let shape = Shape::new(self.definition, self.arguments, None)?;
        let name = || shape.definition.name.clone();
        let template = Template::parse(template, |argument| shape.position(argument))
            .map_err(|reason| BadPrompt::Template { name: name(), reason })?;
        if let Some(position) = template.arguments().find(|position| shape.is_secret(*position)) {
            let argument = shape.definition.arguments[position].name.clone();
            return Err(BadPrompt::Secret { name: name(), argument });
        }
        let function: Box<Function> = Box::new(move |context, shape, texts| {
            let (size, limit) = (template.length(&texts), context.limits().result_bytes);
            if size > limit {
                return Ok(Reply::Ready(Err(too_large(size, limit))));
            }
            let output = PromptOutput::new([PromptMessage::user(template.fill(&texts))]);
            Ok(Reply::Ready(output.reply(context, shape.description())))
        });
        Ok(Prompt { shape: Arc::new(shape), function, forward: None })
    }

    /// Finishes the prompt with an async function. Its arguments are decoded into the type it
    /// takes, each from its text on the wire: numbers, enums and `Option` in plain notation, nested
    /// values as JSON.
    ///
    /// ```
    /// use mcp_flow_server::proto::model::PromptMessage;
    /// use mcp_flow_server::{Context, Prompt};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Quiz {
    ///     /// What it is about
    ///     topic: String,
    ///     /// How many questions
    ///     count: Option<u8>,
    /// }
    ///
    /// let prompt = Prompt::builder("quiz")
    ///     .get(async |_: Context, quiz: Quiz| {
    ///         let count = quiz.count.unwrap_or(5);
    ///         vec![
    ///             PromptMessage::user(format!("Ask me {count} questions about {}.", quiz.topic)),
    ///             PromptMessage::assistant("Ready? Here is the first one."),
    ///         ]
    ///     })
    ///     .unwrap();
    /// let arguments = &prompt.definition().arguments;
    /// assert!(arguments[0].required && !arguments[1].required);
    /// assert_eq!(arguments[1].description.as_deref(), Some("How many questions"));
    /// ```
    pub fn get<T, R, F, W>(self, function: F) -> Result<Prompt, BadPrompt>
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoPromptOutput,
        F: Fn(Context, T) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        self.finish::<T>(Box::new(move |context, shape, texts| {
            let (context, shape) = (context.clone(), shape.clone());
            let work = function(context.clone(), shape.decode(&texts)?);
            let secrets = shape.secrets(texts);
            Ok(Reply::Later(Box::pin(async move {
                let output = work.await.into_prompt_output();
                output::reply(&context, output, &secrets, shape.description())
            })))
        }))
    }

    /// Finishes the prompt with a function that returns immediately. It runs on the task that reads
    /// messages, so it must not block or compute for long.
    pub fn quick<T, R, F>(self, function: F) -> Result<Prompt, BadPrompt>
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoPromptOutput,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        self.finish::<T>(Box::new(move |context, shape, texts| {
            let output = function(context, shape.decode(&texts)?).into_prompt_output();
            let secrets = shape.secrets(texts);
            Ok(Reply::Ready(output::reply(context, output, &secrets, shape.description())))
        }))
    }

    /// Finishes the prompt with a blocking function, run on a blocking thread.
    pub fn blocking<T, R, F>(self, function: F) -> Result<Prompt, BadPrompt>
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoPromptOutput,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.finish::<T>(Box::new(move |context, shape, texts| {
            let (function, context, shape) = (function.clone(), context.clone(), shape.clone());
            let arguments = shape.decode(&texts)?;
            let secrets = shape.secrets(texts);
            Ok(Reply::Blocking(Box::new(move || {
                let output = function(&context, arguments).into_prompt_output();
                output::reply(&context, output, &secrets, shape.description())
            })))
        }))
    }

    fn finish<T: JsonSchema>(self, function: Box<Function>) -> Result<Prompt, BadPrompt> {
        let schema = argument_schema::<T>();
        let shape = Shape::new(self.definition, self.arguments, Some(schema))?;
        Ok(Prompt { shape: Arc::new(shape), function, forward: None })
    }
}

/// Checks that clients and templates can use a name.
pub(super) fn check_name(name: &str) -> Result<(), BadPrompt> {
    if is_valid_name(name) { Ok(()) } else { Err(BadPrompt::Name(name.to_owned())) }
}

/// Error in a prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPrompt {
    /// A name has characters that not every client accepts.
    #[error(
        "the name {0:?} of a prompt or argument must be 1 to 128 letters, digits, '_', '-' or '.'"
    )]
    Name(String),
    /// Two arguments have the same name.
    #[error("the prompt {name} has two arguments called {argument}; rename one of them")]
    Twice {
        /// The prompt.
        name: String,
        /// The argument.
        argument: String,
    },
    /// A template is invalid.
    #[error("the template of prompt {name} cannot be used: {reason}")]
    Template {
        /// The prompt.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A secret would be shown.
    #[error(
        "the argument {argument} of prompt {name} is secret, so no template can show it and \
         nothing can be suggested for it"
    )]
    Secret {
        /// The prompt.
        name: String,
        /// The argument.
        argument: String,
    },
    /// An icon has a URI that clients do not show.
    #[error("the icon {src:?} of prompt {name} must be an image in an https: or data: URI")]
    Icon {
        /// The prompt.
        name: String,
        /// The URI.
        src: String,
    },
    /// The type of the arguments has an invalid schema.
    #[error("the arguments of prompt {name} cannot be used: {reason}")]
    Schema {
        /// The prompt.
        name: String,
        /// The reason.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use crate::prompt::{Prompt, PromptParameter};

    /// MCP-082, PAT-045: invalid templates, and those that would show a secret, are rejected when
    /// built.
    #[test]
    fn invalid_prompts_are_rejected_when_built() {
        let one = || vec![PromptParameter::required("a")];
        let secret = || vec![PromptParameter::required("a").secret()];
        let suggested = || vec![PromptParameter::required("a").secret().complete_from(["x"])];
        for (name, arguments, template, expected) in [
            ("good", one(), "{a}", ""),
            ("bad name", one(), "", "letters, digits"),
            ("p", vec![PromptParameter::optional("")], "", "letters, digits"),
            (
                "p",
                vec![PromptParameter::optional("a"), PromptParameter::required("a")],
                "",
                "two arguments",
            ),
            ("p", one(), "{b}", "{b} is not an argument"),
            ("p", one(), "{a", "has no other"),
            ("p", secret(), "no {{a}} here", ""),
            ("p", secret(), "token {a}", "is secret"),
            ("p", suggested(), "", "is secret"),
        ] {
            let builder =
                arguments.into_iter().fold(Prompt::builder(name), super::PromptBuilder::argument);
            match builder.template(template) {
                Ok(prompt) => assert_eq!((&*prompt.definition().name, expected), (name, "")),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!expected.is_empty() && text.contains(expected), "{template}: {text}");
                }
            }
        }
    }
}
