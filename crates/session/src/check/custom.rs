//! Custom answers: validated by the JSON Schema of the question, within bounds.

use mcp_flow_schema::TooCostly;
use serde_json::Value;

use super::{InvalidAnswer, compiled, limits};
use crate::prompt::AnswerRules;

pub(super) fn check(rules: &AnswerRules, answer: &Value) -> Result<(), InvalidAnswer> {
    measure(answer)?;
    let Some(source) = &rules.schema else { return Ok(()) };
    let Ok(schema) = compiled::schema(source) else {
        // Invalid prompts are not asked, so this is a client that checks a prompt it received.
        return Err(InvalidAnswer::new("the schema of this question cannot be used"));
    };
    let violations = schema.violations(answer, "the answer", 1).map_err(|TooCostly| {
        InvalidAnswer::new("the answer is nested too deeply for the schema of this question")
            .suggest("Send the same in fewer and flatter lists and objects")
    })?;
    let Some(violation) = violations.into_iter().next() else { return Ok(()) };
    Err(InvalidAnswer::new(violation.sentence)
        .suggest("Send a value that matches the schema of the prompt"))
}

/// Rejects what is too large or too deep before the schema is applied.
fn measure(answer: &Value) -> Result<(), InvalidAnswer> {
    let (mut values, mut characters) = (0, 0);
    let mut open = vec![(answer, 1)];
    while let Some((value, depth)) = open.pop() {
        values += 1;
        match value {
            Value::String(text) => characters += text.len(),
            Value::Array(elements) => open.extend(elements.iter().map(|value| (value, depth + 1))),
            Value::Object(members) => {
                characters += members.keys().map(String::len).sum::<usize>();
                open.extend(members.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
        if depth > limits::DEPTH {
            return Err(InvalidAnswer::new("the answer is nested too deeply"));
        }
        if values + open.len() > limits::VALUES || characters > limits::CUSTOM {
            return Err(InvalidAnswer::new("the answer is too large"));
        }
    }
    Ok(())
}
