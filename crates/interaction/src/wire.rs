//! JSON encoding of sessions.

use std::collections::BTreeMap;

use mcp_flow_engine::{OpenQuestion, SessionStatus, View};
use mcp_flow_proto::Revision;
use mcp_flow_session::event::{Ending, FlowFault, SessionEnded};
use mcp_flow_session::prompt::{FlowProgress, Prompt};
use mcp_flow_session::session::AnsweredTurn;
use mcp_flow_session::{Divergence, InvalidAnswer, Session, SessionId, State};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::protocol_errors::{fault_name, limit_name};

/// Encodes a question, with the violation by the last answer (INT-077).
///
/// Its metadata has key and turn, for clients that answer from a list.
pub(crate) fn prompt(open: &OpenQuestion) -> Value {
    question(&open.key, open.turn, &open.prompt, open.violation.as_ref())
}

fn question(key: &str, turn: u32, prompt: &Prompt, violation: Option<&InvalidAnswer>) -> Value {
    to_value(&Question::new(key, turn, prompt, violation))
}

/// A question that is serialized without an intermediate value.
#[derive(Serialize)]
struct Question<'a> {
    #[serde(flatten)]
    prompt: &'a Prompt,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    key: &'a str,
    turn_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
}

impl<'a> Question<'a> {
    fn new(
        key: &'a str,
        turn_id: u32,
        prompt: &'a Prompt,
        violation: Option<&'a InvalidAnswer>,
    ) -> Self {
        let error = violation.map(|violation| violation.error.as_str());
        let suggestion = violation.and_then(|violation| violation.suggestion.as_deref());
        Self { prompt, metadata: Metadata { key, turn_id, error, suggestion } }
    }
}

fn to_value(encoded: &impl Serialize) -> Value {
    // Cannot fail: prompts have only string keys.
    serde_json::to_value(encoded).unwrap_or_default()
}

/// Params of `interaction.prompt`.
pub(crate) fn prompt_params(id: SessionId, open: &OpenQuestion) -> Value {
    with_progress(json!({"sessionId": id, "prompt": prompt(open)}), open.progress.as_ref())
}

/// Params of `interaction.continue` with a question.
pub(crate) fn continue_params(id: SessionId, open: &OpenQuestion) -> Value {
    with_progress(json!({"sessionId": id, "nextPrompt": prompt(open)}), open.progress.as_ref())
}

/// Params of `interaction.continue` with progress.
pub(crate) fn progress_params(id: SessionId, progress: &FlowProgress) -> Value {
    with_progress(json!({"sessionId": id}), Some(progress))
}

/// Params of `interaction.complete`; none for a session that ended without a result.
pub(crate) fn complete_params(id: SessionId, ended: &SessionEnded) -> Option<Value> {
    let mut params = completion(ended)?;
    params["sessionId"] = id.to_string().into();
    Some(params)
}

/// Encodes the result of a session as `{result, summary}`; none if it was cancelled or has expired.
pub(crate) fn completion(ended: &SessionEnded) -> Option<Value> {
    match &ended.ending {
        Ending::Completed { success, data, summary } => {
            let summary = summary.as_deref().unwrap_or(match success {
                true => "Completed successfully",
                false => "Completed without success",
            });
            let result = json!({"success": success, "data": object(data)});
            Some(json!({"result": result, "summary": summary}))
        }
        Ending::Failed(fault) => {
            let error = error(fault);
            let result = json!({"success": false, "data": {}, "error": error});
            Some(json!({"result": result, "summary": fault.message}))
        }
        Ending::Cancelled { .. } | Ending::Expired(_) => None,
    }
}

/// Encodes the fault that ended a session, with the causes of its error.
fn error(fault: &FlowFault) -> Value {
    let mut error = json!({"domain": "interaction", "name": fault_name(fault),
        "message": fault.message, "operation": fault.operation});
    if !fault.causes.is_empty() {
        error["causes"] = json!(fault.causes);
    }
    error
}

/// Wraps a result in an object, unless it is one.
pub(crate) fn object(data: &Value) -> Value {
    match data {
        Value::Object(_) => data.clone(),
        Value::Null => json!({}),
        other => json!({"value": other}),
    }
}

/// Result of an accepted answer with inline delivery (C-06).
///
/// The most frequent result, so it is serialized without an intermediate value.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Accepted<'a> {
    accepted: bool,
    validation: Valid,
    next: Next<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
}

#[derive(Serialize)]
struct Valid {
    valid: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Next<'a> {
    Asked {
        prompt: Question<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        progress: Option<Value>,
    },
    Other(Value),
}

impl<'a> Accepted<'a> {
    pub(crate) fn new(view: &'a View, revision: Revision) -> Self {
        let next = match &view.status {
            SessionStatus::Waiting(OpenQuestion {
                turn, key, prompt, progress, violation, ..
            }) => Next::Asked {
                prompt: Question::new(key, *turn, prompt, violation.as_ref()),
                progress: progress.as_ref().map(progress_value),
            },
            _ => Next::Other(next(view)),
        };
        let result_type = revision.is_stateless().then_some("complete");
        Self { accepted: true, validation: Valid { valid: true }, next, result_type }
    }
}

/// Encodes what is next, for inline delivery (C-06).
pub(crate) fn next(view: &View) -> Value {
    match &view.status {
        SessionStatus::Waiting(open) => {
            with_progress(json!({"prompt": prompt(open)}), open.progress.as_ref())
        }
        SessionStatus::Working(progress) => {
            let mut pending = json!({"pending": true});
            if let Some(wakes) = view.wakes {
                pending["wakesAt"] = wakes.as_millis().into();
            }
            if !view.awaits.is_empty() {
                pending["awaits"] = json!(view.awaits);
            }
            with_progress(pending, progress.as_ref())
        }
        SessionStatus::Ended(ended) => match completion(ended) {
            Some(complete) => json!({"complete": complete}),
            None => json!({"complete": {
                "result": {"success": false, "data": {}},
                "summary": "The session ended without a result",
            }}),
        },
    }
}

fn with_progress(mut value: Value, progress: Option<&FlowProgress>) -> Value {
    if let Some(progress) = progress {
        value["progress"] = progress_value(progress);
    }
    value
}

fn progress_value(FlowProgress { current, total, message }: &FlowProgress) -> Value {
    let mut wire = json!({"current": number(*current), "total": number(*total)});
    if let Some(message) = message {
        wire["message"] = message.as_str().into();
    }
    wire
}

/// Encodes an integral number without a decimal point.
fn number(float: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    match float.fract() == 0.0 && float.abs() < 9.0e15 {
        true => (float as i64).into(),
        false => float.into(),
    }
}

/// Encodes the violation by an answer (INT-040).
pub(crate) fn rejection(violation: &InvalidAnswer) -> Value {
    let suggestion = violation.suggestion.as_deref().unwrap_or("Send a value that fits the prompt");
    json!({"valid": false, "error": violation.error, "suggestion": suggestion})
}

/// Encodes the state of a session (INT-056 to INT-060); of one that has ended, its tombstone.
pub(crate) fn state(id: SessionId, session: &Session) -> Value {
    let history: Vec<_> = session.history.iter().map(past).collect();
    let current = session
        .open
        .as_ref()
        .map(|open| question(&open.key, session.turn(), &open.prompt, session.violation.as_ref()));
    let mut value = json!({
        "sessionId": id,
        "state": session.state.name(),
        "metadata": metadata(session),
        "history": history,
        "currentPrompt": current,
        "accumulatedData": session.data,
    });
    if let Some(completion) = session.ended.as_ref().and_then(completion) {
        value["result"] = completion["result"].clone();
        value["summary"] = completion["summary"].clone();
    }
    value
}

fn past(turn: &AnsweredTurn) -> Value {
    let AnsweredTurn { turn, asked, answered, .. } = turn;
    let at = answered.timestamp.unwrap_or(answered.at);
    let mut response = json!({"value": answered.value, "timestamp": at});
    if !answered.metadata.is_empty() {
        response["metadata"] = Value::Object(answered.metadata.clone());
    }
    json!({
        "turnId": turn,
        "key": asked.key,
        "prompt": to_value(&*asked.prompt),
        "response": response,
        "timestamp": answered.at,
    })
}

fn metadata(session: &Session) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut put = |name: &str, value: Value| metadata.insert(name.to_owned(), value);
    put("createdAt", session.started.at.as_millis().into());
    put("lastActivityAt", session.touched.as_millis().into());
    put("toolName", session.started.flow.as_str().into());
    match &session.ended {
        Some(ended) => {
            put("endedAt", ended.at.as_millis().into());
            if !ended.uncompensated.is_empty() {
                put("uncompensated", json!(ended.uncompensated));
            }
        }
        None => {
            if let Some(deadline) = session.deadline() {
                put("expiresAt", deadline.as_millis().into());
            }
            if let Some(wakes) = session.wakes() {
                put("wakesAt", wakes.as_millis().into());
            }
            let awaits = session.awaits();
            if !awaits.is_empty() {
                put("awaits", json!(awaits));
            }
            if !session.links.is_empty() {
                let links = session.links.iter().map(|link| {
                    json!({"name": link.key, "state": session.link_state(link).name(),
                        "isQuestion": link.is_question})
                });
                put("links", links.collect());
            }
            if !session.signals.is_empty() {
                let mut kept = BTreeMap::<_, u32>::new();
                for signal in &session.signals {
                    *kept.entry(&signal.key).or_default() += 1;
                }
                put("signals", json!(kept));
            }
            if let Some(stuck) = &session.stuck {
                put("stuck", Value::Object(divergence(stuck)));
            }
            if let Some(ending) = &session.closing {
                let steps: Vec<_> = session.compensations.iter().map(|step| &step.key).collect();
                put("ending", ending.state().name().into());
                put("compensating", json!(steps));
            }
        }
    }
    if !session.labels.is_empty() {
        put("labels", json!(session.labels));
    }
    if !session.started.context.is_empty() {
        put("context", Value::Object(session.started.context.clone()));
    }
    match session.ending().or(session.closing.as_ref()) {
        Some(Ending::Cancelled { reason: Some(reason) }) => {
            put("reason", reason.as_str().into());
        }
        Some(Ending::Expired(limit)) => {
            put(
                "error",
                json!({"domain": "interaction", "name": "SESSION_EXPIRED",
                "limit": limit_name(*limit)}),
            );
        }
        Some(Ending::Failed(fault)) => {
            put("error", error(fault));
        }
        _ => {}
    }
    metadata
}

/// Encodes one session as in `interaction.list`.
pub fn listed(listed: &mcp_flow_session::store::Listed) -> Value {
    let summary = &listed.summary;
    let mut value = json!({
        "sessionId": listed.id,
        "state": summary.state.name(),
        "toolName": summary.flow,
        "createdAt": summary.created,
        "lastActivityAt": summary.touched,
    });
    if let Some(deadline) = summary.deadline.filter(|_| !State::is_final(summary.state)) {
        value["expiresAt"] = deadline.as_millis().into();
    }
    if let Some(wakes) = summary.wakes {
        value["wakesAt"] = wakes.as_millis().into();
    }
    if !summary.labels.is_empty() {
        value["labels"] = json!(summary.labels);
    }
    if let Some(stuck) = &summary.stuck {
        value["stuck"] = Value::Object(divergence(stuck));
    }
    value
}

/// Encodes both sides of a difference between a journal and its flow.
pub(crate) fn divergence(divergence: &Divergence) -> Map<String, Value> {
    let side = |key: &str, what: &str| match key {
        "" => what.to_owned(),
        key => format!("`{key}`, {what}"),
    };
    let mut sides = Map::new();
    sides.insert("turn".to_owned(), divergence.turn.into());
    let recorded = side(&divergence.recorded_key, &divergence.recorded);
    sides.insert("recorded".to_owned(), recorded.into());
    sides.insert("asked".to_owned(), side(&divergence.asked_key, &divergence.asked).into());
    sides
}
