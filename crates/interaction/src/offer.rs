//! Flows as they are offered to clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Definition, Flow, FlowResult};
use mcp_flow_server::IntoToolOutput;
use mcp_flow_server::tool::ToolBuilder;
use mcp_flow_session::Question;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::task::TaskMode;
use crate::tool::output;

/// A flow as it is offered: as a tool with arguments, and by `interaction.start`.
///
/// ```
/// use mcp_flow_engine::{Flow, FlowResult};
/// use mcp_flow_session::question::text;
/// use mcp_flow_interaction::OfferedFlow;
///
/// #[derive(serde::Deserialize)]
/// struct Nothing {}
///
/// async fn greet(flow: Flow, _: Nothing) -> FlowResult<String> {
///     let name = flow.ask("name", text("Who are you?")).await?;
///     Ok(format!("Hello, {name}!"))
/// }
///
/// let offered = OfferedFlow::new("greet", greet)
///     .description("Greets someone")
///     .key("name", serde_json::json!({"type": "string"}));
/// assert_eq!(offered.name(), "greet");
/// ```
#[derive(Debug)]
#[must_use]
pub struct OfferedFlow {
    pub(crate) definition: Definition,
    pub(crate) description: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) schema: Map<String, Value>,
    /// Keys of the listed questions.
    pub(crate) keys: Vec<String>,
    pub(crate) asks_after_start: bool,
    pub(crate) task: TaskMode,
    /// Set if its data is the output of a tool.
    pub(crate) is_tool: bool,
    pub(crate) customize: Customize,
    refuses_unknown: bool,
}

/// Change to the tool of a flow.
#[derive(Clone, Default)]
pub(crate) struct Customize(Option<Arc<dyn Fn(ToolBuilder) -> ToolBuilder + Send + Sync>>);

impl Customize {
    pub(crate) fn apply(&self, tool: ToolBuilder) -> ToolBuilder {
        match &self.0 {
            Some(change) => change(tool),
            None => tool,
        }
    }
}

impl fmt::Debug for Customize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Customize({})", self.0.is_some())
    }
}

impl OfferedFlow {
    /// Offers a function under a name. It runs again from the top whenever its session is resumed:
    /// side effects belong in [`Flow::step`].
    pub fn new<P, T, F, R>(name: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Flow, P) -> R + Send + Sync + 'static,
        R: Future<Output = FlowResult<T>> + Send + 'static,
    {
        Self {
            definition: Definition::new(name, function),
            description: None,
            title: None,
            schema: Map::new(),
            keys: Vec::new(),
            asks_after_start: false,
            task: TaskMode::default(),
            is_tool: false,
            customize: Customize::default(),
            refuses_unknown: false,
        }
    }

    /// Offers a tool as a flow of one step, so that its calls can continue as tasks. A tool that is
    /// interrupted runs again from the top.
    pub fn tool<P, O, F, R>(name: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        O: IntoToolOutput,
        F: Fn(P) -> R + Send + Sync + 'static,
        R: Future<Output = O> + Send + 'static,
    {
        let run = move |flow: Flow, params: P| {
            let called = function(params);
            async move {
                let output = flow.step("call", || async move {
                    Ok::<_, String>(output::stored(&called.await.into_tool_output()))
                });
                output.await
            }
        };
        Self::new(name, run).into_tool::<P, O>()
    }

    /// Offers a [`tool`](Self::tool) whose function may block its thread.
    pub fn blocking_tool<P, O, F>(name: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        O: IntoToolOutput,
        F: Fn(P) -> O + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let run = move |flow: Flow, params: P| {
            let function = Arc::clone(&function);
            async move {
                let output = flow.blocking_step("call", move || {
                    Ok::<_, String>(output::stored(&function(params).into_tool_output()))
                });
                output.await
            }
        };
        Self::new(name, run).into_tool::<P, O>()
    }

    fn into_tool<P: JsonSchema, O: IntoToolOutput>(self) -> Self {
        let schema = mcp_flow_server::tool::argument_schema::<P>();
        let refuses_unknown = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let offered = Self { is_tool: true, refuses_unknown, ..self.params::<P>() };
        match O::output_schema() {
            Some(schema) => offered.customize(move |tool| tool.output_schema(schema.clone())),
            None => offered,
        }
    }

    /// Changes the tool that the flow is offered as, such as its annotations.
    pub fn customize(
        mut self,
        change: impl Fn(ToolBuilder) -> ToolBuilder + Send + Sync + 'static,
    ) -> Self {
        let earlier = self.customize;
        self.customize = Customize(Some(Arc::new(move |tool| change(earlier.apply(tool)))));
        self
    }

    /// Sets which calls continue as tasks. Defaults to [`TaskMode::Auto`].
    pub fn task(mut self, mode: TaskMode) -> Self {
        self.task = mode;
        self
    }

    /// Sets the description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.definition = self.definition.description(text.clone());
        self.description = Some(text);
        self
    }

    /// Sets the title shown to users.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Lists the fields of the parameter type as arguments.
    pub fn params<P: JsonSchema>(mut self) -> Self {
        let schema = mcp_flow_server::tool::argument_schema::<P>();
        let Value::Object(derived) = schema else { return self };
        let keys = self.schema.remove("properties");
        self.schema = derived;
        // Values for questions are allowed beside the fields of the type.
        if self.schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            self.schema.remove("additionalProperties");
        }
        if let Some(Value::Object(keys)) = keys {
            for (key, schema) in keys {
                self = self.key(key, schema);
            }
        }
        self
    }

    /// Lists the arguments of this JSON Schema of an object.
    pub fn arguments(mut self, schema: Map<String, Value>) -> Self {
        let keys = self.schema.remove("properties");
        self.schema = schema;
        self.schema.remove("additionalProperties");
        if let Some(Value::Object(keys)) = keys {
            for (key, schema) in keys {
                self = self.key(key, schema);
            }
        }
        self
    }

    /// Returns the definition for an engine.
    pub fn into_definition(self) -> Definition {
        self.definition
    }

    /// Lists the key of a question as an optional argument, with the JSON Schema of its value. A
    /// key that is listed already is not changed.
    pub fn key(mut self, key: impl Into<String>, mut schema: Value) -> Self {
        // The type of choices, files and custom values is known when they are asked, but some hosts
        // reject arguments without a type.
        if let Value::Object(schema) = &mut schema
            && !TYPED_BY.iter().any(|keyword| schema.contains_key(*keyword))
        {
            let kinds = ["string", "number", "boolean", "object", "array"];
            let kinds: Vec<_> = kinds.iter().map(|kind| json!({"type": kind})).collect();
            schema.insert("anyOf".to_owned(), kinds.into());
        }
        let key = key.into();
        if !self.keys.contains(&key) {
            self.keys.push(key.clone());
        }
        let properties = self.schema.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            properties.entry(key).or_insert(schema);
        }
        self
    }

    /// Declares a question: an invalid value for it is rejected at the start, however late it comes
    /// up (INT-020).
    pub fn question(mut self, key: impl Into<String>, question: &impl Question) -> Self {
        self.definition = self.definition.question(key, question);
        self
    }

    /// Rejects arguments that are neither fields of the parameter type nor listed keys. For flows
    /// that ask for nothing else.
    pub fn refuse_unknown_arguments(mut self) -> Self {
        self.refuses_unknown = true;
        self
    }

    /// Sends the first question in a request of its own, after the result of the start, to clients
    /// that accept requests. Otherwise it is part of that result.
    pub fn asks_after_start(mut self) -> Self {
        self.asks_after_start = true;
        self
    }

    /// Lets the client complete a session early, with the data gathered so far (C-08).
    pub fn early_completion(mut self) -> Self {
        self.definition = self.definition.early_completion();
        self
    }

    /// Sets the timeout of one operation, in place of the engine's.
    pub fn operation_limit(mut self, limit: Duration) -> Self {
        self.definition = self.definition.operation_limit(limit);
        self
    }

    /// Sets the inactivity timeout of sessions whose start sets none.
    pub fn waits(mut self, duration: Duration) -> Self {
        self.definition = self.definition.waits(duration);
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// Returns the schema of its arguments as a tool.
    pub(crate) fn input_schema(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.extend(self.schema.clone());
        schema.entry("properties").or_insert_with(|| json!({}));
        if self.refuses_unknown {
            // A parameter type with further members has set this itself.
            schema.entry("additionalProperties").or_insert(Value::Bool(false));
        }
        Value::Object(schema)
    }
}

/// Keywords that give a schema a type.
const TYPED_BY: [&str; 6] = ["type", "anyOf", "oneOf", "enum", "const", "$ref"];

/// Conversion to a list of flows: one, several, or `flows![…]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flow",
    note = "mark the function with `#[flow]` and list it by name: `.flows(flows![register])`"
)]
pub trait IntoFlows {
    /// Returns the flows in the order they are listed.
    fn into_flows(self) -> Vec<OfferedFlow>;
}

impl IntoFlows for OfferedFlow {
    fn into_flows(self) -> Vec<OfferedFlow> {
        vec![self]
    }
}

impl<T: IntoFlows> IntoFlows for Vec<T> {
    fn into_flows(self) -> Vec<OfferedFlow> {
        self.into_iter().flat_map(T::into_flows).collect()
    }
}

impl<T: IntoFlows, const N: usize> IntoFlows for [T; N] {
    fn into_flows(self) -> Vec<OfferedFlow> {
        Vec::from(self).into_flows()
    }
}
