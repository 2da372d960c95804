//! Running flow files on the engine.
//!
//! The first step of a session records the tool as its file had it, with the tools of the file that it
//! calls and the hash of the file. A session goes on with that, whatever happens to the file.

mod budget;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Flow, FlowError, FlowResult};
use mcp_flow_interaction::OfferedFlow;
use mcp_flow_server::tool::Failure;
use mcp_flow_session::{Prompt, PromptType};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::library::{Caller, ToolLibrary};
use crate::model::{Action, AskStep, DeclaredTool, OutputForm, OutputRules, Step, alias};
use crate::output;
use crate::read::read_stored;
use crate::template::{Template, ValueTemplate, Variables, shown};
use budget::{Budget, yield_turn};
pub(crate) use budget::{measure, take};

/// A flow as the journal has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct RecordedFlow {
    /// SHA-256 of the file.
    pub(crate) hash: String,
    /// Directory of the file.
    pub(crate) folder: PathBuf,
    pub(crate) tool: Value,
    /// Tools of the same file that it calls, and those that they call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) called: Vec<Value>,
}

impl RecordedFlow {
    /// Returns a tool of the file as it was at the start of the session.
    fn find(&self, name: &str) -> Option<DeclaredTool> {
        let is = |tool: &&Value| tool["name"].as_str().is_some_and(|one| alias(one) == alias(name));
        read_stored(self.called.iter().find(is)?, &self.folder)
    }
}

/// Key of the step that records the flow.
pub(crate) const RECORD: &str = "definition";

/// Offers a flow file as a tool and as a flow.
pub(crate) fn offer(library: &ToolLibrary, tool: &DeclaredTool) -> OfferedFlow {
    let (library, name) = (library.clone(), tool.name.to_string());
    let run = move |flow: Flow, params: Map<String, Value>| {
        let (library, name) = (library.clone(), name.clone());
        let call = FlowCall { name, depth: 0, budget: Arc::default(), caller: None };
        async move { execute(library, call, flow, params).await }
    };
    let mut offered = OfferedFlow::new(tool.name.to_string(), run)
        .arguments(tool.input.clone())
        .refuse_unknown_arguments()
        .task(tool.task)
        .operation_limit(OPERATION_LIMIT);
    if let Some(description) = &tool.description {
        offered = offered.description(description.to_string());
    }
    if let Some(title) = &tool.title {
        offered = offered.title(title.to_string());
    }
    let (annotations, schema) = (tool.annotations.clone(), tool.output.schema.clone());
    offered = offered.customize(move |mut builder| {
        if let Some(annotations) = &annotations {
            builder = builder.annotations(annotations.clone());
        }
        match &schema {
            Some(schema) => builder.output_schema(result_schema(schema)),
            None => builder,
        }
    });
    let Action::Flow(steps) = &tool.action else { return offered };
    each_question(steps, &mut |ask| {
        if let Some(key) = ask.key.literal() {
            let current = std::mem::replace(&mut offered, OfferedFlow::new("", never));
            let prompt = ask.prompt.render(&Map::new()).map(with_labels);
            let mut variables = false;
            ask.prompt.each_variable(&mut |_| variables = true);
            let prompt = prompt.and_then(|prompt| serde_json::from_value::<Prompt>(prompt).ok());
            offered = match prompt {
                Some(prompt) if !variables => {
                    current.key(key, schema_of(&prompt)).question(key, &prompt)
                }
                _ => current.key(key, json!({})),
            };
        }
    });
    offered
}

async fn never(_: Flow, _: Map<String, Value>) -> FlowResult<()> {
    Ok(())
}

fn each_question(steps: &[Step], visit: &mut dyn FnMut(&AskStep)) {
    for step in steps {
        match step {
            Step::Ask(ask) => visit(ask),
            Step::If { then, otherwise, .. } => {
                each_question(then, visit);
                each_question(otherwise, visit);
            }
            Step::ForEach { steps, .. } => each_question(steps, visit),
            Step::Call { .. } | Step::Set(_) | Step::Approve { .. } | Step::Return(_) => {}
        }
    }
}

/// JSON Schema of the argument that answers a question.
fn schema_of(prompt: &Prompt) -> Value {
    let mut schema = match prompt.kind {
        PromptType::Text => json!({"type": "string"}),
        PromptType::Confirm => json!({"type": "boolean"}),
        PromptType::Number if prompt.validation.integer => json!({"type": "integer"}),
        PromptType::Number => json!({"type": "number"}),
        PromptType::Date => json!({"type": "string", "format": "date"}),
        PromptType::Choice => {
            let values: Vec<_> = prompt.choices.iter().map(|choice| choice.value.clone()).collect();
            json!({"enum": values})
        }
        PromptType::File => json!({}),
        PromptType::Custom => prompt.validation.schema.clone().unwrap_or_else(|| json!({})),
    };
    if let Value::Object(schema) = &mut schema {
        schema.entry("description").or_insert_with(|| prompt.message.as_str().into());
    }
    schema
}

/// A flow to run.
struct FlowCall {
    name: String,
    /// Number of flows that it is nested in.
    depth: usize,
    /// Work of the session so far.
    budget: Arc<Mutex<Budget>>,
    /// The flow of the same file that calls it.
    caller: Option<Arc<RecordedFlow>>,
}

async fn execute(
    library: ToolLibrary,
    call: FlowCall,
    flow: Flow,
    arguments: Map<String, Value>,
) -> FlowResult<Value> {
    let FlowCall { name, depth, budget, caller } = call;
    if depth > MAX_DEPTH {
        return Err(FlowError::new(format!(
            "flows call each other more than {MAX_DEPTH} levels deep"
        )));
    }
    let (recorded, tool) = match caller {
        Some(recorded) => {
            let tool = recorded.find(&name);
            (recorded, tool)
        }
        None => {
            let record = || async {
                library.leave_to_server(flow.session()).await;
                library.recorded_flow(&name)
            };
            let recorded: RecordedFlow = flow.lookup(RECORD, record).await?;
            let tool = read_stored(&recorded.tool, &recorded.folder);
            (Arc::new(recorded), tool)
        }
    };
    let tool =
        tool.ok_or_else(|| FlowError::new(format!("the flow {name} can no longer be read")))?;
    let Action::Flow(steps) = &tool.action else {
        return Err(FlowError::new(format!("{name} is not a flow")));
    };
    let variables = tool.variables(arguments.clone());
    let given = if depth == 0 { Map::new() } else { arguments };
    let gathered = Map::new();
    let mut executor =
        Executor { library, flow, recorded, variables, given, gathered, depth, budget };
    let returned = match executor.run(steps).await? {
        Some(value) => value,
        None => Value::Object(executor.gathered),
    };
    let failed = |failure: Failure| FlowError::new(failure.message());
    let returned = output::pick(&tool, returned).map_err(failed)?;
    output::check(&tool, &returned).map_err(failed)?;
    Ok(match (&tool.output, returned) {
        (OutputRules { form: Some(OutputForm::Text), .. }, returned) => shown(&returned).into(),
        // The result of a tool with a schema is structured, and of a flow an object.
        (OutputRules { schema: Some(_), .. }, returned) if depth == 0 && !returned.is_object() => {
            json!({VALUE: returned})
        }
        (_, returned) => returned,
    })
}

/// JSON Schema of the results of a flow: objects, or objects with the member `value`.
fn result_schema(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut definitions = Map::new();
    for name in ["$defs", "definitions"] {
        // References are from the root.
        if let Some(defined) = inner.as_object_mut().and_then(|inner| inner.remove(name)) {
            definitions.insert(name.to_owned(), defined);
        }
    }
    let types = match &inner["type"] {
        Value::String(kind) => vec![kind.clone()],
        Value::Array(kinds) => kinds.iter().map(|kind| shown(kind).into_owned()).collect(),
        _ => Vec::new(),
    };
    if types == ["object"] {
        return schema.clone();
    }
    let value = json!({"properties": {VALUE: inner.clone()}, "required": [VALUE]});
    let mut result = match types.is_empty() || types.iter().any(|kind| kind == "object") {
        true => json!({"anyOf": [inner, value]}),
        false => value,
    };
    result["type"] = "object".into();
    if let Value::Object(members) = &mut result {
        members.extend(definitions);
    }
    result
}

struct Executor {
    library: ToolLibrary,
    flow: Flow,
    recorded: Arc<RecordedFlow>,
    variables: Variables,
    /// Arguments of a nested flow, which answer its questions.
    given: Map<String, Value>,
    /// Results of the steps so far.
    gathered: Map<String, Value>,
    depth: usize,
    budget: Arc<Mutex<Budget>>,
}

type Steps<'a> = std::pin::Pin<Box<dyn Future<Output = FlowResult<Option<Value>>> + Send + 'a>>;

impl Executor {
    /// Runs steps in order; returns the value of `return`.
    fn run<'a>(&'a mut self, steps: &'a [Step]) -> Steps<'a> {
        Box::pin(async move {
            for step in steps {
                let is_long = self.budget.lock().take_step()?;
                if is_long {
                    yield_turn().await;
                }
                let returned = match step {
                    Step::Ask(ask) => {
                        let answer = self.ask(ask).await?;
                        self.keep(&ask.name, answer)?;
                        None
                    }
                    Step::Call { tool, arguments, name } => {
                        let arguments = self.render(arguments)?.unwrap_or_default();
                        let result = self.call(tool, arguments).await?;
                        if let Some(name) = name {
                            self.keep(name, result)?;
                        }
                        None
                    }
                    Step::Set(values) => {
                        for (name, value) in values {
                            let value = self.render(value)?.unwrap_or_default();
                            self.keep(name, value)?;
                        }
                        None
                    }
                    Step::If { condition, then, otherwise } => {
                        let branch =
                            if condition.holds(&self.variables) { then } else { otherwise };
                        self.run(branch).await?
                    }
                    Step::ForEach { items, name, steps } => {
                        let items = match self.render(items)? {
                            Some(Value::Array(items)) => items,
                            None => Vec::new(),
                            Some(other) => {
                                let message =
                                    format!("forEach needs a list, not {}", shown(&other));
                                return Err(FlowError::new(message));
                            }
                        };
                        self.repeat(items, name, steps).await?
                    }
                    Step::Approve { key, message } => {
                        let message = self.text(message)?;
                        self.approve(key, &message).await?;
                        None
                    }
                    Step::Return(value) => Some(self.render(value)?.unwrap_or_default()),
                };
                if returned.is_some() {
                    return Ok(returned);
                }
            }
            Ok(None)
        })
    }

    async fn repeat(
        &mut self,
        items: Vec<Value>,
        name: &str,
        steps: &[Step],
    ) -> FlowResult<Option<Value>> {
        let before = [name, INDEX].map(|name| self.variables.get(name).cloned());
        for (index, item) in items.into_iter().enumerate() {
            self.budget.lock().take_step()?;
            self.variables.insert(name.to_owned(), item);
            self.variables.insert(INDEX.to_owned(), index.into());
            let returned = self.run(steps).await?;
            if returned.is_some() {
                return Ok(returned);
            }
        }
        for (name, value) in [name, INDEX].into_iter().zip(before) {
            match value {
                Some(value) => self.variables.insert(name.to_owned(), value),
                None => self.variables.remove(name),
            };
        }
        Ok(None)
    }

    async fn ask(&self, ask: &AskStep) -> FlowResult<Value> {
        let key = self.text(&ask.key)?;
        let prompt = self.render(&ask.prompt)?.map(with_labels).unwrap_or_default();
        let prompt: Prompt = serde_json::from_value(prompt).map_err(|error| {
            FlowError::new(format!("the question `{key}` cannot be asked: {error}"))
        })?;
        let given = self.given.get(&key).filter(|given| !given.is_null() && !prompt.is_approval());
        if let Some(given) = given {
            return match prompt.check(given) {
                Ok(_) => Ok(given.clone()),
                Err(violation) => Err(FlowError::new(format!("`{key}`: {}", violation.error))),
            };
        }
        self.flow.ask(&key, prompt).await
    }

    /// Calls another tool. A flow runs within this one, so that it can ask.
    async fn call(&self, tool: &str, arguments: Value) -> FlowResult<Value> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            other => {
                let message = format!("the arguments of {tool} must be an object, not {other}");
                return Err(FlowError::new(message));
            }
        };
        let (library, session) = (&self.library, self.flow.session());
        let recorded = self.recorded.find(tool);
        let is_flow = match &recorded {
            Some(recorded) => matches!(recorded.action, Action::Flow(_)),
            // Decided once: the file of the tool may change before a replay.
            None => {
                let decide = || async {
                    library.leave_to_server(session).await;
                    Ok::<_, String>(library.is_flow(tool))
                };
                self.flow.lookup(&format!("{tool}.kind"), decide).await?
            }
        };
        if is_flow {
            let (library, budget) = (library.clone(), self.budget.clone());
            let caller = recorded.is_some().then(|| self.recorded.clone());
            let call = FlowCall { name: tool.to_owned(), depth: self.depth + 1, budget, caller };
            let nested = |flow: Flow, arguments: Map<String, Value>| {
                Box::pin(execute(library, call, flow, arguments))
            };
            return self.flow.call(tool, nested, arguments).await;
        }
        let (owner, scopes, depth) = (self.flow.owner(), self.flow.scopes(), self.flow.depth());
        let caller = Caller { owner, scopes, depth };
        let call = || async {
            library.leave_to_server(session).await;
            match &recorded {
                Some(recorded) => library.call_declared(recorded, arguments).await,
                None => library.call(&caller, tool, arguments).await,
            }
        };
        self.flow.step(&format!("{tool}.call"), call).await
    }

    async fn approve(&self, key: &str, message: &str) -> FlowResult<()> {
        let mut prompt = Prompt::new(PromptType::Confirm, message);
        prompt.ui = Some(json!({"approval": true}));
        let agreed = self.flow.ask(key, prompt).await?;
        if agreed == Value::Bool(true) {
            return Ok(());
        }
        Err(FlowError::new(format!("Not approved: {message}")))
    }

    /// Fills in a value, if the flow may still make one of its size.
    fn render(&self, template: &ValueTemplate) -> FlowResult<Option<Value>> {
        let measure = |left: &mut usize| template.measure(&self.variables, left);
        self.budget.lock().take_bytes(measure)?;
        Ok(template.render(&self.variables))
    }

    fn text(&self, template: &Template) -> FlowResult<String> {
        let measure = |left: &mut usize| template.measure(&self.variables, left);
        self.budget.lock().take_bytes(measure)?;
        Ok(template.text(&self.variables))
    }

    fn keep(&mut self, name: &str, value: Value) -> FlowResult<()> {
        self.budget.lock().take_bytes(|left| measure(&value, left))?;
        self.gathered.insert(name.to_owned(), value.clone());
        self.variables.insert(name.to_owned(), value);
        Ok(())
    }
}

/// Adds labels to options that are plain values.
pub(crate) fn with_labels(mut prompt: Value) -> Value {
    if let Some(Value::Array(choices)) = prompt.get_mut("choices") {
        for choice in choices {
            let has_value = choice.get("value").is_some();
            if !has_value {
                let label = shown(choice).into_owned();
                *choice = json!({"value": choice.take(), "label": label});
            } else if choice.get("label").is_none() {
                let label = shown(&choice["value"]).into_owned();
                choice["label"] = label.into();
            } else if let Some(label) = choice.get("label").filter(|label| !label.is_string()) {
                let label = shown(label).into_owned();
                choice["label"] = label.into();
            }
        }
    }
    prompt
}

/// Member of a result that is no object.
const VALUE: &str = "value";

/// Variable with the number of the item in `forEach`, from 0.
const INDEX: &str = "index";

/// Limit on the time between two questions: tools have timeouts of their own, at most as long.
const OPERATION_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Limit on the depth of flows that call each other.
const MAX_DEPTH: usize = 8;
