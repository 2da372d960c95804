//! Import of OpenAPI 3.0 and 3.1 descriptions into tool files.
//!
//! Nothing is generated at run time: the result is a file that its author edits. Schemas keep their
//! references: what an operation needs of `components` is in the `$defs` of its tool, so recursive
//! schemas stay recursive.

mod operation;
mod schema;
mod security;
mod yaml;

use serde_json::{Map, Value, json};
use wildmatch::WildMatch;

use operation::{Operation, Skipped};
pub use yaml::to_yaml;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Patterns of operation ids, paths, or "METHOD path"; all operations if empty.
    pub only: Vec<String>,
    /// Prefix of the names of tools.
    pub prefix: String,
    /// Base URL, in place of that of the description.
    pub server: Option<String>,
}

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The tool file.
    pub file: Value,
    /// Number of tools.
    pub tools: usize,
    /// Operations, parameters and rules that were left out, with the reasons.
    pub left_out: Vec<String>,
    /// Environment variables that hold the secrets.
    pub secrets: Vec<String>,
    /// Private addresses that the tools may connect to.
    pub private: Vec<String>,
}

/// A description that cannot be imported.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDescription(String);

/// Imports the operations of a description.
pub fn import(spec: &Value, options: &ImportOptions) -> Result<Imported, InvalidDescription> {
    let invalid = |message: &str| InvalidDescription(message.to_owned());
    match spec.get("openapi").and_then(Value::as_str) {
        Some(version) if version.starts_with("3.0") || version.starts_with("3.1") => {}
        Some(version) => {
            let message = format!("OpenAPI {version} is not supported; 3.0 and 3.1 are");
            return Err(InvalidDescription(message));
        }
        None if spec.get("swagger").is_some() => {
            let message = "this is Swagger 2.0; convert it to OpenAPI 3.0 first";
            return Err(invalid(message));
        }
        None => return Err(invalid("this is not an OpenAPI description: `openapi` is missing")),
    }
    let paths = spec.get("paths").and_then(Value::as_object);
    let paths = paths.ok_or_else(|| invalid("the description has no `paths`"))?;
    let patterns: Vec<_> = options.only.iter().map(|only| WildMatch::new(only)).collect();
    let mut import = Import {
        spec,
        options,
        names: Map::new(),
        left_out: Vec::new(),
        secrets: Vec::new(),
        private: Vec::new(),
        responses: 0,
    };
    let mut tools = Vec::new();
    for (path, item) in paths {
        let item = import.resolve(item);
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let operation = Operation { spec, path, method, item, value: operation };
            if !operation.is_selected(&patterns) {
                continue;
            }
            match import.tool(&operation) {
                Ok(tool) => tools.push(tool),
                Err(Skipped(reason)) => {
                    import.left_out.push(format!("{}: {reason}", operation.title()));
                }
            }
        }
    }
    if tools.is_empty() {
        let reasons = match import.left_out.as_slice() {
            [] => "no operation matches; --only takes operation ids and paths, with * for any text"
                .to_owned(),
            reasons => format!("no operation can be imported: {}", reasons.join("; ")),
        };
        return Err(InvalidDescription(reasons));
    }
    let webhooks = spec.get("webhooks").and_then(Value::as_object).map_or(0, Map::len);
    if webhooks > 0 && options.only.is_empty() {
        import.left_out.push(format!("{webhooks} webhooks: tools call, and are not called"));
    }
    if import.responses > 0 {
        import.left_out.push(format!(
            "the schemas of {} responses: a tool would fail where the API deviates from them; set \
             `output.schema` where you rely on one",
            import.responses
        ));
    }
    let Import { left_out, mut secrets, private, .. } = import;
    secrets.sort();
    secrets.dedup();
    let count = tools.len();
    Ok(Imported { file: json!({"tools": tools}), tools: count, left_out, secrets, private })
}

/// State of an import.
struct Import<'a> {
    spec: &'a Value,
    options: &'a ImportOptions,
    /// Names of tools so far.
    names: Map<String, Value>,
    left_out: Vec<String>,
    secrets: Vec<String>,
    private: Vec<String>,
    /// Tools whose responses have schemas.
    responses: usize,
}

impl<'a> Import<'a> {
    /// Follows the references of an object that is not a schema.
    fn resolve(&self, value: &'a Value) -> &'a Value {
        resolve(self.spec, value)
    }

    /// Returns a name that no other tool has.
    fn name(&mut self, operation: &Operation<'_>) -> String {
        let wanted = format!("{}{}", self.options.prefix, operation.name());
        let wanted: String = wanted.chars().take(MAX_NAME).collect();
        let alias = |name: &str| name.replace('.', "_").to_lowercase();
        let mut name = wanted.clone();
        let mut number = 2;
        while self.names.contains_key(&alias(&name)) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        self.names.insert(alias(&name), Value::Null);
        name
    }
}

/// Follows references within a description, up to a limit.
fn resolve<'a>(spec: &'a Value, mut value: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
        let Some(target) = target(spec, reference) else { return &Value::Null };
        value = target;
    }
    &Value::Null
}

/// Finds what a reference within the description refers to.
fn target<'a>(spec: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?;
    spec.pointer(&pointer)
}

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];
const MAX_REFERENCES: usize = 32;
const MAX_NAME: usize = 120;
