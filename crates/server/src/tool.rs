//! Tools: definition, argument check, call.
//!
//! A [`Tool`] checks arguments against its schema before its function sees them. `methods::tools` finds the
//! tool of a call and checks the permission; `tool::output` makes the result.

pub(crate) mod answer;
pub(crate) mod arguments;
mod builder;
mod collection;
mod derived;
pub(crate) mod direct;
mod failure;
mod forwarded;
mod header_argument;
mod output;
pub(crate) mod registry;
mod server;
mod structured;

use std::fmt;

use mcp_flow_proto::model::ToolDefinition;
use mcp_flow_proto::{DecodeError, Raw, RpcError};
use mcp_flow_schema::{CheckError, Schema};
use serde_json::Value;

use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::permissions::PermissionKind;
use arguments::violations_error;

pub use builder::{BadTool, ToolBuilder};
pub(crate) use builder::{is_app_uri, is_valid_name};
pub use collection::{IntoTools, ToolCollection};
pub use derived::{Argument, argument_schema, result_schema, without_null};
#[doc(hidden)]
pub use derived::{MayBeObject, NotAnObject, Shape, check_argument, is_one_value};
pub use failure::{Failure, IntoFailure};
pub use header_argument::HeaderArgument;
pub use mcp_flow_schema::Violation;
pub use output::{IntoToolOutput, ToolOutput};
pub use registry::{RegisterError, ToolNames};
pub use server::AddToolsError;
pub use structured::Structured;

/// A tool: its definition, the compiled schema of its arguments, and the function behind it.
pub struct Tool {
    definition: ToolDefinition,
    schema: Schema,
    output_schema: Option<Schema>,
    header_arguments: Vec<HeaderArgument>,
    kind: PermissionKind,
    function: Box<Function>,
}

/// Decodes checked arguments and starts the work.
type Function = dyn Fn(&Context, Raw<'_>) -> Result<Reply, CheckError> + Send + Sync;

impl Tool {
    /// Starts building a tool; its arguments are any object until a schema is given.
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
        ToolBuilder::new(name.into())
    }

    /// The definition that is listed.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// The kind of permission needed to call it.
    pub fn kind(&self) -> PermissionKind {
        self.kind
    }

    /// The URI of the app that shows its results, if there is one.
    pub fn app(&self) -> Option<&str> {
        builder::app_of(&self.definition)
    }

    /// Returns whether the definition has metadata of the apps extension.
    pub(crate) fn has_app_metadata(&self) -> bool {
        self.definition.meta.contains_key("ui")
    }

    /// The arguments that clients mirror in HTTP headers.
    pub fn header_arguments(&self) -> &[HeaderArgument] {
        &self.header_arguments
    }

    /// Checks arguments against the tool's schema without calling it.
    pub fn check(&self, arguments: Raw<'_>) -> Result<(), Vec<Violation>> {
        self.schema.check(arguments).map_err(|fault| match fault {
            CheckError::Violations(violations) => violations,
            CheckError::Unreadable(error) => {
                let sentence = unreadable(&error);
                vec![Violation { pointer: String::new(), sentence }]
            }
        })
    }

    /// Checks the arguments and calls the tool. Violations are reported the way the caller's
    /// revision expects (C-31).
    pub(crate) fn call(&self, context: &Context, arguments: Raw<'_>) -> Reply {
        let checked = self.schema.check(arguments);
        match checked.and_then(|()| (self.function)(context, arguments)) {
            Ok(reply) => reply,
            Err(CheckError::Violations(violations)) => {
                Reply::Ready(reject_arguments(context, &violations))
            }
            Err(CheckError::Unreadable(error)) => {
                Reply::Ready(Err(RpcError::invalid_params(unreadable(&error))))
            }
        }
    }

    /// Returns whether a result conforms to the output schema.
    pub(crate) fn may_return(&self, result: &Value) -> bool {
        self.output_schema.as_ref().is_none_or(|schema| schema.accepts(result))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

fn unreadable(error: &DecodeError) -> String {
    format!("the arguments cannot be decoded: {error}")
}

/// Rejects the arguments of a call, the way the caller's revision expects (C-31). For tools that
/// check more than a schema expresses.
pub fn reject_arguments(context: &Context, violations: &[Violation]) -> Outcome {
    let error = violations_error(violations);
    if context.is_direct() || !context.revision().features().argument_faults_as_results {
        return Err(error);
    }
    let wire = serde_json::to_value(error.wire(context.revision())).unwrap_or_default();
    let mut output = ToolOutput::failure(wire.to_string());
    output.meta.insert("error".to_owned(), wire);
    context.reply_output(&output)
}
