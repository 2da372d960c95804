//! Tools as their files declare them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_interaction::TaskMode;
use mcp_flow_proto::model::ToolAnnotations;
use mcp_flow_workflow::Condition;
use serde_json::{Map, Value};

use crate::sandbox::SandboxRules;
use crate::secret::SecretSource;
use crate::template::{Template, ValueTemplate, Variables};

/// Tools of one file.
#[derive(Debug)]
pub struct ToolFile {
    /// The tools, in the order of the file.
    pub tools: Vec<Arc<DeclaredTool>>,
    /// SHA-256 of the text, in hexadecimal.
    pub hash: String,
}

/// Form in which the names of two tools must differ: clients may write underscores for dots.
pub(crate) fn alias(name: &str) -> String {
    name.replace('.', "_")
}

/// A tool that a file declares.
#[derive(Debug)]
pub struct DeclaredTool {
    pub(crate) name: Box<str>,
    pub(crate) title: Option<Box<str>>,
    pub(crate) description: Option<Box<str>>,
    /// JSON Schema of the arguments.
    pub(crate) input: Map<String, Value>,
    pub(crate) annotations: Option<ToolAnnotations>,
    /// Set if only flows may call it.
    pub(crate) internal: bool,
    /// Calls of a flow that continue as tasks.
    pub(crate) task: TaskMode,
    pub(crate) action: Action,
    pub(crate) output: OutputRules,
    /// The tool as its file has it.
    pub(crate) source: Value,
}

/// Keywords of a schema by which there may be other arguments than its `properties`.
pub(crate) const OPENING: [&str; 9] = [
    "dependentSchemas",
    "if",
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
];

/// Work of a tool.
#[derive(Debug)]
pub(crate) enum Action {
    Run(Box<CommandAction>),
    Http(Box<HttpAction>),
    Flow(Vec<Step>),
}

impl DeclaredTool {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the tool does: `run`, `http` or `flow`.
    pub fn kind(&self) -> &'static str {
        match &self.action {
            Action::Run(_) => "run",
            Action::Http(_) => "http",
            Action::Flow(_) => "flow",
        }
    }

    /// Returns the variables of a call: its arguments, and the defaults of those that are absent.
    pub(crate) fn variables(&self, mut arguments: Map<String, Value>) -> Variables {
        let properties = self.input.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(default) = property.get("default")
                && arguments.get(name).is_none_or(Value::is_null)
            {
                arguments.insert(name.clone(), default.clone());
            }
        }
        arguments
    }

    /// Returns the schema of the arguments, which takes no others unless it says so.
    pub(crate) fn closed_input(&self) -> Map<String, Value> {
        let mut input = self.input.clone();
        if !OPENING.iter().any(|keyword| input.contains_key(*keyword)) {
            input.insert("additionalProperties".to_owned(), false.into());
        }
        input
    }

    /// Returns the references to secrets.
    pub(crate) fn secrets(&self) -> Vec<&SecretSource> {
        match &self.action {
            Action::Run(run) => run.secrets(),
            Action::Http(http) => http.secrets(),
            Action::Flow(_) => Vec::new(),
        }
    }
}

/// A program that is run.
#[derive(Debug)]
pub(crate) struct CommandAction {
    /// Program as written.
    pub(crate) program: Box<str>,
    pub(crate) args: Vec<Argument>,
    pub(crate) env: Vec<(Box<str>, EnvironmentValue)>,
    pub(crate) cwd: Option<PathBuf>,
    /// Directory of the tool file, which relative programs are below.
    pub(crate) folder: PathBuf,
    pub(crate) stdin: Option<ValueTemplate>,
    pub(crate) timeout: Duration,
    pub(crate) sandbox: Option<SandboxRules>,
    /// Exit codes that are no failure.
    pub(crate) success: Vec<i32>,
}

impl CommandAction {
    fn secrets(&self) -> Vec<&SecretSource> {
        let mut secrets: Vec<_> = self.env.iter().filter_map(|(_, value)| value.secret()).collect();
        if let Some(stdin) = &self.stdin {
            stdin.each_secret(&mut |source| secrets.push(source));
        }
        secrets
    }
}

/// One item of the argument list.
#[derive(Debug, PartialEq)]
pub(crate) enum Argument {
    /// One argument, dropped if a variable is absent.
    One(Template),
    /// One argument for each item of a list.
    Each(Template),
    /// Arguments that are dropped together.
    Group(Vec<Template>),
    /// Arguments that are passed if a condition holds.
    When(Condition, Vec<Argument>),
}

/// Value of an environment variable.
#[derive(Debug)]
pub(crate) enum EnvironmentValue {
    Text(Template),
    Secret(SecretSource),
    /// The value that the server has.
    Inherited,
}

impl EnvironmentValue {
    fn secret(&self) -> Option<&SecretSource> {
        match self {
            Self::Secret(source) => Some(source),
            Self::Text(_) | Self::Inherited => None,
        }
    }
}

/// An HTTP request.
#[derive(Debug)]
pub(crate) struct HttpAction {
    pub(crate) method: hyper::Method,
    /// Scheme, host and port.
    pub(crate) origin: url::Url,
    /// Segments of the path.
    pub(crate) path: Vec<Template>,
    /// Query of the URL, and of the member `query`.
    pub(crate) query: Vec<Parameter>,
    pub(crate) headers: Vec<(hyper::header::HeaderName, HeaderTemplate)>,
    pub(crate) body: Option<BodyTemplate>,
    pub(crate) timeout: Duration,
    /// Hosts that may have private addresses.
    pub(crate) allow_private: Vec<Box<str>>,
    pub(crate) auth: Option<HttpAuth>,
    /// Repetitions after failures, of requests that may be repeated.
    pub(crate) retries: u32,
    /// Form of lists in the query and in a form.
    pub(crate) lists: ListStyle,
}

/// Form of lists whose items are single values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListStyle {
    /// `a=1&a=2`.
    #[default]
    Repeated,
    /// `a[0]=1&a[1]=2`.
    Indexed,
}

/// Parameter of a query or a form.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Template,
    pub(crate) value: ParameterValue,
}

#[derive(Debug)]
pub(crate) enum ParameterValue {
    /// A value; the members of an object are in brackets.
    Value(ValueTemplate),
    /// A list in one parameter, separated by commas.
    Joined(ValueTemplate),
    /// An object whose members are parameters of their own.
    Spread(ValueTemplate),
}

impl ParameterValue {
    fn template(&self) -> &ValueTemplate {
        match self {
            Self::Value(value) | Self::Joined(value) | Self::Spread(value) => value,
        }
    }
}

#[derive(Debug)]
pub(crate) enum HeaderTemplate {
    Text(Template),
    Secret { prefix: Box<str>, source: SecretSource },
}

/// Body of a request.
#[derive(Debug)]
pub(crate) enum BodyTemplate {
    Json(ValueTemplate),
    Form(Vec<Parameter>),
    /// A form that is the value of a variable.
    FormValue(ValueTemplate),
    Text(ValueTemplate),
    /// XML or HTML, in which values are escaped.
    Markup(ValueTemplate),
}

impl BodyTemplate {
    fn each_secret<'a>(&'a self, visit: &mut impl FnMut(&'a SecretSource)) {
        match self {
            Self::Json(value)
            | Self::FormValue(value)
            | Self::Text(value)
            | Self::Markup(value) => {
                value.each_secret(visit);
            }
            Self::Form(parameters) => {
                parameters.iter().for_each(|one| one.value.template().each_secret(visit));
            }
        }
    }
}

/// Credentials of a request, by reference.
#[derive(Debug)]
pub(crate) enum HttpAuth {
    Bearer(SecretSource),
    Basic { username: CredentialText, password: Option<SecretSource> },
    ClientCredentials(ClientCredentials),
}

/// A literal text or a secret.
#[derive(Debug, Clone)]
pub(crate) enum CredentialText {
    Literal(Box<str>),
    Secret(SecretSource),
}

/// The OAuth client credentials grant.
#[derive(Debug)]
pub(crate) struct ClientCredentials {
    pub(crate) token_url: url::Url,
    pub(crate) client_id: CredentialText,
    pub(crate) client_secret: SecretSource,
    pub(crate) scope: Box<str>,
}

impl CredentialText {
    fn secret(&self) -> Option<&SecretSource> {
        match self {
            Self::Literal(_) => None,
            Self::Secret(source) => Some(source),
        }
    }

    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Self::Literal(text) => Ok(text.to_string()),
            Self::Secret(source) => source.read().map(|secret| secret.expose().to_owned()),
        }
    }
}

impl HttpAction {
    fn secrets(&self) -> Vec<&SecretSource> {
        let mut secrets = Vec::new();
        for parameter in &self.query {
            parameter.value.template().each_secret(&mut |source| secrets.push(source));
        }
        if let Some(body) = &self.body {
            body.each_secret(&mut |source| secrets.push(source));
        }
        for (_, value) in &self.headers {
            if let HeaderTemplate::Secret { source, .. } = value {
                secrets.push(source);
            }
        }
        match &self.auth {
            None => {}
            Some(HttpAuth::Bearer(source)) => secrets.push(source),
            Some(HttpAuth::Basic { username, password }) => {
                secrets.extend(username.secret());
                secrets.extend(password);
            }
            Some(HttpAuth::ClientCredentials(grant)) => {
                secrets.extend(grant.client_id.secret());
                secrets.push(&grant.client_secret);
            }
        }
        secrets
    }
}

/// Rules for the output of a tool.
#[derive(Debug, Default)]
pub(crate) struct OutputRules {
    pub(crate) form: Option<OutputForm>,
    /// JSON Pointer to the part that is returned.
    pub(crate) pick: Option<Box<str>>,
    /// JSON Schema of the result.
    pub(crate) schema: Option<Value>,
    /// Limit on bytes, except for files.
    pub(crate) limit: Option<u64>,
    /// Name of a file.
    pub(crate) name: Option<Box<str>>,
    pub(crate) mime_type: Option<Box<str>>,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputForm {
    Text,
    Json,
    /// Text of which each line is reported as progress.
    Lines,
    /// A payload of any size.
    File,
}

/// One step of a flow.
#[derive(Debug)]
pub(crate) enum Step {
    Ask(AskStep),
    Call { tool: Box<str>, arguments: ValueTemplate, name: Option<Box<str>> },
    Set(Vec<(Box<str>, ValueTemplate)>),
    If { condition: Condition, then: Vec<Step>, otherwise: Vec<Step> },
    ForEach { items: ValueTemplate, name: Box<str>, steps: Vec<Step> },
    Approve { key: Box<str>, message: Template },
    Return(ValueTemplate),
}

/// A question of a flow.
#[derive(Debug)]
pub(crate) struct AskStep {
    pub(crate) key: Template,
    /// Variable that the answer is kept in.
    pub(crate) name: Box<str>,
    /// The prompt in its wire form, with templates.
    pub(crate) prompt: ValueTemplate,
}
