//! Registration of the lookup tools: as tools, as methods of their own, and workflows as resources.

use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::ToolAnnotations;
use mcp_flow_server::tool::IntoToolOutput;
use mcp_flow_server::{
    BadResource, BadTool, Context, Outcome, Resource, Server, ServerBuilder, Tool, ToolOutput,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::encoded::EncodedResult;
use super::{get, list, next, resource_text, resource_uri, validate};
use crate::library::{Library, LibraryChanges, LibraryEntry, LibraryWatcher};
use crate::protocol_errors::hint;
use crate::schema;

/// Form of the tool definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionForm {
    /// The form printed in seed 004.
    Literal,
    /// Usable by every host: schemas without external references (C-27).
    Standard,
}

/// Form of errors such as an unknown workflow or step in `tools/call` (C-19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolErrors {
    /// Tool result with `isError`, which a model can read.
    #[default]
    Results,
    /// JSON-RPC error, like the direct methods.
    Protocol,
}

/// The four lookup tools and their registration.
///
/// ```
/// use mcp_flow_server::Server;
/// use mcp_flow_workflow::{DefinitionForm, Library, LookupTools};
///
/// let tools = LookupTools::new(Library::bundled(), DefinitionForm::Standard);
/// let server = tools.add_to(Server::builder("guided", "1.0.0")).build().unwrap();
/// assert!(server.find_tool("workflow_next").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct LookupTools {
    library: Library,
    form: DefinitionForm,
    errors: ToolErrors,
    direct: bool,
}

impl LookupTools {
    /// Creates the tools of a library.
    pub fn new(library: Library, form: DefinitionForm) -> Self {
        Self { library, form, errors: ToolErrors::default(), direct: true }
    }

    /// Sets the form of errors in `tools/call`. Defaults to results.
    #[must_use]
    pub fn errors(mut self, errors: ToolErrors) -> Self {
        self.errors = errors;
        self
    }

    /// Registers no methods: the tools are available by `tools/call` only.
    #[must_use]
    pub fn without_methods(mut self) -> Self {
        self.direct = false;
        self
    }

    /// Returns the library.
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

    /// Keeps the resources of a server up to date with the files, until the result is dropped.
    pub fn follow(&self, server: &Server) -> Result<LibraryWatcher, String> {
        let (server, library) = (server.clone(), self.library.clone());
        self.library.watch(move |changes| update_resources(&server, &library, &changes))
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

    /// Definitions in the order of the seed.
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
        self.library.for_each(|entry| resources.push(resource(&self.library, entry)));
        resources
    }
}

/// Resource of a workflow.
fn resource(library: &Library, entry: &LibraryEntry) -> Result<Resource, BadResource> {
    let (library, id) = (library.clone(), entry.workflow.id.clone());
    Resource::builder(resource_uri(&id))
        .name(&*id)
        .title(&*entry.workflow.name)
        .description(&*entry.workflow.description)
        .mime_type("application/json")
        .read(move |_: Context| {
            let text = library.entry(&id).map(|entry| resource_text(&entry));
            std::future::ready(text.ok_or("the workflow was removed"))
        })
}

/// Updates the resources of a server after a change.
fn update_resources(server: &Server, library: &Library, changes: &LibraryChanges) {
    for id in &changes.listed {
        server.remove_resource(&resource_uri(id));
        if let Some(entry) = library.entry(id)
            && let Err(error) = server.add_resources(resource(library, &entry))
        {
            tracing::error!(%error, "cannot register a workflow as a resource");
        }
    }
    for id in &changes.content {
        server.resource_changed(&resource_uri(id));
    }
}

/// A tool definition.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: String,
    description: String,
    input_schema: Value,
    output_schema: Map<String, Value>,
    examples: Value,
    #[serde(skip)]
    form: Option<DefinitionForm>,
}

impl Definition {
    fn finish<T: DeserializeOwned + Send + 'static>(
        self,
        errors: ToolErrors,
        call: impl Fn(T) -> Result<EncodedResult, RpcError> + Send + Sync + 'static,
    ) -> Result<Tool, BadTool> {
        let builder = Tool::builder(self.name)
            .description(self.description)
            .input_schema(self.input_schema)
            .meta("examples", self.examples);
        let refers = self.output_schema.contains_key("$ref");
        let builder = match self.form {
            Some(DefinitionForm::Literal) => builder.listed_output_schema(self.output_schema),
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
            Ok(encoded) => CallOutcome::EncodedResult(encoded),
            Err(error) => CallOutcome::Fault(error, errors),
        })
    }
}

/// Outcome of a tool call.
pub(crate) enum CallOutcome {
    EncodedResult(EncodedResult),
    Output(Box<ToolOutput>),
    Fault(RpcError, ToolErrors),
}

impl IntoToolOutput for CallOutcome {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Self::EncodedResult(encoded) => encoded.into_tool_output(),
            Self::Output(output) => *output,
            Self::Fault(error, _) => ToolOutput::failure(error.text().to_owned()),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Self::EncodedResult(encoded) => encoded.reply(context),
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

/// Error as a tool result: message and hint as text, the whole error in `_meta` (C-19).
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

/// Tool definitions as printed in seed 004, with its damaged arrows repaired (C-48).
pub const PRINTED_TOOLS: &str = include_str!("../../schema/tools.json");

const SCHEMA_URI: &str = "workflow:/workflow.schema.json";
