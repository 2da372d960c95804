//! Reading `run`.

use std::path::PathBuf;
use std::time::Duration;

use mcp_flow_workflow::document::{Fields, Problems, ValuePath, read_condition, shown};
use serde_json::Value;

use super::{Reader, interpreter, scalar};
use crate::model::{Argument, CommandAction, EnvironmentValue};
use crate::sandbox::{SandboxMode, SandboxRules};
use crate::template::Template;

pub(super) fn read(
    value: &Value,
    path: ValuePath<'_>,
    reader: Reader<'_>,
    problems: &Problems,
) -> Option<CommandAction> {
    let fields = Fields::of(value, path, &RUN, problems)?;
    let program = fields.required_text("program", 1..=4096);
    if let Some(program) = &program {
        if program.contains("{{") {
            fields.note("program", "`program` cannot have variables; declare one tool for each");
        } else if program.contains(char::is_whitespace) && !program.contains('/') {
            let message = "`program` is one program without arguments; pass those as `args`";
            fields.note("program", message);
        } else if program.contains('\0') {
            fields.note("program", "`program` contains NUL");
        }
    }
    let args = match fields.get("args") {
        None => Vec::new(),
        Some(_) => read_arguments(&fields, "args", &reader),
    };
    let env = read_environment(&fields, &reader);
    let cwd =
        fields.text("cwd", 1..=4096).and_then(|cwd| literal_path(&fields, "cwd", &cwd, &reader));
    let stdin = fields.get("stdin");
    let stdin =
        stdin.map(|stdin| reader.value_with_secrets(stdin, fields.location("stdin"), problems));
    if let Some(program) = &program {
        interpreter::check(program, &args, stdin.as_ref(), &fields);
    }
    let timeout = scalar::duration(&fields, "timeout", MIN_TIMEOUT..=MAX_TIMEOUT);
    let success = match fields.get("success") {
        None => vec![0],
        Some(_) => read_codes(&fields),
    };
    let sandbox = read_sandbox(&fields, &reader);
    Some(CommandAction {
        program: program?,
        args,
        env,
        cwd,
        folder: reader.folder.to_owned(),
        stdin,
        timeout: timeout.unwrap_or(TIMEOUT),
        sandbox,
        success,
    })
}

fn read_arguments(fields: &Fields<'_>, name: &str, reader: &Reader<'_>) -> Vec<Argument> {
    let list = fields.location(name);
    let items = fields.items(name).into_iter().flatten().enumerate();
    items
        .filter_map(|(index, item)| {
            read_argument(item, list.item(index), reader, fields.problems())
        })
        .collect()
}

fn read_argument(
    value: &Value,
    path: ValuePath<'_>,
    reader: &Reader<'_>,
    problems: &Problems,
) -> Option<Argument> {
    match value {
        Value::Array(items) => {
            let group = items.iter().enumerate().map(|(index, item)| {
                let path = path.item(index);
                let text = word(item, path, problems)?;
                one(&text, path, reader, problems)
            });
            group.collect::<Option<_>>().map(Argument::Group)
        }
        Value::Object(members) if members.contains_key("each") => {
            let fields = Fields::of(value, path, &["each"], problems)?;
            let text = fields.required_text("each", 1..=4096)?;
            // A plain name is a variable as well.
            let text = if text.contains("{{") { text } else { format!("{{{{{text}}}}}").into() };
            let template = reader.template(&text, fields.location("each"), problems)?;
            let variables: Vec<_> = template.variables().collect();
            let [list] = variables.as_slice() else {
                fields.note("each", "`each` has exactly one variable, which is a list");
                return None;
            };
            if reader.known.kind(list).is_some_and(|kind| kind != "array") {
                fields.note("each", format!("`{list}` is not a list; use it without `each`"));
            }
            Some(Argument::Each(template))
        }
        Value::Object(_) => {
            let fields = Fields::of(value, path, &["each", "if", "then"], problems)?;
            let condition = fields.require("if")?;
            let condition = read_condition(condition, fields.location("if"), problems)?;
            for variable in condition.variables() {
                reader.known.check(variable, fields.location("if"), problems);
            }
            Some(Argument::When(condition, read_arguments(&fields, "then", reader)))
        }
        other => {
            let text = word(other, path, problems)?;
            one(&text, path, reader, problems).map(Argument::One)
        }
    }
}

/// Text of one argument.
fn word(value: &Value, path: ValuePath<'_>, problems: &Problems) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => {
            problems.error(path, format!("an argument is a text, not {}", shown(other)));
            return None;
        }
    };
    if text.contains('\0') {
        problems.error(path, "an argument cannot contain NUL");
        return None;
    }
    Some(text)
}

fn one(
    text: &str,
    path: ValuePath<'_>,
    reader: &Reader<'_>,
    problems: &Problems,
) -> Option<Template> {
    let template = reader.template(text, path, problems)?;
    for variable in template.variables() {
        if let Some(kind @ ("array" | "object")) = reader.known.kind(variable) {
            let message = match kind {
                "array" => format!(
                    "`{variable}` is a list; write {{each: \"{text}\"}} to pass one argument for \
                     each of its items"
                ),
                _ => format!("`{variable}` is an object; use one of its members"),
            };
            problems.error(path, message);
        }
    }
    Some(template)
}

fn read_environment(fields: &Fields<'_>, reader: &Reader<'_>) -> Vec<(Box<str>, EnvironmentValue)> {
    let Some(value) = fields.get("env") else { return Vec::new() };
    let Value::Object(members) = value else {
        fields.note("env", format!("`env` must be an object, not {}", shown(value)));
        return Vec::new();
    };
    let (path, problems) = (fields.location("env"), fields.problems());
    let mut read = Vec::new();
    for (name, value) in members {
        let path = path.member(name);
        if name.is_empty() || name.contains(['=', '\0']) {
            problems.error(path, "this cannot be the name of an environment variable");
            continue;
        }
        let value = match value {
            Value::Object(members) if members.contains_key("inherit") => {
                let Some(fields) = Fields::of(value, path, &["inherit"], problems) else { continue };
                match fields.flag("inherit") {
                    Some(true) => Some(EnvironmentValue::Inherited),
                    _ => {
                        fields.note("inherit", "`inherit` is true; otherwise leave the variable out");
                        None
                    }
                }
            }
            Value::Object(_) => {
                let Some(fields) = Fields::of(value, path, &["secret", "inherit"], problems) else {
                    continue;
                };
                scalar::secret(&fields, reader.folder).map(EnvironmentValue::Secret)
            }
            other => word(other, path, problems).and_then(|text| {
                let template = reader.template(&text, path, problems)?;
                if template.literal().is_none() && changes_programs(name) {
                    let message = format!(
                        "`{name}` changes which programs and libraries run; it cannot have variables"
                    );
                    problems.error(path, message);
                }
                Some(EnvironmentValue::Text(template))
            }),
        };
        read.extend(value.map(|value| (name.as_str().into(), value)));
    }
    read
}

/// Returns whether an environment variable decides what is executed.
fn changes_programs(name: &str) -> bool {
    let exact = [
        "PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "SHELL",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYOPT",
        "RUBYLIB",
        "NODE_OPTIONS",
        "NODE_PATH",
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "GIT_EDITOR",
        "PAGER",
        "EDITOR",
        "VISUAL",
        "LESSOPEN",
        "JAVA_TOOL_OPTIONS",
        "PROMPT_COMMAND",
    ];
    exact.contains(&name)
        || ["LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG"].iter().any(|start| name.starts_with(start))
}

/// Reads a path without variables, below the directory of the file.
fn literal_path(
    fields: &Fields<'_>,
    name: &str,
    text: &str,
    reader: &Reader<'_>,
) -> Option<PathBuf> {
    if text.contains("{{") || text.contains('\0') {
        fields.note(name, format!("`{name}` cannot have variables"));
        return None;
    }
    Some(reader.folder.join(text))
}

fn read_codes(fields: &Fields<'_>) -> Vec<i32> {
    let items = fields.items("success").into_iter().flatten().enumerate();
    items
        .filter_map(|(index, code)| {
            let read = code.as_i64().and_then(|code| u8::try_from(code).ok());
            if read.is_none() {
                let path = fields.location("success");
                let message = format!("an exit code is from 0 to 255, not {}", shown(code));
                fields.problems().error(path.item(index), message);
            }
            read.map(i32::from)
        })
        .collect()
}

fn read_sandbox(fields: &Fields<'_>, reader: &Reader<'_>) -> Option<SandboxRules> {
    let value = fields.get("sandbox")?;
    // YAML reads a plain `off` as a text, but others write false.
    if *value == Value::Bool(false) {
        return None;
    }
    if value.is_string() {
        return scalar::one_of(fields, "sandbox", &MODES)?.map(SandboxRules::new);
    }
    let path = fields.location("sandbox");
    let rules = Fields::of(value, path, &SANDBOX, fields.problems())?;
    let mode = scalar::one_of(&rules, "mode", &MODES).unwrap_or(Some(SandboxMode::Files))?;
    let mut sandbox = SandboxRules::new(mode);
    for (name, paths) in [("read", &mut sandbox.read), ("write", &mut sandbox.write)] {
        for text in rules.texts(name, 1..=4096) {
            paths.extend(literal_path(&rules, name, &text, reader));
        }
    }
    if let Some(network) = rules.flag("network") {
        sandbox.network = network;
    }
    sandbox.memory = scalar::size(&rules, "memory", 1 << 20..=1 << 46).or(sandbox.memory);
    let cpu = scalar::duration(&rules, "cpu", Duration::from_secs(1)..=MAX_TIMEOUT);
    sandbox.cpu_seconds = cpu.map(|cpu| cpu.as_secs().max(1)).or(sandbox.cpu_seconds);
    sandbox.processes = rules.whole("processes", 1..=1_000_000).or(sandbox.processes);
    sandbox.open_files = rules.whole("files", 3..=1_000_000).or(sandbox.open_files);
    sandbox.file_bytes = scalar::size(&rules, "fileSize", 0..=1 << 46).or(sandbox.file_bytes);
    Some(sandbox)
}

const RUN: [&str; 8] = ["program", "args", "env", "cwd", "stdin", "timeout", "sandbox", "success"];

const SANDBOX: [&str; 9] =
    ["mode", "read", "write", "network", "memory", "cpu", "processes", "files", "fileSize"];

const MODES: [(&str, Option<SandboxMode>); 3] =
    [("off", None), ("files", Some(SandboxMode::Files)), ("strict", Some(SandboxMode::Strict))];

const TIMEOUT: Duration = Duration::from_secs(30);
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
