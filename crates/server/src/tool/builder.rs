//! Builder of a tool, finished by one of three kinds of function.

use std::sync::Arc;

use mcp_flow_proto::Raw;
use mcp_flow_proto::model::{Icon, ToolAnnotations, ToolDefinition, Visibility};
use mcp_flow_schema::Schema;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::arguments::decode;
use super::derived::{argument_schema, without_null};
use super::{Function, IntoToolOutput, Tool, header_argument};
use crate::context::Context;
use crate::handler::Reply;
use crate::permissions::PermissionKind;

/// Builds a tool; finished by [`handler`](Self::handler), [`quick`](Self::quick) or
/// [`blocking`](Self::blocking).
#[derive(Debug)]
#[must_use]
pub struct ToolBuilder {
    definition: ToolDefinition,
    input_schema: Value,
    /// The listed input schema, if it differs from the one checked.
    listed_schema: Option<Value>,
    output_schema: Option<Value>,
    /// The listed output schema, if it differs from the one checked.
    listed_output: Option<Map<String, Value>>,
    kind: PermissionKind,
}

impl ToolBuilder {
    pub(super) fn new(name: String) -> Self {
        let definition = ToolDefinition { name, ..ToolDefinition::default() };
        let input_schema = json!({"type": "object"});
        Self {
            definition,
            input_schema,
            listed_schema: None,
            output_schema: None,
            listed_output: None,
            kind: PermissionKind::Tool,
        }
    }

    /// Sets the kind of permission needed to call it, by its name. Defaults to [`PermissionKind::Tool`].
    pub fn granted_as(mut self, kind: PermissionKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description that a model chooses by.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Sets the JSON Schema 2020-12 of the arguments; its type must be `object`.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self.listed_schema = None;
        self
    }

    /// Derives the schema of the arguments from the type they are decoded into.
    pub fn arguments<T: JsonSchema>(self) -> Self {
        self.derived_schema(argument_schema::<T>())
    }

    /// Like [`input_schema`](Self::input_schema), for a schema derived from a type: optional
    /// members may also be null, which is not listed, because some hosts reject two types.
    pub fn derived_schema(self, schema: Value) -> Self {
        let listed = without_null(schema.clone());
        Self { listed_schema: Some(listed), ..self.input_schema(schema) }
    }

    /// Sets the JSON Schema 2020-12 of the structured output. Result types with their own schema,
    /// such as [`Structured`](super::Structured), do not need it.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Lists another output schema than the one results are checked against, for example a
    /// reference.
    pub fn listed_output_schema(mut self, schema: Map<String, Value>) -> Self {
        self.listed_output = Some(schema);
        self
    }

    /// Sets hints on the tool's effects.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds an icon: an image in an `https:` or `data:` URI.
    pub fn icon(mut self, icon: impl Into<Icon>) -> Self {
        self.definition.icons.push(icon.into());
        self
    }

    /// Shows the tool's results in an app: the `ui://` resource with this URI, which is an
    /// [`App`](crate::App) of the same server.
    ///
    /// Clients without support for apps use the tool as any other, so its result must be complete
    /// without the app.
    pub fn ui(mut self, uri: impl Into<String>) -> Self {
        self.ui_members().insert("resourceUri".to_owned(), Value::String(uri.into()));
        self
    }

    /// Restricts who may call the tool: the model, apps of this server, or both, which is the
    /// default. Clients without support for apps do not see a tool for apps alone. It is a rule for
    /// hosts, and no protection from a hostile client.
    pub fn visible_to(mut self, callers: impl IntoIterator<Item = Visibility>) -> Self {
        let callers: Vec<_> = callers.into_iter().map(|one| json!(one)).collect();
        self.ui_members().insert("visibility".to_owned(), callers.into());
        self
    }

    fn ui_members(&mut self) -> &mut Map<String, Value> {
        let ui = self.definition.meta.entry("ui").or_insert_with(|| json!({}));
        if !ui.is_object() {
            *ui = json!({});
        }
        ui.as_object_mut().expect("it is an object")
    }

    /// Adds a category, by which clients can sort and filter. A tool may have several.
    pub fn category(mut self, category: impl Into<Value>) -> Self {
        let list = self.definition.meta.entry(CATEGORIES).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(category.into());
        }
        self
    }

    /// Adds a member of the listed `_meta`.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.meta.insert(name.into(), value.into());
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
        self.finish::<R>(Box::new(move |context, arguments| {
            let context = context.clone();
            let work = function(context.clone(), decode(arguments)?);
            Ok(Reply::Later(Box::pin(async move {
                let reply = work.await.into_reply(&context);
                reply.outcome().await
            })))
        }))
    }

    /// Finishes the tool with a function that returns immediately. It runs on the task that reads
    /// messages, so it must not block or compute for long.
    pub fn quick<T, R, F>(self, function: F) -> Result<Tool, BadTool>
    where
        T: DeserializeOwned + Send + 'static,
        R: IntoToolOutput,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        self.finish::<R>(Box::new(move |context, arguments| {
            Ok(function(context, decode(arguments)?).into_reply(context))
        }))
    }

    /// Finishes the tool with a blocking function, run on a blocking thread.
    pub fn blocking<T, R, F>(self, function: F) -> Result<Tool, BadTool>
    where
        T: DeserializeOwned + Send + 'static,
        R: IntoToolOutput,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.finish::<R>(Box::new(move |context, arguments| {
            let (function, context) = (function.clone(), context.clone());
            let arguments = decode(arguments)?;
            Ok(Reply::Blocking(Box::new(move || {
                function(&context, arguments).into_reply(&context).wait()
            })))
        }))
    }

    fn finish<R: IntoToolOutput>(mut self, function: Box<Function>) -> Result<Tool, BadTool> {
        self.output_schema = self.output_schema.or_else(R::output_schema);
        let name = &self.definition.name;
        if !is_valid_name(name) {
            return Err(BadTool::Name(name.clone()));
        }
        if let Some(icon) = self.definition.icons.iter().find(|icon| !icon.is_displayable()) {
            return Err(BadTool::Icon { name: name.clone(), src: icon.src.clone() });
        }
        if let Some(uri) = app_of(&self.definition).filter(|uri| !is_app_uri(uri)) {
            return Err(BadTool::App { name: name.clone(), uri: uri.to_owned() });
        }
        let bad_schema = |which| {
            let name = name.clone();
            move |reason| BadTool::Schema { name, which, reason }
        };
        let schema = Schema::compile(&self.input_schema).map_err(bad_schema("input"))?;
        let output_schema = self.output_schema.as_ref().map(Schema::compile);
        let output_schema = output_schema.transpose().map_err(bad_schema("output"))?;
        check_defaults(&self.input_schema).map_err(bad_schema("input"))?;
        let Value::Object(input) = self.listed_schema.unwrap_or(self.input_schema) else {
            return Err(bad_schema("input")("it must be an object".to_owned()));
        };
        if input.get("type") != Some(&Value::from("object")) {
            return Err(bad_schema("input")("its type must be \"object\"".to_owned()));
        }
        let output = match self.output_schema {
            None => None,
            Some(Value::Object(output)) => Some(output),
            Some(_) => return Err(bad_schema("output")("it must be an object".to_owned())),
        };
        let header_arguments = header_argument::find(&input);
        self.definition.input_schema = input;
        self.definition.output_schema = self.listed_output.or(output);
        let (definition, kind) = (self.definition, self.kind);
        Ok(Tool { definition, schema, output_schema, header_arguments, kind, function })
    }
}

/// Checks that every default conforms to the schema of its property.
fn check_defaults(schema: &Value) -> Result<(), String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let Some(default) = property.get("default") else { continue };
        // A schema with references cannot be checked by itself.
        let is_good = Schema::compile(property)
            .map_or(true, |schema| schema.check(Raw::Json(&default.to_string())).is_ok());
        if !is_good {
            return Err(format!("the default of {name}, {default}, is not allowed by it"));
        }
    }
    Ok(())
}

/// `_meta` key of a tool's categories (MCP-088).
const CATEGORIES: &str = "categories";

/// Returns whether a name has the characters and length that the newest revision allows.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=128).contains(&name.len()) && name.bytes().all(allowed)
}

/// The URI of the app that shows a tool's results.
pub(super) fn app_of(definition: &ToolDefinition) -> Option<&str> {
    definition.meta.get("ui")?.get("resourceUri")?.as_str()
}

/// Returns whether a URI can be that of an app.
pub(crate) fn is_app_uri(uri: &str) -> bool {
    uri.strip_prefix("ui://").is_some_and(|rest| !rest.is_empty())
}

/// Error in a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTool {
    /// The name has characters that not every client accepts.
    #[error("the tool name {0:?} must be 1 to 128 letters, digits, '_', '-' or '.'")]
    Name(String),
    /// A schema is invalid.
    #[error("the {which} schema of tool {name} cannot be used: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// `input` or `output`.
        which: &'static str,
        /// The reason.
        reason: String,
    },
    /// An icon has a URI that clients do not show.
    #[error("the icon {src:?} of tool {name} must be an image in an https: or data: URI")]
    Icon {
        /// The tool.
        name: String,
        /// The URI.
        src: String,
    },
    /// The URI of the app is not one of apps.
    #[error("the app {uri:?} of tool {name} must have a URI that begins with ui://")]
    App {
        /// The tool.
        name: String,
        /// The URI.
        uri: String,
    },
}

#[cfg(test)]
mod tests {
    use crate::context::Context;
    use crate::tool::Tool;
    use mcp_flow_proto::model::Icon;
    use serde_json::{Value, json};

    #[test]
    fn invalid_tools_are_rejected_when_built() {
        check("good.name-1_x", json!({"type": "object"}), "");
        check("", json!({"type": "object"}), "letters, digits");
        check("bad name", json!({"type": "object"}), "letters, digits");
        check("a", json!({"type": "string"}), "must be \"object\"");
        check("a", json!(true), "must be an object");
        let default = json!({"maximum": 5, "default": 9});
        check("a", json!({"type": "object", "properties": {"n": default}}), "default of n, 9");
        check("a", json!({"type": "object", "properties": 7}), "input schema of tool a");
        check("a", json!({"type": "object", "$ref": "https://example.com/x"}), "input schema");
        check(
            "a",
            json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}),
            "input schema",
        );
    }

    #[test]
    fn icons_and_apps_are_checked_when_built() {
        for (icon, app, expected) in [
            ("https://a.example/x.png", "ui://a/b", ""),
            ("javascript:alert(1)", "ui://a/b", "must be an image"),
            ("data:image/png;base64,AA==", "https://a.example", "begins with ui://"),
            ("data:image/png;base64,AA==", "ui://", "begins with ui://"),
        ] {
            let tool = Tool::builder("a").icon(Icon::new(icon)).ui(app);
            let built = tool.quick(|_: &Context, _: Value| "");
            let error = built.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
        }
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
