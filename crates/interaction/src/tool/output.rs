//! Tool results of flows.

use std::iter;

use mcp_flow_engine::OpenQuestion;
use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{CallResult, ContentForm, ContentList};
use mcp_flow_server::{Failure, ToolOutput};
use mcp_flow_session::event::{Ending, SessionEnded};
use mcp_flow_session::prompt::{AnswerRules, ChoiceOption};
use mcp_flow_session::{Prompt, PromptType, SessionId, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::protocol_errors::{fault_name, limit_name};
use crate::wire;

/// Returns the tool result of a session that has ended. [`Interaction`](crate::Interaction) knows
/// which flow is a tool.
pub(crate) fn of(ended: &SessionEnded) -> ToolOutput {
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
        Ending::Cancelled { reason: Some(reason) } if is_declined(reason) => {
            failure("DECLINED", format!("{reason}, and nothing more was done."))
        }
        Ending::Cancelled { reason } => {
            let reason = reason.as_deref().unwrap_or("no reason given");
            failure("CANCELLED", format!("The session was cancelled: {reason}"))
        }
        Ending::Expired(limit) => {
            let why = limit_name(*limit);
            failure("SESSION_EXPIRED", format!("The session has expired ({why})"))
        }
        Ending::Failed(fault) => failure(fault_name(fault), fault.message.clone()),
    }
}

/// Result of a call whose flow sleeps for longer than the call should stay open.
pub(super) fn asleep(flow: &str, id: SessionId, wakes: Timestamp) -> ToolOutput {
    let wakes = wakes.to_iso8601();
    ToolOutput::text(format!(
        "`{flow}` sleeps until {wakes} and goes on by itself then. It is the session {id}; \
         interaction.getState returns its state and its result."
    ))
}

/// Returns the tool result of a session whose question was declined.
pub(super) fn declined(key: &str) -> ToolOutput {
    failure("DECLINED", format!("{}, and nothing more was done.", declined_reason(key)))
}

/// Returns the reason of cancelling a session whose question was declined.
pub(crate) fn declined_reason(key: &str) -> String {
    format!("{DECLINED} `{key}`")
}

/// Returns the reason of cancelling a session at a client's request. It never reads like that of a
/// declined question, which ends a task with a result.
pub(crate) fn requested_reason(reason: String) -> String {
    if is_declined(&reason) { format!("Cancelled: {reason}") } else { reason }
}

/// Returns whether a session was cancelled because its question was declined.
pub(crate) fn is_declined(reason: &str) -> bool {
    reason.starts_with(DECLINED)
}

const DECLINED: &str = "The user declined to answer";

/// Encodes the output of a tool that runs as a flow, as the data of its session.
pub(crate) fn stored(output: &ToolOutput) -> Value {
    let ToolOutput { content, structured, is_error, meta } = output;
    let (revision, form) = (Revision::V2026_07_28, ContentForm::Official);
    let result = CallResult {
        result_type: None,
        content: ContentList { items: content, revision, form },
        structured_content: structured.as_ref(),
        is_error: *is_error,
        error_message: None,
        meta: Some(meta).filter(|meta| !meta.is_empty()),
    };
    // Cannot fail: all keys are strings.
    serde_json::to_value(result).unwrap_or_default()
}

/// Decodes the output of a tool that runs as a flow.
pub(crate) fn restored(data: &Value) -> ToolOutput {
    let content = data.get("content").and_then(|content| Vec::deserialize(content).ok());
    let meta = data.get("_meta").and_then(Value::as_object);
    ToolOutput {
        content: content.unwrap_or_default(),
        structured: data.get("structuredContent").cloned(),
        is_error: data.get("isError") == Some(&Value::Bool(true)),
        meta: meta.cloned().unwrap_or_default(),
    }
}

/// A question nothing was given for.
pub(crate) struct Unanswered<'a> {
    pub(crate) key: &'a str,
    /// Schema of its argument.
    pub(crate) schema: &'a Value,
    /// The question itself, if the flow declares it.
    pub(crate) declared: Option<&'a Prompt>,
}

/// Returns the failure of a call that lacks values and cannot ask for them: the open question, the
/// other unanswered questions with their schemas, and an example call.
pub(super) fn missing(
    flow: &str,
    given: &Map<String, Value>,
    open: &OpenQuestion,
    others: &[Unanswered<'_>],
) -> Failure {
    let OpenQuestion { key, prompt, .. } = open;
    if open.prompt.is_approval() {
        let message = format!(
            "A person must approve this, and this client cannot ask one: {} Use a client that \
             supports elicitation, or `mcp-flow call`.",
            prompt.message
        );
        return Failure::new("APPROVAL_REQUIRED", message).with("key", key.as_str());
    }
    let question = serde_json::to_value(&**prompt).unwrap_or_default();
    let mut missing = vec![json!({"key": key, "prompt": question})];
    let mut example: Map<String, Value> = given.clone();
    example.extend(example_of(prompt).map(|value| (key.clone(), value)));
    for Unanswered { key, schema, declared } in others {
        missing.push(json!({"key": key, "schema": schema}));
        let value = declared.map_or_else(|| example_by(schema), example_of);
        example.extend(value.map(|value| ((*key).to_owned(), value)));
    }
    let names: Vec<_> = others.iter().map(|other| format!("`{}`", other.key)).collect();
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
        PromptType::Text => match (&rules.pattern_description, &rules.pattern) {
            (Some(description), _) => format!("a text ({description})"),
            (None, Some(pattern)) => format!("a text that matches {pattern}"),
            (None, None) => "a text".to_owned(),
        },
        PromptType::Choice => {
            let values = prompt.choices.iter().take(OPTION_LIMIT).map(display).collect::<Vec<_>>();
            format!("one of {}", values.join(", "))
        }
        PromptType::Confirm => "true or false".to_owned(),
        PromptType::Number => "a number".to_owned(),
        PromptType::Date => "a date, written YYYY-MM-DD".to_owned(),
        PromptType::File => "a file: {name, mimeType, data in base64} or {uri}".to_owned(),
        PromptType::Custom => match &rules.schema {
            Some(schema) => format!("what this schema allows: {schema}"),
            None => "any value".to_owned(),
        },
    }
}

fn display(choice: &ChoiceOption) -> String {
    let value = choice.value.to_string();
    if choice.value == choice.label.as_str() {
        value
    } else {
        format!("{value} ({})", choice.label)
    }
}

/// An answer that the rules of a question allow, where one can be made up. A text shows its form
/// only: which content a pattern asks for is up to the caller.
fn example_of(prompt: &Prompt) -> Option<Value> {
    if let Some(default) = &prompt.default_value {
        return Some(default.clone());
    }
    let rules = &prompt.validation;
    let candidates: Vec<Value> = match prompt.kind {
        PromptType::Text => vec![prompt.placeholder.as_deref().unwrap_or("…").into()],
        PromptType::Choice => prompt.choices.iter().map(|choice| choice.value.clone()).collect(),
        PromptType::Confirm => vec![true.into()],
        PromptType::Number => iter::once(1.into()).chain(bounds(rules)).collect(),
        PromptType::Date => iter::once("2030-01-31".into()).chain(bounds(rules)).collect(),
        PromptType::File => vec![json!({"uri": example_uri(&rules.uri_schemes)})],
        PromptType::Custom => match &rules.schema {
            Some(schema) => stated_in(schema).into_iter().chain(example_of_type(schema)).collect(),
            None => Vec::new(),
        },
    };
    let is_valid = |value: &Value| prompt.kind == PromptType::Text || prompt.check(value).is_ok();
    candidates.into_iter().find(is_valid)
}

fn bounds(rules: &AnswerRules) -> impl Iterator<Item = Value> {
    [&rules.min, &rules.max].into_iter().flatten().map(|bound| json!(bound))
}

fn example_uri(schemes: &[String]) -> String {
    let takes = |scheme: &str| schemes.iter().any(|taken| taken.eq_ignore_ascii_case(scheme));
    match schemes.first() {
        Some(_) if takes("https") => HTTPS_FILE.to_owned(),
        Some(_) if takes("data") => "data:text/plain;base64,SGVsbG8=".to_owned(),
        Some(scheme) => format!("{scheme}://example.com/file"),
        None => HTTPS_FILE.to_owned(),
    }
}

/// A value of the type a schema asks for; one that says nothing may be a text.
fn example_by(schema: &Value) -> Option<Value> {
    stated_in(schema).or_else(|| example_of_type(schema))
}

fn example_of_type(schema: &Value) -> Option<Value> {
    match (kind_of(schema), schema["format"].as_str()) {
        (Some("boolean"), _) => Some(true.into()),
        (Some("integer" | "number"), _) => Some(match &schema["minimum"] {
            least if least.as_f64() > Some(1.0) => least.clone(),
            _ => 1.into(),
        }),
        (Some("object"), _) => example_object(schema),
        (Some("array"), _) => None,
        (_, Some("date")) => Some("2030-01-31".into()),
        _ => Some("…".into()),
    }
}

/// The first type of a schema that is not null.
fn kind_of(schema: &Value) -> Option<&str> {
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds,
        kind => std::slice::from_ref(kind),
    };
    kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null")
}

/// An object of the members that are required. Its schema has bounded depth, as all schemas have.
fn example_object(schema: &Value) -> Option<Value> {
    let required = schema["required"].as_array().filter(|names| !names.is_empty())?;
    let member = |name: &Value| {
        let name = name.as_str()?;
        Some((name.to_owned(), example_by(schema["properties"].get(name)?)?))
    };
    required.iter().map(member).collect::<Option<_>>().map(Value::Object)
}

/// A value that a schema itself states: an example, its default, or one of those it enumerates.
fn stated_in(schema: &Value) -> Option<Value> {
    let first = |name: &str| schema.get(name).and_then(|list| list.get(0));
    let stated = first("examples").or_else(|| schema.get("default"));
    stated.or_else(|| schema.get("const")).or_else(|| first("enum")).cloned()
}

const HTTPS_FILE: &str = "https://example.com/file";

const OPTION_LIMIT: usize = 20;

#[cfg(test)]
mod tests {
    use mcp_flow_session::question::{choice, custom_schema, date, file, integer, text};
    use mcp_flow_session::{Date, Prompt, Question};
    use serde_json::{Value, json};

    use super::{example_by, example_of};

    /// INT-100: the example for a question is an answer that its rules allow.
    #[test]
    fn examples_keep_the_rules_of_their_question() {
        let seat = choice("Which seat?", &["window", "aisle"]);
        check(seat.prompt(), Some(json!("window")));
        check(file("Photo?").prompt(), Some(json!({"uri": "https://example.com/file"})));
        let stored = file("Photo?").uri_scheme("s3");
        check(stored.prompt(), Some(json!({"uri": "s3://example.com/file"})));
        let inline = file("Photo?").uri_scheme("data");
        check(inline.prompt(), Some(json!({"uri": "data:text/plain;base64,SGVsbG8="})));
        check(integer("How many?").range(5..=9).prompt(), Some(json!(5)));
        let day = date("Which day?").until(Date::constant(2024, 2, 29));
        check(day.prompt(), Some(json!("2024-02-29")));
        for (schema, example) in [
            (json!({"type": "object", "examples": [{"x": 1}]}), Some(json!({"x": 1}))),
            (json!({"type": "integer", "default": 7}), Some(json!(7))),
            (json!({"enum": ["red", "green"]}), Some(json!("red"))),
            (json!({"type": "object", "required": ["x"]}), None),
            (json!({"type": "string", "default": 7}), Some(json!("…"))),
            (
                json!({"type": "object", "required": ["x", "y"], "properties": {
                    "x": {"type": "number"}, "y": {"type": ["integer", "null"], "minimum": 3},
                    "z": {"type": "string"},
                }}),
                Some(json!({"x": 1, "y": 3})),
            ),
        ] {
            check(custom_schema("Anything?", schema).prompt(), example);
        }
        // Of a text only the form is shown.
        let code = text("Code?").pattern("^[A-Z]{3}$");
        assert_eq!(example_of(code.prompt()), Some(json!("…")));
    }

    #[test]
    fn examples_are_taken_from_the_schema_of_an_argument() {
        for (schema, example) in [
            (json!({"type": "boolean"}), json!(true)),
            (json!({"type": ["null", "boolean"]}), json!(true)),
            (json!({"type": "string", "format": "date"}), json!("2030-01-31")),
            (json!({"enum": [3, 4]}), json!(3)),
            (json!({"type": "array", "examples": [["a"]]}), json!(["a"])),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), json!("…")),
        ] {
            assert_eq!(example_by(&schema), Some(example), "{schema}");
        }
        assert_eq!(example_by(&json!({"type": "object"})), None);
    }

    fn check(prompt: &Prompt, expected: Option<Value>) {
        let example = example_of(prompt);
        assert_eq!(example, expected);
        if let Some(example) = example {
            assert!(prompt.check(&example).is_ok(), "{example}");
        }
    }
}
