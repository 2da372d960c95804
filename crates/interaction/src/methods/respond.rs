//! `interaction.respond`: the most frequent method, so its params are decoded member by member,
//! without those that it does not use.

use std::borrow::Cow;

use mcp_flow_engine::{AnswerReply, AnswerRequest, SessionStatus};
use mcp_flow_proto::{DecodeError, Params, Raw, RpcError, ValueKind};
use mcp_flow_server::{Context, Outcome, Reply, ServerBuilder};
use mcp_flow_session::{State, Timestamp};
use serde_json::{Map, Value, json};

use super::session::{RequestedSession, SessionNames, reply_with};
use super::start::check_not_timed_out;
use super::{call_timeout, reply};
use crate::delivery::{Delivery, NextUp};
use crate::fields::{check_count, fault, whole};
use crate::interaction::{ERA, Interaction, owner};
use crate::protocol_errors::{VALIDATION_FAILED, session_error};
use crate::wire;

/// Adds the method to a server.
pub(super) fn add_to(interaction: &Interaction, server: ServerBuilder) -> ServerBuilder {
    let interaction = interaction.clone();
    server.method("interaction.respond", ERA, move |context: &Context, params: Params<'_>| {
        match RespondParams::read(&interaction, params) {
            Ok(params) => {
                Reply::Later(Box::pin(respond(interaction.clone(), context.clone(), params)))
            }
            Err(error) => Reply::Ready(Err(error)),
        }
    })
}

struct RespondParams {
    names: SessionNames,
    /// An error here is reported after those about the session.
    answer: Result<AnswerRequest, RpcError>,
}

impl RespondParams {
    fn read(interaction: &Interaction, params: Params<'_>) -> Result<Self, RpcError> {
        check_count(params)?;
        let [id, token, response] =
            pick(params.object(), ["sessionId", "sessionToken", "response"])?;
        let token = token.filter(|_| interaction.inner.backend.is_client_held());
        let (id, token) = (text("sessionId", id)?, text("sessionToken", token)?);
        let names = SessionNames::of(interaction, id, token)?;
        Ok(Self { names, answer: read_answer(response) })
    }
}

/// `interaction.respond`: answers the open question (INT-035 to INT-042).
async fn respond(interaction: Interaction, context: Context, params: RespondParams) -> Outcome {
    let RespondParams { names, answer } = params;
    // Read before the first await: the sender cannot know a question sent after its answer.
    let seen = names.id().and_then(|id| interaction.seen_turn(&context, id));
    let requested = RequestedSession::find(&interaction, &context, names).await?;
    let answer = answer?.seen(seen);
    let delivery = interaction.delivery(&context);
    let (backend, owner) = (&interaction.inner.backend, owner(&context));
    let timeout = call_timeout(&context);
    let replied = backend.respond(&requested.session, &owner, answer, timeout).await;
    let (replied, session) = replied.map_err(|error| requested.error(&error))?;
    let id = replied.view().id;
    context.concerns_tool(&replied.view().flow);
    interaction.cancel_warning(id);
    if delivery == Delivery::Push {
        let (result, view) = (validation_result(&replied)?, replied.view());
        // The reply tells of the end; a question is sent separately.
        if let SessionStatus::Ended(_) = view.status {
            interaction.record_delivered(view, context.client().queue_position());
        }
        interaction.deliver(&context, view, NextUp::of(view, false));
        return reply(&context, result);
    }
    let mut waited = None;
    if let SessionStatus::Working(_) = replied.view().status {
        let timeout = interaction.inner.timeouts.start;
        // Most flows ask at once, so that the state of waiting does not enlarge every request.
        waited = Box::pin(backend.wait(&session, &owner, timeout)).await.ok();
    }
    let view = waited.as_ref().unwrap_or(replied.view());
    check_not_timed_out(view)?;
    if !context.keeps_order() {
        read_others().await;
    }
    interaction.record_delivered(view, context.client().queue_position());
    let is_accepted = matches!(replied, AnswerReply::Accepted(_) | AnswerReply::Repeated(_));
    let Some(token) = session.token() else {
        if is_accepted {
            return context.reply(&wire::Accepted::new(view, context.revision()));
        }
        let mut result = validation_result(&replied)?;
        result["next"] = wire::next(view);
        return reply(&context, result);
    };
    let validation = validation_result(&replied);
    let mut result = validation.map_err(|error| error.with("sessionToken", token))?;
    result["sessionId"] = id.to_string().into();
    result["next"] = wire::next(view);
    reply_with(&context, result, &session)
}

/// Lets the runtime read what has arrived on other connections. Those requests were sent before this
/// one is answered, so none of them knows what is next (C-56).
async fn read_others() {
    // The runtime looks for input when nothing else is to be done, and resumes this before it
    // handles what it has found.
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
}

/// The result of an answer, without what is next.
fn validation_result(replied: &AnswerReply) -> Result<Value, RpcError> {
    match replied {
        AnswerReply::Accepted(_) | AnswerReply::Repeated(_) => {
            Ok(json!({"accepted": true, "validation": {"valid": true}}))
        }
        AnswerReply::Rejected { violation, .. } => {
            Ok(json!({"accepted": false, "validation": wire::rejection(violation)}))
        }
        AnswerReply::Ended(view) => Err(session_error(VALIDATION_FAILED, &view.id.to_string())
            .with("reason", "attempts")
            .with("sessionState", State::Error.name())
            .details("Too many invalid answers: the session has ended.")),
    }
}

fn read_answer(response: Option<Raw<'_>>) -> Result<AnswerRequest, RpcError> {
    let response = response.filter(|response| response.kind() != ValueKind::Null);
    let response = response.ok_or_else(|| fault("response", "is required"))?;
    if response.kind() != ValueKind::Object {
        return Err(fault("response", "must be an object"));
    }
    let [value, timestamp, metadata, turn] =
        pick(response, ["value", "timestamp", "metadata", "turnId"])?;
    let value = value.ok_or_else(|| fault("response.value", "is required"))?;
    let mut answer = AnswerRequest::from(decode(value)?);
    answer.answer.timestamp = number("response.timestamp", timestamp)?.map(Timestamp::from_millis);
    answer.answer.metadata = match metadata.map(decode).transpose()?.unwrap_or_default() {
        Value::Null => Map::new(),
        Value::Object(metadata) => metadata,
        _ => return Err(fault("response.metadata", "must be an object")),
    };
    let turn = number("response.turnId", turn)?;
    answer.turn = turn.map(|turn| u32::try_from(turn).unwrap_or(u32::MAX));
    Ok(answer)
}

/// Picks members by name; of those that appear twice, the last counts, as in every other method.
fn pick<'a, const N: usize>(
    object: Raw<'a>,
    names: [&str; N],
) -> Result<[Option<Raw<'a>>; N], RpcError> {
    let mut found = [None; N];
    let walked = object.each_member(&names, |position, value| {
        if let Some(index) = position {
            found[index] = Some(value);
        }
        Ok::<_, DecodeError>(())
    });
    walked.map_err(invalid)?;
    Ok(found)
}

fn text<'a>(name: &str, raw: Option<Raw<'a>>) -> Result<Option<Cow<'a, str>>, RpcError> {
    let Some(raw) = raw.filter(|raw| raw.kind() != ValueKind::Null) else { return Ok(None) };
    if raw.kind() != ValueKind::String {
        return Err(fault(name, "must be a string"));
    }
    match raw.as_text() {
        Some(text) => Ok(Some(text)),
        // It has no text: decoding it says why.
        None => raw.decode::<String>().map(|text| Some(Cow::Owned(text))).map_err(invalid),
    }
}

fn number(name: &str, raw: Option<Raw<'_>>) -> Result<Option<u64>, RpcError> {
    let value = raw.map(decode).transpose()?.unwrap_or_default();
    whole(&value).map_err(|what| fault(name, what))
}

fn decode(raw: Raw<'_>) -> Result<Value, RpcError> {
    raw.decode().map_err(invalid)
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function of `map_err`")]
fn invalid(error: DecodeError) -> RpcError {
    RpcError::invalid_params(error.to_string())
}
