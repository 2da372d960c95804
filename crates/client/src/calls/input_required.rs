//! `input_required` results (2026-07-28): the server names the input it needs, and the request is
//! sent again with it.

use futures_util::future::join_all;
use mcp_flow_proto::{Raw, method};
use serde_json::{Map, Value};

use crate::client::ClientInner;
use crate::connection::Connection;
use crate::connection::server_requests::{ServerRequestError, answer_request};
use crate::error::Error;
use crate::host::SampleRefusal;

/// Members of params that a repeated request adds, each as JSON.
pub(crate) type Input = Vec<(&'static str, String)>;

/// An `input_required` result.
#[derive(Debug)]
pub(crate) struct InputRequired {
    requests: Map<String, Value>,
    /// `requestState`, opaque, as JSON text.
    state: Option<String>,
}

/// Reads an `input_required` result; `None` for a complete one.
pub(crate) fn read_required(
    connection: &Connection,
    method: &str,
    result: Raw<'_>,
) -> Result<Option<InputRequired>, Error> {
    if !connection.revision().is_stateless() {
        return Ok(None);
    }
    let Ok([kind, requests, state]) =
        result.members(["resultType", "inputRequests", "requestState"])
    else {
        return Ok(None);
    };
    match kind.and_then(Raw::as_text).as_deref() {
        None | Some("complete") => return Ok(None),
        Some("input_required") => {}
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
    Ok(Some(InputRequired { requests, state }))
}

/// Collects the input from the host, all of it concurrently. A denial fails the request (C-33).
pub(crate) async fn collect_input(
    inner: &ClientInner,
    connection: &Connection,
    needed: InputRequired,
) -> Result<Input, Error> {
    if needed.requests.len() > inner.options.max_server_requests {
        let what = format!("{} inputRequests in one result are too many", needed.requests.len());
        return Err(Error::Protocol(what));
    }
    if needed.requests.is_empty() {
        // The server asks for nothing but a retry.
        tokio::time::sleep(RETRY_DELAY).await;
    }
    let answers = join_all(needed.requests.into_iter().map(|(key, mut request)| async move {
        let params = request.get_mut("params").map(Value::take).unwrap_or_default();
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        (key, answer_request(inner, connection, &method, params).await)
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
    let mut input = Vec::new();
    if !responses.is_empty() {
        input.push(("inputResponses", Value::from(responses).to_string()));
    }
    input.extend(needed.state.map(|state| ("requestState", state)));
    Ok(input)
}

/// Delay before a retry that needs no input.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_millis(50);
