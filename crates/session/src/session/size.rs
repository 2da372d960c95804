//! Approximate size of events.
//!
//! Computed on every turn, so it adds up the lengths of the parts instead of serializing them. It
//! is deterministic: the same event has the same size on every machine.

use serde_json::{Map, Value};

use crate::event::{JournalEvent, SessionStarted, StepFailure, StepOutcome};
use crate::prompt::{FlowProgress, Prompt};
use crate::replay::Divergence;
use crate::{InvalidAnswer, Owner};

/// Approximate bytes of a serialized event.
pub(super) fn of(event: &JournalEvent) -> usize {
    FRAME
        + match event {
            JournalEvent::Started(started) => started_size(started),
            // The size of an ended session does not matter.
            JournalEvent::Began { .. }
            | JournalEvent::Withdrawn { .. }
            | JournalEvent::TimerFired { .. }
            | JournalEvent::TimerDropped { .. }
            | JournalEvent::SignalTaken { .. }
            | JournalEvent::SignalWaitDropped { .. }
            | JournalEvent::LinkRevoked { .. }
            | JournalEvent::Unstuck { .. }
            | JournalEvent::Imported { .. }
            | JournalEvent::EndBegun { .. }
            | JournalEvent::Ended(_) => 0,
            JournalEvent::Stuck { divergence, .. } => {
                let Divergence { recorded_key, recorded, asked_key, asked, .. } = divergence;
                recorded_key.len() + recorded.len() + asked_key.len() + asked.len()
            }
            JournalEvent::TimerSet { key, .. } | JournalEvent::SignalAwaited { key, .. } => {
                key.len()
            }
            JournalEvent::Asked(asked) | JournalEvent::Queued(asked) => {
                asked.key.len()
                    + prompt(&asked.prompt)
                    + asked.progress.as_ref().map_or(0, progress)
                    + asked.violation.as_ref().map_or(0, violation)
            }
            JournalEvent::Given { key, value: given, .. }
            | JournalEvent::DataSet { key, value: given, .. }
            | JournalEvent::Signalled { key, value: given, .. } => key.len() + value(given),
            JournalEvent::Answered(answered) | JournalEvent::AnsweredAhead { answered, .. } => {
                value(&answered.value) + object(&answered.metadata)
            }
            JournalEvent::Rejected { violation: rejected, answer, .. } => {
                violation(rejected) + answer.as_ref().map_or(0, String::len)
            }
            JournalEvent::Rewound { key, .. } => key.len(),
            JournalEvent::Labelled { key, value, .. } => key.len() + value.len(),
            JournalEvent::LinkMade { key, base, token, .. } => key.len() + base.len() + token.len(),
            JournalEvent::StepBegun { key, .. } => key.len(),
            JournalEvent::StepFailed { key, failure: failed, .. } => key.len() + failure(failed),
            JournalEvent::StepDone { key, outcome, .. } => {
                key.len()
                    + match outcome {
                        StepOutcome::Ok(result) => value(result),
                        StepOutcome::Failed(failed) => failure(failed),
                    }
            }
        }
}

fn started_size(started: &SessionStarted) -> usize {
    let owner: &Owner = &started.owner;
    let scopes: usize = started.scopes.iter().map(|scope| SMALL + scope.len()).sum();
    let given = object(&started.params) + object(&started.context);
    started.flow.len() + owner.name().len() + given + scopes
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
        + text(&validation.pattern_description)
        + kinds.sum::<usize>()
        + optional(&validation.schema)
        + optional(ui)
}

fn progress(progress: &FlowProgress) -> usize {
    FRAME + progress.message.as_ref().map_or(0, String::len)
}

fn violation(violation: &InvalidAnswer) -> usize {
    FRAME + violation.error.len() + violation.suggestion.as_ref().map_or(0, String::len)
}

fn failure(failure: &StepFailure) -> usize {
    failure.causes.iter().map(|cause| SMALL + cause.len()).sum::<usize>() + failure.message.len()
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

/// Field names, times and brackets of an event or a larger part of one.
const FRAME: usize = 32;

/// Quotes, a comma, or a number.
const SMALL: usize = 4;
