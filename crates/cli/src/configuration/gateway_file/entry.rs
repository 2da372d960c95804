//! One entry of a host's file, with what hosts and editors write besides our own keys.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::super::json_problem;
use super::super::problems::nearest;
use super::super::servers::{KNOWN, ServerEntry};
use super::{Members, locate, offset};

/// Reader of one entry, which collects its problems.
pub(super) struct EntryReader<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
    pub(super) problems: Vec<(usize, String)>,
}

impl EntryReader<'_> {
    /// Reads one server, as far as it is readable; `None` if it is disabled or no object.
    pub(super) fn read(&mut self, name: &str, raw: &RawValue) -> Option<ServerEntry> {
        let Ok(Members(members)) = serde_json::from_str(raw.get()) else {
            self.add(raw, "it must be an object");
            return None;
        };
        let (mut known, mut variables) = (serde_json::Map::new(), BTreeMap::new());
        for (key, raw) in members {
            let value = plain_value(&key, serde_json::from_str(raw.get()).unwrap_or_default());
            // Other hosts call the address otherwise.
            let key = match key.as_str() {
                "httpUrl" | "serverUrl" => "url".to_owned(),
                _ => key,
            };
            if key == "disabled" && value == Value::Bool(true) {
                return None;
            }
            if value.is_null() {
                continue;
            }
            if key == "envFile" {
                match read_variables(self.path, value.as_str().unwrap_or_default()) {
                    Ok(read) => variables = read,
                    Err(problem) => self.add(raw, &format!("`envFile`: {problem}")),
                }
                continue;
            }
            if !KNOWN.contains(&key.as_str()) && !OWN.contains(&key.as_str()) {
                // It may be a key of the host.
                if let Some(near) = nearest(&key, &OWN) {
                    let what = format!("`{key}` is ignored; did you mean `{near}`?");
                    let place = locate(self.text, offset(self.text, raw), &what);
                    tracing::warn!(server = name, "{}: {place}", self.path.display());
                }
                continue;
            }
            let alone = serde_json::Map::from_iter([(key.clone(), value.clone())]);
            match serde_json::from_value::<ServerEntry>(alone.into()) {
                Ok(_) => drop(known.insert(key, value)),
                Err(error) => {
                    self.add(raw, &format!("`{key}`: {}", json_problem(&error)));
                    // The rest is checked as if it were there.
                    if ["url", "command"].contains(&key.as_str()) {
                        known.insert(key, "http://localhost".into());
                    }
                }
            }
        }
        let mut entry: ServerEntry = serde_json::from_value(known.into()).ok()?;
        entry.add_variables(variables);
        Some(entry)
    }

    fn add(&mut self, value: &RawValue, problem: &str) {
        self.problems.push((offset(self.text, value), problem.to_owned()));
    }
}

/// Writes numbers and truth values as text where hosts accept them, and leaves members out that are
/// null.
fn plain_value(key: &str, mut value: Value) -> Value {
    let write = |value: &mut Value| {
        if matches!(value, Value::Number(_) | Value::Bool(_)) {
            *value = value.to_string().into();
        }
    };
    match (key, &mut value) {
        ("env" | "headers", Value::Object(members)) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(write);
        }
        ("args", Value::Array(elements)) => elements.iter_mut().for_each(write),
        _ => {}
    }
    value
}

/// Reads a file of environment variables, one `NAME=VALUE` per line, which is named relative to the
/// configuration.
fn read_variables(path: &Path, name: &str) -> Result<BTreeMap<String, String>, String> {
    let mut name = name.to_owned();
    for variable in ["workspaceFolder", "userHome"] {
        if let Some(value) = editor_variable(path, variable) {
            name = name.replace(&format!("${{{variable}}}"), &value);
        }
    }
    let file = path.parent().unwrap_or(Path::new("")).join(name);
    let text = std::fs::read_to_string(&file);
    let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let variables = lines.filter_map(|line| {
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
        let value = value.trim();
        let quoted = ['"', '\'']
            .into_iter()
            .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        Some((name.trim().to_owned(), quoted.unwrap_or(value).to_owned()))
    });
    Ok(variables.collect())
}

/// Value of a variable that editors define for the file in this place.
pub(super) fn editor_variable(path: &Path, name: &str) -> Option<String> {
    let path = match name {
        "workspaceFolder" => {
            let folder = std::path::absolute(path).ok()?.parent()?.to_owned();
            // Editors keep the files of a project in a folder of it.
            let is_hidden = folder
                .file_name()
                .is_some_and(|name| [".vscode", ".cursor"].iter().any(|known| name == *known));
            if is_hidden { folder.parent()?.to_owned() } else { folder }
        }
        "userHome" => std::env::home_dir()?,
        _ => return None,
    };
    Some(path.display().to_string())
}

/// Keys of ours that a host's file may have as well.
const OWN: [&str; 16] = [
    "revision",
    "result_bytes",
    "spool_bytes",
    "auth",
    "isolation",
    "instances",
    "idle_seconds",
    "timeout_seconds",
    "connect_seconds",
    "answer_seconds",
    "expose",
    "rename",
    "approve",
    "trust_annotations",
    "rerun",
    "pins",
];
