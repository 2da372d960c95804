//! How a flow that was called as a tool ended, as a tool's result.

use mcp_flow_engine::OpenQuestion;
use mcp_flow_server::{Failure, ToolOutput};
use mcp_flow_session::event::{Ended, Ending};
use mcp_flow_session::prompt::Choice;
use mcp_flow_session::{Prompt, PromptType};
use serde_json::{Map, Value, json};

use crate::fault::{fault_name, limit_name};
use crate::wire;

/// The result of a flow.
pub(super) fn of(ended: &Ended) -> ToolOutput {
    match &ended.ending {
        Ending::Completed { success: true, data, summary } => {
            let mut output = match data {
                Value::String(text) => ToolOutput::text(text.as_str()),
                data => ToolOutput::structured(wire::object(data)),
            };
            if let Some(summary) = summary {
                output.meta.insert("summary".to_owned(), summary.as_str().into());
            }
            output
        }
        Ending::Completed { success: false, summary, .. } => {
            let mut output =
                ToolOutput::text(summary.as_deref().unwrap_or("Completed without success"));
            output.meta.insert("success".to_owned(), false.into());
            output
        }
        Ending::Cancelled { reason } => {
            let reason = reason.as_deref().unwrap_or("no reason given");
            failure("CANCELLED", format!("The conversation was cancelled: {reason}"))
        }
        Ending::Expired(limit) => {
            let why = limit_name(*limit);
            failure("SESSION_EXPIRED", format!("The conversation has expired ({why})"))
        }
        Ending::Failed(fault) => failure(fault_name(fault), fault.message.clone()),
    }
}

/// Somebody would not answer, and that ended it.
pub(super) fn declined(key: &str) -> ToolOutput {
    failure("DECLINED", format!("The user declined to answer `{key}`, and nothing more was done."))
}

/// Values are missing that nobody can be asked for: the one the flow waits for, those of its other
/// questions, with their schemas, and how to give them.
pub(super) fn missing(
    flow: &str,
    given: &Map<String, Value>,
    open: &OpenQuestion,
    others: &[(&str, &Value)],
) -> Failure {
    let OpenQuestion { key, prompt, .. } = open;
    let question = serde_json::to_value(&**prompt).unwrap_or_default();
    let mut missing = vec![json!({"key": key, "prompt": question})];
    let mut example: Map<String, Value> = given.clone();
    example.insert(key.clone(), example_of(prompt));
    for (key, schema) in others {
        missing.push(json!({"key": key, "schema": schema}));
        example.insert((*key).to_owned(), example_by(schema));
    }
    let names: Vec<_> = others.iter().map(|(key, _)| format!("`{key}`")).collect();
    let later = match names.is_empty() {
        true => String::new(),
        false => format!("\nIt may also ask for {}.", names.join(", ")),
    };
    let example = Value::Object(example);
    let message = format!(
        "`{flow}` needs `{key}` and this client cannot be asked for it: {}{later}\nCall `{flow}` \
         again with all values it needs as arguments, `{key}` being {}. For example: {example}",
        prompt.message,
        kind(prompt),
    );
    Failure::new("INPUT_REQUIRED", message).with("missing", missing).with("example", example)
}

fn failure(name: &str, message: String) -> ToolOutput {
    Failure::new(name, message).into_output()
}

fn kind(prompt: &Prompt) -> String {
    let rules = &prompt.validation;
    match prompt.kind {
        PromptType::Text => match &rules.pattern {
            Some(pattern) => format!("a text that matches {pattern}"),
            None => "a text".to_owned(),
        },
        PromptType::Choice => {
            let values = prompt.choices.iter().take(MOST_SHOWN).map(shown).collect::<Vec<_>>();
            format!("one of {}", values.join(", "))
        }
        PromptType::Confirm => "true or false".to_owned(),
        PromptType::Number => "a number".to_owned(),
        PromptType::Date => "a day, written YYYY-MM-DD".to_owned(),
        PromptType::File => "a file: {name, mimeType, data in base64} or {uri}".to_owned(),
        PromptType::Custom => match &rules.schema {
            Some(schema) => format!("what this schema allows: {schema}"),
            None => "any value".to_owned(),
        },
    }
}

fn shown(choice: &Choice) -> String {
    let value = choice.value.to_string();
    if choice.value == choice.label.as_str() {
        value
    } else {
        format!("{value} ({})", choice.label)
    }
}

/// A value that shows the form, not the content, of an answer.
fn example_of(prompt: &Prompt) -> Value {
    if let Some(default) = &prompt.default_value {
        return default.clone();
    }
    match prompt.kind {
        PromptType::Text => prompt.placeholder.as_deref().unwrap_or("…").into(),
        PromptType::Choice => {
            prompt.choices.first().map(|choice| choice.value.clone()).unwrap_or_default()
        }
        PromptType::Confirm => true.into(),
        PromptType::Number => 1.into(),
        PromptType::Date => "2030-01-31".into(),
        PromptType::File => json!({"uri": "https://example.com/file"}),
        PromptType::Custom => json!({}),
    }
}

/// A value of the form a schema asks for.
fn example_by(schema: &Value) -> Value {
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("boolean"), _) => true.into(),
        (Some("integer" | "number"), _) => 1.into(),
        (_, Some("date")) => "2030-01-31".into(),
        _ => "…".into(),
    }
}

const MOST_SHOWN: usize = 20;
