//! A flow as it is offered to clients.

use std::time::Duration;

use mcp_flow_engine::{Definition, Flow, FlowResult};
use mcp_flow_session::Question;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// A flow and how it is offered: as a tool with arguments, and by `interaction.start`.
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
    /// The keys of its questions, as far as they are listed.
    pub(crate) keys: Vec<String>,
    pub(crate) asks_after_start: bool,
    refuses_unknown: bool,
}

impl OfferedFlow {
    /// Offers this function under a name. It runs again from the top whenever its session is taken
    /// up: what has effects belongs into [`Flow::step`].
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
            refuses_unknown: false,
        }
    }

    /// Says what it is for.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.definition = self.definition.description(text.clone());
        self.description = Some(text);
        self
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Lists the members of the type of its parameters as arguments.
    pub fn params<P: JsonSchema>(mut self) -> Self {
        let schema = mcp_flow_server::tool::argument_schema::<P>();
        let Value::Object(derived) = schema else { return self };
        let keys = self.schema.remove("properties");
        self.schema = derived;
        // Values for questions may come beside the members of the type.
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

    /// Lists the key of a question as an optional argument, with the JSON Schema of its value. One
    /// that is listed already stays as it is.
    pub fn key(mut self, key: impl Into<String>, mut schema: Value) -> Self {
        // Only the question itself knows what a choice, a file or a custom value may be, and some
        // hosts refuse arguments that say nothing of their type.
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

    /// Tells of a question beforehand: a value for it that breaks its rules is refused when the flow
    /// is started, however late it would be asked (INT-020).
    pub fn question(mut self, key: impl Into<String>, question: &impl Question) -> Self {
        self.definition = self.definition.question(key, question);
        self
    }

    /// Takes the members of the type of its parameters and the keys that are listed, and refuses
    /// everything else. For flows that ask for nothing else.
    pub fn refuse_unknown_arguments(mut self) -> Self {
        self.refuses_unknown = true;
        self
    }

    /// Sends the first question by itself, after the result of the start, to clients that can be
    /// sent requests. Otherwise it is part of that result.
    pub fn asks_after_start(mut self) -> Self {
        self.asks_after_start = true;
        self
    }

    /// Lets the user finish the flow with what was gathered so far (C-08).
    pub fn early_completion(mut self) -> Self {
        self.definition = self.definition.early_completion();
        self
    }

    /// How long one operation of this flow may take, instead of what the engine allows.
    pub fn operation_limit(mut self, limit: Duration) -> Self {
        self.definition = self.definition.operation_limit(limit);
        self
    }

    /// Time that a session of this flow waits for an answer, unless its start says otherwise.
    pub fn waits(mut self, duration: Duration) -> Self {
        self.definition = self.definition.waits(duration);
        self
    }

    /// The name it is started by.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// The schema of its arguments as a tool.
    pub(crate) fn input_schema(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.extend(self.schema.clone());
        schema.entry("properties").or_insert_with(|| json!({}));
        if self.refuses_unknown {
            // A type that takes more than its members says so itself.
            schema.entry("additionalProperties").or_insert(Value::Bool(false));
        }
        Value::Object(schema)
    }
}

/// What says in a schema which values are meant.
const TYPED_BY: [&str; 6] = ["type", "anyOf", "oneOf", "enum", "const", "$ref"];

/// What flows can be offered from: one, several, or what `flows![…]` lists.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flow",
    note = "mark the function with `#[flow]` and list it by name: `.flows(flows![register])`"
)]
pub trait IntoFlows {
    /// The flows, in the order they are to be listed.
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
