//! Kinds of results (2026-07-28): complete; `input_required`, where the server names the input it
//! needs, and the request is sent again with it; and tasks.

use futures_util::future::join_all;
use mcp_flow_proto::model::{DetailedTask, TASK_RESULT_TYPE};
use mcp_flow_proto::{Raw, method};
use serde_json::{Map, Value};

use crate::client::ClientInner;
use crate::connection::Connection;
use crate::connection::server_requests::{ServerRequestError, answer_request};
use crate::error::Error;
use crate::host::{Host, SampleRefusal};

/// Members of params that a repeated request adds, each as JSON.
pub(crate) type Input = Vec<(&'static str, String)>;

/// An `input_required` result.
#[derive(Debug)]
pub(crate) struct InputRequired {
    requests: Map<String, Value>,
    /// `requestState`, opaque, as JSON text.
    state: Option<String>,
}

/// A result by its `resultType`.
#[derive(Debug)]
pub(crate) enum ResultKind {
    Complete,
    InputRequired(InputRequired),
    /// The request continues as a task.
    Task(Box<DetailedTask>),
}

/// Reads the kind of a result. A task is one only if the request `takes_tasks`.
pub(crate) fn read_kind(
    connection: &Connection,
    method: &str,
    takes_tasks: bool,
    result: Raw<'_>,
) -> Result<ResultKind, Error> {
    if !connection.revision().is_stateless() {
        return Ok(ResultKind::Complete);
    }
    let Ok([kind, requests, state]) =
        result.members(["resultType", "inputRequests", "requestState"])
    else {
        return Ok(ResultKind::Complete);
    };
    match kind.and_then(Raw::as_text).as_deref() {
        None | Some("complete") => return Ok(ResultKind::Complete),
        Some("input_required") => {}
        Some(TASK_RESULT_TYPE) if takes_tasks => {
            return Ok(ResultKind::Task(Box::new(result.decode()?)));
        }
        Some(other) => {
            let other = crate::sanitize::shorten(other, 64);
            return Err(Error::Protocol(format!("unknown resultType {other:?}")));
        }
    }
    if ![method::TOOLS_CALL, method::PROMPTS_GET, method::RESOURCES_READ].contains(&method) {
        return Err(Error::Protocol(format!("input_required is not allowed for {method}")));
    }
    let requests: Map<String, Value> = match requests {
        Some(requests) => requests.decode()?,
        None => Map::new(),
    };
    let state = match state {
        Some(state) => {
            let state: Value = state.decode()?;
            if !state.is_string() {
                return Err(Error::Protocol("requestState must be a string".to_owned()));
            }
            Some(state.to_string())
        }
        None => None,
    };
    if requests.is_empty() && state.is_none() {
        let what = "an input_required result needs inputRequests or requestState";
        return Err(Error::Protocol(what.to_owned()));
    }
    Ok(ResultKind::InputRequired(InputRequired { requests, state }))
}

/// Collects the input from the host, all of it concurrently. A denial fails the request (C-33).
pub(crate) async fn collect_input(
    inner: &ClientInner,
    connection: &Connection,
    host: &dyn Host,
    needed: InputRequired,
) -> Result<Input, Error> {
    if needed.requests.is_empty() {
        // The server asks for nothing but a retry.
        tokio::time::sleep(RETRY_DELAY).await;
    }
    let responses = collect_responses(inner, connection, host, needed.requests).await?;
    let mut input = Vec::new();
    if !responses.is_empty() {
        input.push(("inputResponses", Value::from(responses).to_string()));
    }
    input.extend(needed.state.map(|state| ("requestState", state)));
    Ok(input)
}

/// Collects the answers to input requests from the host, all of them concurrently.
pub(crate) async fn collect_responses(
    inner: &ClientInner,
    connection: &Connection,
    host: &dyn Host,
    requests: Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    if requests.len() > inner.options.max_server_requests {
        let what = format!("{} inputRequests in one result are too many", requests.len());
        return Err(Error::Protocol(what));
    }
    let answers = join_all(requests.into_iter().map(|(key, mut request)| async move {
        let params = request.get_mut("params").map(Value::take).unwrap_or_default();
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        (key, answer_request(inner, connection, host, &method, params).await)
    }))
    .await;
    let mut responses = Map::new();
    for (key, answer) in answers {
        let answer = answer.map_err(|unanswered| match unanswered {
            ServerRequestError::Denied(SampleRefusal::Denied(why)) => Error::Denied(why),
            ServerRequestError::Denied(refusal) => Error::Denied(refusal.to_string()),
            ServerRequestError::Invalid(error) => Error::Protocol(format!(
                "the server sent an invalid input request: {} ({})",
                error.name(),
                crate::sanitize::shorten(&key, 64)
            )),
        })?;
        responses.insert(key, answer);
    }
    Ok(responses)
}

/// Delay before a retry that needs no input.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_millis(50);
