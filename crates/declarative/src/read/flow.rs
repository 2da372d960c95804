//! Reading `flow`.

use std::collections::HashSet;

use mcp_flow_session::Prompt;
use mcp_flow_workflow::document::{
    Fields, Problems, ValuePath, nearest, read_condition, short, shown,
};
use serde_json::{Map, Value, json};

use super::Reader;
use crate::model::{AskStep, Step};
use crate::template::{Template, ValueTemplate};

pub(super) fn read(
    value: &Value,
    path: ValuePath<'_>,
    reader: Reader<'_>,
    problems: &Problems,
) -> Option<Vec<Step>> {
    let Value::Array(steps) = value else {
        problems.error(path, format!("`flow` must be a list of steps, not {}", shown(value)));
        return None;
    };
    if steps.is_empty() {
        problems.error(path, "a flow has at least one step");
    }
    let keys = question_keys(steps);
    FlowReader { reader, problems, keys, steps: 0, depth: 0 }.steps(steps, path)
}

/// Returns the keys of all questions, at any depth of the steps.
fn question_keys(steps: &[Value]) -> HashSet<String> {
    let mut keys = HashSet::new();
    let mut waiting: Vec<&Value> = steps.iter().collect();
    while let Some(step) = waiting.pop() {
        keys.extend(step["ask"]["key"].as_str().map(str::to_owned));
        for inner in [&step["then"], &step["else"], &step["forEach"]["do"]] {
            waiting.extend(inner.as_array().into_iter().flatten());
        }
    }
    keys
}

struct FlowReader<'a> {
    reader: Reader<'a>,
    problems: &'a Problems,
    /// Keys of all questions, which are arguments of the tool.
    keys: HashSet<String>,
    steps: usize,
    depth: usize,
}

impl FlowReader<'_> {
    fn steps(&mut self, steps: &[Value], path: ValuePath<'_>) -> Option<Vec<Step>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.problems.error(path, format!("steps nest at most {MAX_DEPTH} levels"));
            self.depth -= 1;
            return None;
        }
        let read: Vec<_> = steps
            .iter()
            .enumerate()
            .map(|(index, step)| self.step(step, path.item(index)))
            .collect();
        self.depth -= 1;
        for (index, step) in read.iter().enumerate() {
            if matches!(step, Some(Step::Return(_))) && index + 1 < read.len() {
                self.problems.warning(path.item(index + 1), "steps after `return` never run");
            }
        }
        // All are read before the first error returns, so that all problems are reported.
        read.into_iter().collect()
    }

    fn nested(&mut self, fields: &Fields<'_>, name: &str) -> Option<Vec<Step>> {
        let items = fields.items(name)?;
        self.steps(items, fields.location(name))
    }

    fn step(&mut self, value: &Value, path: ValuePath<'_>) -> Option<Step> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            if self.steps == MAX_STEPS + 1 {
                self.problems
                    .error(path, format!("a flow has at most {MAX_STEPS} steps; split it"));
            }
            return None;
        }
        let fields = Fields::of(value, path, &STEP, self.problems)?;
        let kinds: Vec<_> = KINDS.into_iter().filter(|kind| fields.get(kind).is_some()).collect();
        let [kind] = kinds.as_slice() else {
            let near = fields.members().find_map(|(name, _)| nearest(name, KINDS));
            match (kinds.as_slice(), near) {
                ([], Some(_)) => {}
                ([], None) => fields.note_here(format!("a step is one of {}", KINDS.join(", "))),
                (several, _) => {
                    fields.note_here(format!("a step has only one of {}", several.join(", ")));
                }
            }
            return None;
        };
        if *kind != "if" {
            for name in ["then", "else"] {
                if fields.get(name).is_some() {
                    fields.note(name, format!("`{name}` belongs to `if`"));
                }
            }
        }
        let inner = fields.get(kind)?;
        let at = fields.location(kind);
        match *kind {
            "ask" => self.ask(inner, at),
            "call" => self.call(inner, at),
            "set" => self.set(inner, at),
            "if" => self.branch(inner, &fields),
            "forEach" => self.for_each(inner, at),
            "approve" => self.approve(inner, at),
            _ => Some(Step::Return(self.reader.value(inner, at, self.problems))),
        }
    }

    fn ask(&mut self, value: &Value, path: ValuePath<'_>) -> Option<Step> {
        let fields = Fields::of(value, path, &ASK, self.problems)?;
        let key = fields.required_text("key", 1..=100);
        let kind = match fields.get("type") {
            None => Some("text"),
            Some(_) => super::scalar::one_of(&fields, "type", &TYPES),
        };
        fields.required_text("message", 1..=MAX_MESSAGE);
        let name = fields.text("as", 1..=128);
        if let Some(choices) = fields.get("choices")
            && kind.is_some_and(|kind| kind != "choice")
            && !choices.is_null()
        {
            fields.note("choices", "`choices` needs `type: choice`");
        }
        if kind == Some("choice") && fields.get("choices").is_none() {
            fields.note_here("`choices` is missing");
        }
        let (key, kind) = (key?, kind?);
        let prompt = prompt_of(&fields, kind);
        self.check_prompt(&fields, &prompt);
        let template = self.reader.template(&key, fields.location("key"), self.problems)?;
        let is_literal = template.literal().is_some();
        let name = match (name, is_literal) {
            (Some(name), _) => name,
            (None, true) => key.clone(),
            (None, false) => {
                fields.note_here("a key with variables needs `as`, the name of the answer");
                return None;
            }
        };
        let prompt = self.reader.value(&prompt, path, self.problems);
        self.define(&name, fields.location("key"));
        Some(Step::Ask(AskStep { key: template, name, prompt }))
    }

    /// Checks the rules of a question, as far as they have no variables.
    fn check_prompt(&self, fields: &Fields<'_>, prompt: &Value) {
        let mut filled = ValueTemplate::parse(prompt, None, &mut |_, _| {});
        if let ValueTemplate::Object(members) = &mut filled {
            members.retain(|(name, value)| {
                matches!(&**name, "type" | "message") || !has_variables(value)
            });
        }
        let mut value = filled.render(&Map::new()).unwrap_or_default();
        if value["type"] == "choice" && value.get("choices").is_none() {
            value["choices"] = json!([{"value": 1, "label": "1"}]);
        }
        let checked = serde_json::from_value::<Prompt>(value);
        match checked {
            Err(error) => fields.note_here(format!("the question cannot be asked: {error}")),
            Ok(prompt) => {
                if let Err(error) = prompt.validate() {
                    fields.note_here(format!("the question cannot be asked: {error}"));
                }
            }
        }
    }

    fn call(&mut self, value: &Value, path: ValuePath<'_>) -> Option<Step> {
        let fields = Fields::of(value, path, &["tool", "arguments", "as"], self.problems)?;
        let tool = fields.required_text("tool", 1..=128);
        if tool.as_deref().is_some_and(|tool| tool.contains("{{")) {
            fields.note("tool", "`tool` cannot have variables; use `if`");
        }
        let arguments = match fields.get("arguments") {
            None => ValueTemplate::Object(Vec::new()),
            Some(arguments @ Value::Object(_)) => {
                self.reader.value(arguments, fields.location("arguments"), self.problems)
            }
            Some(Value::String(text))
                if Template::parse(text).is_ok_and(|one| one.only_variable().is_some()) =>
            {
                let at = fields.location("arguments");
                self.reader.value(&text.as_str().into(), at, self.problems)
            }
            Some(other) => {
                let message = format!("`arguments` must be an object, not {}", shown(other));
                fields.note("arguments", message);
                return None;
            }
        };
        let name = fields.text("as", 1..=128);
        if let Some(name) = &name {
            self.define(name, fields.location("as"));
        }
        Some(Step::Call { tool: tool?, arguments, name })
    }

    fn set(&mut self, value: &Value, path: ValuePath<'_>) -> Option<Step> {
        let Value::Object(members) = value else {
            let message =
                format!("`set` must be an object of names and values, not {}", shown(value));
            self.problems.error(path, message);
            return None;
        };
        let mut set = Vec::new();
        for (name, value) in members {
            let at = path.member(name);
            set.push((name.as_str().into(), self.reader.value(value, at, self.problems)));
            self.define(name, at);
        }
        Some(Step::Set(set))
    }

    fn branch(&mut self, value: &Value, fields: &Fields<'_>) -> Option<Step> {
        let at = fields.location("if");
        if let Value::String(text) = value {
            let name = text.trim_matches(['{', '}', ' ']);
            let message = format!("a condition is an object; write {{var: {}}}", short(name));
            self.problems.error(at, message);
            return None;
        }
        let condition = read_condition(value, at, self.problems);
        if let Some(condition) = &condition {
            for variable in condition.variables() {
                self.reader.known.check(variable, at, self.problems);
            }
        }
        let then = match fields.get("then") {
            Some(_) => self.nested(fields, "then"),
            None => {
                fields.note_here("`then` is missing");
                None
            }
        };
        let otherwise = match fields.get("else") {
            Some(_) => self.nested(fields, "else"),
            None => Some(Vec::new()),
        };
        Some(Step::If { condition: condition?, then: then?, otherwise: otherwise? })
    }

    fn for_each(&mut self, value: &Value, path: ValuePath<'_>) -> Option<Step> {
        let fields = Fields::of(value, path, &["items", "as", "do"], self.problems)?;
        let items = fields.require("items")?;
        let at = fields.location("items");
        let items = match items {
            // A plain name is a variable, as in the loops of workflows.
            Value::String(text) if !text.contains("{{") => {
                self.reader.value(&format!("{{{{{text}}}}}").into(), at, self.problems)
            }
            Value::String(_) | Value::Array(_) => self.reader.value(items, at, self.problems),
            other => {
                fields.note(
                    "items",
                    format!("`items` must be a list or a variable, not {}", shown(other)),
                );
                return None;
            }
        };
        let name = fields.text("as", 1..=128).unwrap_or_else(|| "item".into());
        self.define(&name, fields.location("as"));
        self.reader.known.add("index");
        let steps = self.nested(&fields, "do")?;
        Some(Step::ForEach { items, name, steps })
    }

    fn approve(&mut self, value: &Value, path: ValuePath<'_>) -> Option<Step> {
        if value.is_string() {
            let message = format!("`approve` is an object; write {{message: {}}}", shown(value));
            self.problems.error(path, message);
            return None;
        }
        let fields = Fields::of(value, path, &["message", "key"], self.problems)?;
        let message = fields.required_text("message", 1..=MAX_MESSAGE)?;
        let message = self.reader.template(&message, fields.location("message"), self.problems)?;
        let key = fields.text("key", 1..=100).unwrap_or_else(|| "approve".into());
        let is_question = self.keys.contains(&*key);
        if is_question || self.reader.known.names.iter().any(|(name, _)| *name == key) {
            let what = if is_question { "the key of a question" } else { "a variable" };
            let message = format!(
                "`{key}` is {what} already, which an argument answers; only a person approves, so \
                 give `approve` another `key`"
            );
            fields.note_here(message);
        }
        Some(Step::Approve { key, message })
    }

    /// Adds a variable.
    fn define(&mut self, name: &str, path: ValuePath<'_>) {
        let is_name = Template::parse(&format!("{{{{{name}}}}}"))
            .is_ok_and(|template| template.only_variable() == Some(name));
        if !is_name || name.contains('.') {
            let message = "the name of a variable has letters, digits, '_' and '-'";
            self.problems.error(path, message);
        }
        self.reader.known.add(name);
    }
}

/// Builds the wire form of a question from its members.
fn prompt_of(fields: &Fields<'_>, kind: &str) -> Value {
    let mut prompt = Map::new();
    prompt.insert("type".to_owned(), kind.into());
    for name in ["message", "placeholder", "ui"] {
        if let Some(value) = fields.get(name) {
            prompt.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(default) = fields.get("default").or_else(|| fields.get("defaultValue")) {
        prompt.insert("defaultValue".to_owned(), default.clone());
    }
    match fields.get("choices") {
        Some(Value::Array(choices)) => {
            let choices = choices.iter().map(|choice| match choice {
                Value::Object(members) if members.contains_key("value") => {
                    let mut choice = choice.clone();
                    if choice.get("label").is_none() {
                        choice["label"] = crate::template::shown(&choice["value"]).into();
                    }
                    choice
                }
                // Labels are added when the question is asked.
                other => other.clone(),
            });
            prompt.insert("choices".to_owned(), choices.collect::<Vec<_>>().into());
        }
        Some(other) => {
            prompt.insert("choices".to_owned(), other.clone());
        }
        None => {}
    }
    let mut rules = match fields.get("validation") {
        Some(Value::Object(rules)) => rules.clone(),
        _ => Map::new(),
    };
    for name in RULES {
        if let Some(value) = fields.get(name) {
            rules.insert(name.to_owned(), value.clone());
        }
    }
    rules.entry("required").or_insert(Value::Bool(true));
    if rules.get("required") == Some(&Value::Bool(false)) {
        rules.remove("required");
    }
    if kind == "custom" && !rules.contains_key("schema") {
        rules.insert("schema".to_owned(), json!({}));
    }
    prompt.insert("validation".to_owned(), rules.into());
    let value = Value::Object(prompt);
    crate::flow::with_labels(value)
}

fn has_variables(value: &ValueTemplate) -> bool {
    let mut found = false;
    value.each_variable(&mut |_| found = true);
    found
}

const STEP: [&str; 9] =
    ["ask", "call", "set", "if", "then", "else", "forEach", "approve", "return"];

const KINDS: [&str; 7] = ["ask", "call", "set", "if", "forEach", "approve", "return"];

const ASK: [&str; 19] = [
    "key",
    "type",
    "message",
    "as",
    "placeholder",
    "default",
    "defaultValue",
    "choices",
    "validation",
    "ui",
    "required",
    "pattern",
    "min",
    "max",
    "integer",
    "maxSize",
    "mimeTypes",
    "uriSchemes",
    "schema",
];

const RULES: [&str; 9] = [
    "required",
    "pattern",
    "min",
    "max",
    "integer",
    "maxSize",
    "mimeTypes",
    "uriSchemes",
    "schema",
];

const TYPES: [(&str, &str); 7] = [
    ("text", "text"),
    ("choice", "choice"),
    ("confirm", "confirm"),
    ("number", "number"),
    ("date", "date"),
    ("file", "file"),
    ("custom", "custom"),
];

const MAX_MESSAGE: usize = 16 * 1024;
const MAX_STEPS: usize = 1000;
const MAX_DEPTH: usize = 16;
