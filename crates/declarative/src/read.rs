//! Reading tool files, with all their problems.
//!
//! `docs/tools.schema.json` defines the same; a test compares the two.

mod flow;
mod http;
mod interpreter;
mod run;
mod scalar;

pub(crate) use http::is_private;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use mcp_flow_interaction::TaskMode;
use mcp_flow_proto::model::ToolAnnotations;
use mcp_flow_proto::text::unescape_pointer;
use mcp_flow_schema::Schema;
use mcp_flow_workflow::document::{
    Fields, Format, FoundFile, Problem, Problems, Severity, ValuePath, nearest, shown,
};
use serde_json::{Map, Value, json};

use crate::model::{Action, DeclaredTool, OutputForm, OutputRules, ToolFile, alias};
use crate::template::{Template, ValueTemplate};

/// Result of reading a tool file.
#[derive(Debug)]
pub struct ToolReading {
    /// The tools, if there are no errors.
    pub file: Option<ToolFile>,
    /// Problems in the order of the file.
    pub problems: Vec<Problem>,
}

impl ToolReading {
    /// Reads the text of a file in this directory.
    ///
    /// ```
    /// use mcp_flow_declarative::ToolReading;
    /// use mcp_flow_workflow::Format;
    ///
    /// let text = "tools:\n- name: now\n  description: Time of day\n  run: {progam: date}\n";
    /// let reading = ToolReading::of(text, Format::Yaml, ".".as_ref());
    /// assert_eq!(
    ///     reading.problems[1].to_string(),
    ///     "line 4, column 9: `progam` is unknown; did you mean `program`?"
    /// );
    /// ```
    pub fn of(text: &str, format: Format, folder: &Path) -> Self {
        let value = match format.parse_up_to(text, MAX_VALUES) {
            Ok(value) => value,
            Err(problem) => return Self { file: None, problems: vec![problem] },
        };
        let problems = Problems::default();
        let tools = read_file(&value, folder, &problems);
        let problems = problems.located(text, format);
        let is_usable = !problems.iter().any(Problem::is_error);
        let file = tools
            .filter(|_| is_usable)
            .map(|tools| ToolFile { tools, hash: mcp_flow_seal::sha256_hex(text.as_bytes()) });
        Self { file, problems }
    }

    /// Reads a file.
    pub fn of_file(found: &FoundFile) -> Self {
        let folder = found.path.parent().unwrap_or(Path::new("."));
        match found.read(MAX_BYTES) {
            Ok(text) => Self::of(&text, found.format, folder),
            Err(message) => Self::failed(message),
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { file: None, problems: vec![Problem::of_file(message)] }
    }
}

/// Creates problems of tools of a file, each at the name of its tool.
pub(crate) fn problems_of_tools(
    path: &Path,
    file: &ToolFile,
    severity: Severity,
    messages: Vec<(Box<str>, String)>,
) -> Vec<Problem> {
    if messages.is_empty() {
        return Vec::new();
    }
    let found = FoundFile::named(path);
    // What cannot be read any more has no positions.
    let text = found.read(MAX_BYTES).unwrap_or_default();
    let problems = Problems::default();
    let list = ValuePath::ROOT.member("tools");
    for (name, message) in messages {
        let index = file.tools.iter().position(|tool| tool.name == name).unwrap_or_default();
        let tool = list.item(index);
        match severity {
            Severity::Error => problems.error(tool.member("name"), message),
            Severity::Warning => problems.warning(tool.member("name"), message),
        }
    }
    problems.located(&text, found.format)
}

/// Reads one tool that was valid in its file.
pub(crate) fn read_stored(value: &Value, folder: &Path) -> Option<DeclaredTool> {
    let problems = Problems::default();
    read_tool(value, ValuePath::ROOT, folder, &problems)
}

fn read_file(value: &Value, folder: &Path, problems: &Problems) -> Option<Vec<Arc<DeclaredTool>>> {
    let fields = Fields::of(value, ValuePath::ROOT, &["$schema", "tools"], problems)?;
    let items = fields.items("tools")?;
    if items.len() > MAX_TOOLS {
        fields.note("tools", format!("a file has at most {MAX_TOOLS} tools; split it"));
        return None;
    }
    let list = fields.location("tools");
    let mut names = HashSet::new();
    let mut tools = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = list.item(index);
        if let Some(tool) = read_tool(item, path, folder, problems) {
            if !names.insert(alias(&tool.name)) {
                let message = format!("`{}` is declared twice; rename one of them", tool.name);
                problems.error(path.member("name"), message);
            }
            tools.push(Arc::new(tool));
        }
    }
    Some(tools)
}

fn read_tool(
    value: &Value,
    path: ValuePath<'_>,
    folder: &Path,
    problems: &Problems,
) -> Option<DeclaredTool> {
    let fields = Fields::of(value, path, &TOOL, problems)?;
    let name = fields.required_text("name", 1..=128);
    if let Some(name) = &name
        && !is_tool_name(name)
    {
        fields.note("name", "`name` must be letters, digits, '_', '-' or '.'");
    }
    let title = fields.text("title", 1..=256);
    let description = fields.text("description", 1..=MAX_DESCRIPTION);
    if fields.get("description").is_none() {
        fields.warn("without `description` a model cannot know when to use this tool");
    }
    let input = read_input(&fields);
    let known = Known::of(&input);
    let annotations = read_annotations(&fields);
    let internal = fields.flag("internal").unwrap_or_default();
    let task = scalar::one_of(&fields, "task", &TASK_MODES);
    if task.is_some() && fields.get("flow").is_none() {
        fields.note("task", "`task` is for flows");
    }
    let output = read_output(&fields);
    let reader = Reader { folder, known };
    let action = read_action(&fields, reader);
    Some(DeclaredTool {
        name: name?,
        title,
        description,
        input,
        annotations,
        internal,
        task: task.unwrap_or_default(),
        action: action?,
        output,
        source: value.clone(),
    })
}

fn read_action(fields: &Fields<'_>, reader: Reader<'_>) -> Option<Action> {
    let kinds: Vec<_> = ACTIONS.into_iter().filter(|kind| fields.get(kind).is_some()).collect();
    let [kind] = kinds.as_slice() else {
        fields.note_here(match kinds.as_slice() {
            [] => "a tool has `run`, `http` or `flow`".to_owned(),
            several => format!("a tool has only one of {}", several.join(", ")),
        });
        return None;
    };
    let value = fields.get(kind)?;
    let path = fields.location(kind);
    match *kind {
        "run" => run::read(value, path, reader, fields.problems()).map(Box::new).map(Action::Run),
        "http" => {
            http::read(value, path, reader, fields.problems()).map(Box::new).map(Action::Http)
        }
        _ => flow::read(value, path, reader, fields.problems()).map(Action::Flow),
    }
}

/// Context of the members of a tool.
#[derive(Clone)]
struct Reader<'a> {
    /// Directory of the file.
    folder: &'a Path,
    known: Known,
}

/// Names of variables, with the types of arguments.
#[derive(Clone)]
struct Known {
    names: Vec<(Box<str>, Option<Box<str>>)>,
    /// Set if there may be others.
    is_open: bool,
}

impl Known {
    fn of(input: &Map<String, Value>) -> Self {
        let properties = input.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flatten().map(|(name, schema)| {
            let kind = schema.get("type").and_then(Value::as_str).map(Into::into);
            (name.as_str().into(), kind)
        });
        let opens = ["patternProperties", "$ref", "allOf", "anyOf", "oneOf"];
        let is_open = opens.iter().any(|keyword| input.contains_key(*keyword))
            || input.get("additionalProperties").is_some_and(|rule| *rule != Value::Bool(false));
        Self { names: names.collect(), is_open }
    }

    fn add(&mut self, name: &str) {
        self.names.push((name.into(), None));
    }

    /// Returns the declared type of an argument.
    fn kind(&self, name: &str) -> Option<&str> {
        let found = self.names.iter().rev().find(|(known, _)| &**known == name)?;
        found.1.as_deref()
    }

    /// Reports a variable that does not exist.
    fn check(&self, variable: &str, path: ValuePath<'_>, problems: &Problems) {
        let first = variable.split('.').next().unwrap_or(variable);
        let is = |(known, _): &(Box<str>, _)| **known == *first || **known == *variable;
        if self.is_open || self.names.iter().any(is) {
            return;
        }
        let near = nearest(first, self.names.iter().map(|(name, _)| &**name));
        let message = match near {
            Some(near) => format!("there is no variable `{first}`; did you mean `{near}`?"),
            None => format!("there is no variable `{first}`; declare it under `input.properties`"),
        };
        problems.error(path, message);
    }

    fn check_template(&self, template: &Template, path: ValuePath<'_>, problems: &Problems) {
        template.variables().for_each(|name| self.check(name, path, problems));
    }
}

impl Reader<'_> {
    /// Reads a text with variables.
    fn template(&self, text: &str, path: ValuePath<'_>, problems: &Problems) -> Option<Template> {
        match Template::parse(text) {
            Ok(template) => {
                self.known.check_template(&template, path, problems);
                Some(template)
            }
            Err(message) => {
                problems.error(path, message);
                None
            }
        }
    }

    /// Reads a value with variables in its texts.
    fn value(&self, value: &Value, path: ValuePath<'_>, problems: &Problems) -> ValueTemplate {
        self.value_below(None, value, path, problems)
    }

    /// Reads a value with variables and references to secrets.
    fn value_with_secrets(
        &self,
        value: &Value,
        path: ValuePath<'_>,
        problems: &Problems,
    ) -> ValueTemplate {
        self.value_below(Some(self.folder), value, path, problems)
    }

    fn value_below(
        &self,
        folder: Option<&Path>,
        value: &Value,
        path: ValuePath<'_>,
        problems: &Problems,
    ) -> ValueTemplate {
        let template = ValueTemplate::parse(value, folder, &mut |pointer, message| {
            at_pointer(path, pointer, &mut |path| problems.error(path, message.clone()));
        });
        self.check_value(&template, path, problems);
        template
    }

    fn check_value(&self, template: &ValueTemplate, path: ValuePath<'_>, problems: &Problems) {
        match template {
            ValueTemplate::Literal(_) | ValueTemplate::Secret(_) => {}
            ValueTemplate::Variable(name) => self.known.check(name, path, problems),
            ValueTemplate::Text(text) => self.known.check_template(text, path, problems),
            ValueTemplate::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check_value(item, path.item(index), problems);
                }
            }
            ValueTemplate::Object(members) => {
                for (name, member) in members {
                    self.check_value(member, path.member(name), problems);
                }
            }
        }
    }
}

/// Calls a function with the path that a JSON Pointer leads to.
fn at_pointer(path: ValuePath<'_>, pointer: &str, use_path: &mut dyn FnMut(ValuePath<'_>)) {
    match pointer.strip_prefix('/') {
        None => use_path(path),
        Some(rest) => {
            let (part, rest) = match rest.find('/') {
                Some(end) => rest.split_at(end),
                None => (rest, ""),
            };
            let part = unescape_pointer(part);
            at_pointer(path.member(&part), rest, use_path);
        }
    }
}

fn read_input(fields: &Fields<'_>) -> Map<String, Value> {
    let mut input = match fields.get("input") {
        None => Map::new(),
        Some(Value::Object(input)) => input.clone(),
        Some(other) => {
            let message = format!("`input` must be a JSON Schema, not {}", shown(other));
            fields.note("input", message);
            return Map::new();
        }
    };
    match input.get("type") {
        None => {
            input.insert("type".to_owned(), "object".into());
        }
        Some(kind) if kind == "object" => {}
        Some(_) => fields.note("input", "the type of `input` must be object"),
    }
    check_schema(fields, "input", &Value::Object(input.clone()));
    input
}

fn check_schema(fields: &Fields<'_>, name: &str, schema: &Value) {
    if let Err(error) = Schema::compile(schema) {
        fields.note(name, format!("`{name}` is not a usable JSON Schema: {error}"));
    }
}

fn read_annotations(fields: &Fields<'_>) -> Option<ToolAnnotations> {
    let value = fields.get("annotations")?;
    let path = fields.location("annotations");
    let hints = Fields::of(value, path, &ANNOTATIONS, fields.problems())?;
    let flag = |short: &str, long: &str| hints.flag(short).or_else(|| hints.flag(long));
    Some(ToolAnnotations {
        title: hints.text("title", 1..=256).map(Into::into),
        read_only_hint: flag("readOnly", "readOnlyHint"),
        destructive_hint: flag("destructive", "destructiveHint"),
        idempotent_hint: flag("idempotent", "idempotentHint"),
        open_world_hint: flag("openWorld", "openWorldHint"),
    })
}

fn read_output(fields: &Fields<'_>) -> OutputRules {
    let Some(value) = fields.get("output") else { return OutputRules::default() };
    let path = fields.location("output");
    let Some(output) = Fields::of(value, path, &OUTPUT, fields.problems()) else {
        return OutputRules::default();
    };
    if fields.get("flow").is_some() {
        for name in ["limit", "name", "mimeType"] {
            if output.get(name).is_some() {
                output.note(name, format!("the output of a flow is its `return`; remove `{name}`"));
            }
        }
    }
    let form = scalar::one_of(&output, "as", &FORMS);
    let is_stream = matches!(form, Some(OutputForm::Lines | OutputForm::File));
    if is_stream && fields.get("flow").is_some() {
        output.note("as", "the output of a flow is its `return`: `as` is json or text");
    }
    let pick = output.get("pick").and_then(|pick| match pick.as_str() {
        Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => Some(pointer.into()),
        _ => {
            let message =
                format!("`pick` must be a JSON Pointer such as /items, not {}", shown(pick));
            output.note("pick", message);
            None
        }
    });
    let schema = output.get("schema").cloned();
    if let Some(schema) = &schema {
        match schema {
            Value::Object(_) => check_schema(&output, "schema", schema),
            other => {
                let message = format!("`schema` must be a JSON Schema, not {}", shown(other));
                output.note("schema", message);
            }
        }
    }
    let needs_json = pick.is_some() || schema.as_ref().is_some_and(|schema| *schema != json!({}));
    if needs_json && form.is_some_and(|form| form != OutputForm::Json) {
        output.note("as", "`pick` and `schema` need `as: json`");
    }
    let form = form.or(needs_json.then_some(OutputForm::Json));
    let is_file = form == Some(OutputForm::File);
    if is_file && output.get("limit").is_some() {
        output.note("limit", "a file has no limit");
    }
    OutputRules {
        form,
        pick,
        schema: schema.filter(|schema| *schema != json!({})),
        limit: scalar::size(&output, "limit", 1..=MAX_LIMIT),
        name: output.text("name", 1..=256),
        mime_type: output.text("mimeType", 1..=256),
    }
}

fn is_tool_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

const TOOL: [&str; 11] = [
    "name",
    "title",
    "description",
    "input",
    "annotations",
    "internal",
    "task",
    "run",
    "http",
    "flow",
    "output",
];

const ACTIONS: [&str; 3] = ["run", "http", "flow"];

const ANNOTATIONS: [&str; 9] = [
    "title",
    "readOnly",
    "destructive",
    "idempotent",
    "openWorld",
    "readOnlyHint",
    "destructiveHint",
    "idempotentHint",
    "openWorldHint",
];

const OUTPUT: [&str; 6] = ["as", "pick", "schema", "limit", "name", "mimeType"];

const TASK_MODES: [(&str, TaskMode); 4] = [
    ("auto", TaskMode::Auto),
    ("always", TaskMode::Always),
    ("required", TaskMode::Required),
    ("never", TaskMode::Never),
];

const FORMS: [(&str, OutputForm); 4] = [
    ("text", OutputForm::Text),
    ("json", OutputForm::Json),
    ("lines", OutputForm::Lines),
    ("file", OutputForm::File),
];

/// Limit on the bytes of a file. An import of a large API has several megabytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Limit on the values of a file.
const MAX_VALUES: usize = 1_000_000;

const MAX_TOOLS: usize = 5_000;
const MAX_DESCRIPTION: usize = 64 * 1024;

/// Limit on the limit of an output: results are messages.
const MAX_LIMIT: u64 = 16 * 1024 * 1024;
