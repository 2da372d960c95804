//! Offering the tools: by `tools/call`, as methods of their own, and workflows as resources.

use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::ToolAnnotations;
use mcp_flow_server::tool::IntoToolOutput;
use mcp_flow_server::{
    BadResource, BadTool, Context, Outcome, Resource, Server, ServerBuilder, Tool, ToolOutput,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::answer::Answer;
use super::{get, list, next, resource_text, resource_uri, validate};
use crate::fault::hint;
use crate::library::{Changes, Entry, Library, Watching};
use crate::schema;

/// How the tools are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As seed 004 prints them.
    Literal,
    /// So that every host can use them: schemas refer to nothing outside (C-27).
    Standard,
}

/// How a tool that is called by `tools/call` says that there is no such workflow or step (C-19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolErrors {
    /// By a result a model can read.
    #[default]
    Results,
    /// By an error, as the direct methods do.
    Protocol,
}

/// The four tools, and what it takes to offer them.
///
/// ```
/// use mcp_flow_server::Server;
/// use mcp_flow_workflow::{Form, Library, LookupTools};
///
/// let tools = LookupTools::new(Library::bundled(), Form::Standard);
/// let server = tools.add_to(Server::builder("guided", "1.0.0")).build().unwrap();
/// assert!(server.find_tool("workflow_next").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct LookupTools {
    library: Library,
    form: Form,
    errors: ToolErrors,
    direct: bool,
}

impl LookupTools {
    /// The tools of a library.
    pub fn new(library: Library, form: Form) -> Self {
        Self { library, form, errors: ToolErrors::default(), direct: true }
    }

    /// How faults are told by `tools/call`. Defaults to results.
    #[must_use]
    pub fn errors(mut self, errors: ToolErrors) -> Self {
        self.errors = errors;
        self
    }

    /// Leaves the methods out: the tools can only be called by `tools/call`.
    #[must_use]
    pub fn without_methods(mut self) -> Self {
        self.direct = false;
        self
    }

    /// The workflows they are about.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Adds the tools, the methods and the resources to a server.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let server = server.tools(self.tools()).resources(self.resources());
        match self.direct {
            true => server.direct_methods(self.definitions().map(|definition| definition.name)),
            false => server,
        }
    }

    /// Has a server follow the changes of the files, until the result is dropped.
    pub fn follow(&self, server: &Server) -> Result<Watching, String> {
        let (server, library) = (server.clone(), self.library.clone());
        self.library.watch(move |changes| tell(&server, &library, &changes))
    }

    fn tools(&self) -> Vec<Result<Tool, BadTool>> {
        let library = || self.library.clone();
        let (one, two, three, four) = (library(), library(), library(), library());
        let errors = self.errors;
        let [listed, got, nexted, validated] = self.definitions();
        vec![
            listed.finish(errors, move |_: Map<_, _>| Ok(list(&one))),
            got.finish(errors, move |call| get(&two, &call)),
            nexted.finish(errors, move |call| next(&three, &call)),
            validated.finish(errors, move |call| validate(&four, &call)),
        ]
    }

    /// The tools as the seed prints them, in its order.
    fn definitions(&self) -> [Definition; 4] {
        let printed: [Definition; 4] =
            serde_json::from_str(PRINTED_TOOLS).expect("the printed definitions are JSON");
        printed.map(|definition| Definition { form: Some(self.form), ..definition })
    }

    fn resources(&self) -> Vec<Result<Resource, BadResource>> {
        let schema = Resource::builder(SCHEMA_URI)
            .name("workflow.schema.json")
            .description("The JSON Schema of workflow files")
            .mime_type("application/schema+json")
            .text(schema::TEXT);
        let mut resources = vec![schema];
        self.library.each(|entry| resources.push(resource(&self.library, entry)));
        resources
    }
}

/// A workflow as a resource.
fn resource(library: &Library, entry: &Entry) -> Result<Resource, BadResource> {
    let (library, id) = (library.clone(), entry.workflow.id.clone());
    Resource::builder(resource_uri(&id))
        .name(&*id)
        .title(&*entry.workflow.name)
        .description(&*entry.workflow.description)
        .mime_type("application/json")
        .read(move |_: Context| {
            let text = library.entry(&id).map(|entry| resource_text(&entry));
            std::future::ready(text.ok_or("the workflow is gone"))
        })
}

/// Brings the resources of a server up to date.
fn tell(server: &Server, library: &Library, changes: &Changes) {
    for id in &changes.listed {
        server.remove_resource(&resource_uri(id));
        if let Some(entry) = library.entry(id)
            && let Err(error) = server.add_resources(resource(library, &entry))
        {
            tracing::error!(%error, "a workflow cannot be offered as a resource");
        }
    }
    for id in &changes.content {
        server.resource_changed(&resource_uri(id));
    }
}

/// A tool as it is printed.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: String,
    description: String,
    input_schema: Value,
    output_schema: Map<String, Value>,
    examples: Value,
    #[serde(skip)]
    form: Option<Form>,
}

impl Definition {
    fn finish<T: DeserializeOwned + Send + 'static>(
        self,
        errors: ToolErrors,
        call: impl Fn(T) -> Result<Answer, RpcError> + Send + Sync + 'static,
    ) -> Result<Tool, BadTool> {
        let builder = Tool::builder(self.name)
            .description(self.description)
            .input_schema(self.input_schema)
            .meta("examples", self.examples);
        let refers = self.output_schema.contains_key("$ref");
        let builder = match self.form {
            Some(Form::Literal) => builder.listed_output_schema(self.output_schema),
            _ if refers => builder.listed_output_schema(match schema::inlined() {
                Value::Object(schema) => schema,
                _ => Map::new(),
            }),
            _ => builder.listed_output_schema(self.output_schema),
        };
        let reads = ToolAnnotations {
            read_only_hint: Some(true),
            open_world_hint: Some(false),
            ..ToolAnnotations::default()
        };
        builder.annotations(reads).quick(move |_: &Context, arguments: T| match call(arguments) {
            Ok(answer) => Called::Answer(answer),
            Err(error) => Called::Fault(error, errors),
        })
    }
}

/// What came of a call.
pub(crate) enum Called {
    Answer(Answer),
    Output(Box<ToolOutput>),
    Fault(RpcError, ToolErrors),
}

impl IntoToolOutput for Called {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Self::Answer(answer) => answer.into_tool_output(),
            Self::Output(output) => *output,
            Self::Fault(error, _) => ToolOutput::failure(error.text().to_owned()),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Self::Answer(answer) => answer.reply(context),
            Self::Output(output) => context.reply_output(&output),
            Self::Fault(error, errors) => match context.is_direct() {
                false if errors == ToolErrors::Results => {
                    context.reply_output(&failed(context, &error))
                }
                _ => Err(error),
            },
        }
    }
}

/// A fault as a result: a sentence and a hint to read, and the whole error in `_meta` (C-19).
fn failed(context: &Context, error: &RpcError) -> ToolOutput {
    let wire = serde_json::to_value(error.wire(context.revision())).unwrap_or_default();
    let text = |name: &str| wire["data"][name].as_str().map(str::to_owned);
    let named = text("workflowId").or_else(|| text("stepId")).map(|id| format!(": {id}"));
    let mut message = format!("{}{}.", error.text(), named.unwrap_or_default());
    if let Some(details) = text("details") {
        message = format!("{message} {details}");
    }
    let hint = hint(error, wire["data"]["suggestions"][0].as_str());
    if !hint.is_empty() {
        message = format!("{message} {hint}");
    }
    let mut output = ToolOutput::failure(message);
    output.meta.insert("error".to_owned(), wire);
    output
}

/// The tools as seed 004 prints them, its damaged arrows mended (C-48).
pub const PRINTED_TOOLS: &str = include_str!("../../schema/tools.json");

const SCHEMA_URI: &str = "workflow:/workflow.schema.json";
