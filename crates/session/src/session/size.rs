//! How much of a session's room an event takes.
//!
//! Every turn is weighed, so this adds up the lengths of what an event holds instead of writing it
//! down to see how long that gets. The same event always weighs the same, on whichever machine.

use serde_json::{Map, Value};

use crate::event::{Event, Outcome, Started};
use crate::prompt::{Progress, Prompt};
use crate::{Owner, Violation};

/// How many bytes an event takes when written, about.
pub(super) fn of(event: &Event) -> usize {
    FRAME
        + match event {
            Event::Started(started) => started_size(started),
            // What has ended is not weighed any more.
            Event::Began { .. } | Event::Ended(_) => 0,
            Event::Asked(asked) => {
                asked.key.len()
                    + prompt(&asked.prompt)
                    + asked.progress.as_ref().map_or(0, progress)
                    + asked.violation.as_ref().map_or(0, violation)
            }
            Event::Given { key, value: given, .. } | Event::DataSet { key, value: given, .. } => {
                key.len() + value(given)
            }
            Event::Answered(answered) => value(&answered.value) + object(&answered.metadata),
            Event::Rejected { violation: rejected, answer, .. } => {
                violation(rejected) + answer.as_ref().map_or(0, String::len)
            }
            Event::StepDone { key, outcome, .. } => {
                key.len()
                    + match outcome {
                        Outcome::Ok(result) => value(result),
                        Outcome::Failed(message) => message.len(),
                    }
            }
        }
}

fn started_size(started: &Started) -> usize {
    let owner: &Owner = &started.owner;
    started.flow.len() + owner.name().len() + object(&started.params) + object(&started.context)
}

fn prompt(prompt: &Prompt) -> usize {
    let Prompt { kind: _, message, placeholder, default_value, choices, validation, ui } = prompt;
    let optional = |value: &Option<Value>| value.as_ref().map_or(0, self::value);
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let choices = choices.iter().map(|choice| FRAME + value(&choice.value) + choice.label.len());
    let kinds = validation.mime_types.iter().map(|kind| SMALL + kind.len());
    FRAME
        + message.len()
        + text(placeholder)
        + optional(default_value)
        + choices.sum::<usize>()
        + text(&validation.pattern)
        + kinds.sum::<usize>()
        + optional(&validation.schema)
        + optional(ui)
}

fn progress(progress: &Progress) -> usize {
    FRAME + progress.message.as_ref().map_or(0, String::len)
}

fn violation(violation: &Violation) -> usize {
    FRAME + violation.error.len() + violation.suggestion.as_ref().map_or(0, String::len)
}

fn value(value: &Value) -> usize {
    SMALL
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => SMALL,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(self::value).sum(),
            Value::Object(members) => object(members),
        }
}

fn object(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, member)| SMALL + name.len() + value(member)).sum()
}

/// Names, times and brackets of an event or of a larger part of one.
const FRAME: usize = 32;

/// Quotes, a comma, a number.
const SMALL: usize = 4;
