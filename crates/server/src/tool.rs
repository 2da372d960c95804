//! Tools: what they are made of and how they are called.

pub(crate) mod output;
pub(crate) mod registry;
pub(crate) mod schema;

use std::fmt;

use mcp_flow_proto::model::{Meta, ToolAnnotations, ToolDefinition};
use mcp_flow_proto::{Raw, RpcError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::Context;
use crate::handler::Reply;
use schema::{ArgumentFault, Schema};

pub use output::{IntoToolOutput, ToolOutput};
pub use registry::RegisterError;
pub use schema::Violation;

/// A tool: its definition, the compiled schema of its arguments, and the function behind it.
pub struct Tool {
    definition: ToolDefinition,
    schema: Schema,
    function: Box<Function>,
}

/// Decodes checked arguments and starts the work.
type Function = dyn Fn(&Context, Raw<'_>) -> Result<Reply, Violation> + Send + Sync;

impl Tool {
    /// Begins a tool; its arguments are any object until a schema is given.
    ///
    /// ```
    /// use mcp_flow_server::{Context, Tool};
    /// use serde_json::{Value, json};
    ///
    /// let tool = Tool::builder("greet")
    ///     .description("Greets someone by name")
    ///     .input_schema(json!({
    ///         "type": "object",
    ///         "properties": {"name": {"type": "string"}},
    ///         "required": ["name"]
    ///     }))
    ///     .handler(async |_context: Context, arguments: Value| {
    ///         format!("Hello, {}!", arguments["name"].as_str().unwrap_or_default())
    ///     })
    ///     .unwrap();
    /// assert_eq!(tool.definition().name, "greet");
    /// ```
    pub fn builder(name: impl Into<String>) -> ToolBuilder {
        let definition = ToolDefinition { name: name.into(), ..ToolDefinition::default() };
        ToolBuilder { definition, input_schema: json!({"type": "object"}), output_schema: None }
    }

    /// How the tool is listed.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Checks the arguments and calls the tool. A fault in them is told the way the caller's
    /// revision tells it (C-31).
    pub(crate) fn call(&self, context: &Context, arguments: Raw<'_>) -> Reply {
        let violations = match self.schema.check(arguments) {
            Ok(()) => match (self.function)(context, arguments) {
                Ok(reply) => return reply,
                Err(violation) => vec![violation],
            },
            Err(ArgumentFault::Violations(violations)) => violations,
            Err(ArgumentFault::Unreadable(error)) => {
                let details = format!("the arguments cannot be read: {error}");
                return Reply::Ready(Err(RpcError::invalid_params(details)));
            }
        };
        Reply::Ready(refuse_arguments(context, &violations))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

fn refuse_arguments(context: &Context, violations: &[Violation]) -> crate::handler::Outcome {
    let details: Vec<_> = violations.iter().map(|violation| violation.sentence.as_str()).collect();
    let list: Vec<_> = violations.iter().map(Violation::to_value).collect();
    let error = RpcError::invalid_params(details.join("; ")).with("violations", list);
    if !context.revision().features().argument_faults_as_results {
        return Err(error);
    }
    let wire = serde_json::to_value(error.wire(context.revision())).unwrap_or_default();
    let mut output = ToolOutput::failure(wire.to_string());
    output.meta.insert("error".to_owned(), wire);
    context.reply_output(&output)
}

/// A tool being described.
#[derive(Debug)]
#[must_use]
pub struct ToolBuilder {
    definition: ToolDefinition,
    input_schema: Value,
    output_schema: Option<Value>,
}

impl ToolBuilder {
    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// What the tool does, for a model to choose by.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// JSON Schema 2020-12 of the arguments; its type must be `object`.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self
    }

    /// JSON Schema 2020-12 of the structured output.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Hints on what the tool does to the world.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Anything else that is listed with it.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.definition.meta = meta;
        self
    }

    /// Finishes the tool with an async function.
    pub fn handler<T, R, F, W>(self, function: F) -> Result<Tool, BadTool>
    where
        T: DeserializeOwned + Send + 'static,
        R: IntoToolOutput,
        F: Fn(Context, T) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        self.finish(Box::new(move |context, arguments| {
            let context = context.clone();
            let work = function(context.clone(), decode(arguments)?);
            Ok(Reply::Later(Box::pin(async move { work.await.reply(&context) })))
        }))
    }

    /// Finishes the tool with a function that returns at once. It runs where messages are read,
    /// so it must not block or compute for long.
    pub fn quick<T, R, F>(self, function: F) -> Result<Tool, BadTool>
    where
        T: DeserializeOwned + Send + 'static,
        R: IntoToolOutput,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        self.finish(Box::new(move |context, arguments| {
            Ok(Reply::Ready(function(context, decode(arguments)?).reply(context)))
        }))
    }

    /// Finishes the tool with a function that may block; it runs on a thread for such.
    pub fn blocking<T, R, F>(self, function: F) -> Result<Tool, BadTool>
    where
        T: DeserializeOwned + Send + 'static,
        R: IntoToolOutput,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        let function = std::sync::Arc::new(function);
        self.finish(Box::new(move |context, arguments| {
            let (function, context) = (function.clone(), context.clone());
            let arguments = decode(arguments)?;
            Ok(Reply::Blocking(Box::new(move || function(&context, arguments).reply(&context))))
        }))
    }

    fn finish(mut self, function: Box<Function>) -> Result<Tool, BadTool> {
        let name = &self.definition.name;
        if !is_good_name(name) {
            return Err(BadTool::Name(name.clone()));
        }
        let bad_schema = |which| {
            let name = name.clone();
            move |reason| BadTool::Schema { name, which, reason }
        };
        let schema = Schema::compile(&self.input_schema).map_err(bad_schema("input"))?;
        if let Some(output) = &self.output_schema {
            Schema::compile(output).map_err(bad_schema("output"))?;
        }
        let Value::Object(input) = self.input_schema else {
            return Err(bad_schema("input")("it must be an object".to_owned()));
        };
        if input.get("type") != Some(&Value::from("object")) {
            return Err(bad_schema("input")("its type must be \"object\"".to_owned()));
        }
        self.definition.input_schema = input;
        self.definition.output_schema = match self.output_schema {
            Some(Value::Object(schema)) => Some(schema),
            _ => None,
        };
        Ok(Tool { definition: self.definition, schema, function })
    }
}

fn decode<T: DeserializeOwned>(arguments: Raw<'_>) -> Result<T, Violation> {
    arguments.decode().map_err(|error| Violation::whole(error.to_string()))
}

/// The characters the newest revision allows, and its length.
fn is_good_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=128).contains(&name.len()) && name.bytes().all(allowed)
}

/// Why a tool cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTool {
    /// The name has characters that not every client takes.
    #[error("the tool name {0:?} must be 1 to 128 letters, digits, '_', '-' or '.'")]
    Name(String),
    /// A schema cannot be used.
    #[error("the {which} schema of tool {name} cannot be used: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// `input` or `output`.
        which: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::Tool;
    use crate::context::Context;
    use serde_json::{Value, json};

    #[test]
    fn what_no_client_could_use_is_refused_when_it_is_built() {
        check("good.name-1_x", json!({"type": "object"}), "");
        check("", json!({"type": "object"}), "letters, digits");
        check("bad name", json!({"type": "object"}), "letters, digits");
        check("a", json!({"type": "string"}), "must be \"object\"");
        check("a", json!(true), "must be an object");
        check("a", json!({"type": "object", "properties": 7}), "input schema of tool a");
        check("a", json!({"type": "object", "$ref": "https://example.com/x"}), "input schema");
        check(
            "a",
            json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}),
            "input schema",
        );
    }

    fn check(name: &str, schema: Value, expected: &str) {
        let tool = Tool::builder(name)
            .input_schema(schema)
            .quick(|_: &Context, _: Value| "")
            .map(|tool| tool.definition().name.clone());
        match tool {
            Ok(built) => assert_eq!((built.as_str(), expected), (name, "")),
            Err(error) => {
                let text = error.to_string();
                assert!(!expected.is_empty() && text.contains(expected), "{name}: {text}");
            }
        }
    }
}
