//! `interaction.*` where clients carry their sessions in tokens (C-43, INT-128 to INT-133).
//!
//! Every result has a fresh `sessionToken`, and everything that is next is in results: what is
//! pushed could not be answered without a token.

use mcp_flow_engine::{EngineError, Standing, Stateless, View};
use mcp_flow_proto::RpcError;
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome, ServerBuilder};
use mcp_flow_session::State;
use serde_json::{Value, json};

use super::start::{check_given, no_such_flow, read};
use super::{call_patience, check_continue, method, read_response, reply, verdict};
use crate::fault::{
    SESSION_NOT_FOUND, VALIDATION_FAILED, about, going_on, not_started, outdated, refused,
    transition,
};
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::wire;

pub(super) fn add_to(interaction: &Interaction, server: ServerBuilder) -> ServerBuilder {
    let server = method(server, interaction, "interaction.start", start);
    let server = method(server, interaction, "interaction.respond", respond);
    let server = method(server, interaction, "interaction.continue", proceed);
    let server = method(server, interaction, "interaction.complete", complete);
    let server = method(server, interaction, "interaction.cancel", cancel);
    let server = method(server, interaction, "interaction.getState", get_state);
    method(server, interaction, "interaction.list", list)
}

async fn start(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let start = read(&context, &mut fields)?;
    let flow = start.flow.clone();
    if !interaction.inner.flows.contains_key(&flow) || !context.may(PermissionKind::Flow, &flow) {
        return Err(no_such_flow(&context, &flow));
    }
    check_given(&context, &start)?;
    let started = sessions(&interaction)?.start_within(call_patience(&context), start).await;
    let (view, token) = started.map_err(|error| not_started(&flow, &error))?;
    let mut meta = json!({"effectiveState": view.state.name()});
    if let Some(millis) = view.inactivity {
        meta["timeout"] = millis.into();
    }
    let mut result = json!({"sessionId": view.id, "state": State::Idle.name(), "_meta": meta});
    if let Standing::Waiting(open) = &view.standing {
        result["initialPrompt"] = wire::prompt(open);
    }
    result["next"] = wire::next(&view);
    told(&context, result, token)
}

async fn respond(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let brought = Brought::take(&mut fields)?;
    brought.check(&interaction, &context).await?;
    let Some(response) = fields.object("response")? else {
        return Err(fields.fault("response", "is required"));
    };
    let response = read_response(response)?;
    let sessions = sessions(&interaction)?;
    let (limit, owner) = (call_patience(&context), owner(&context));
    let answered = sessions.respond_within(limit, &brought.token, &owner, response).await;
    let (answered, token) = answered.map_err(|error| brought.refused(sessions, &error))?;
    let view = answered.view();
    let mut result = verdict(&answered, &view.id.to_string())
        .map_err(|error| error.with("sessionToken", token.as_str()))?;
    result["sessionId"] = view.id.to_string().into();
    result["next"] = wire::next(view);
    told(&context, result, token)
}

async fn proceed(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let brought = Brought::take(&mut fields)?;
    brought.check(&interaction, &context).await?;
    check_continue(&mut fields)?;
    let sessions = sessions(&interaction)?;
    let view = sessions.view(&brought.token, &owner(&context)).await;
    let view = view.and_then(going_on).map_err(|error| brought.refused(sessions, &error))?;
    let result = json!({"state": view.state.name(), "next": wire::next(&view)});
    told(&context, result, brought.token)
}

async fn complete(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let brought = Brought::take(&mut fields)?;
    brought.check(&interaction, &context).await?;
    fields.object("result")?;
    fields.optional_text("summary")?;
    let (sessions, owner) = (sessions(&interaction)?, owner(&context));
    let (view, token) = match sessions.finish(&brought.token, &owner).await {
        Ok(finished) => finished,
        Err(EngineError::NotEarly) => {
            let view = sessions.view(&brought.token, &owner).await;
            let view = view.map_err(|error| brought.refused(sessions, &error))?;
            let View { id, state, .. } = view;
            let error = transition(&id.to_string(), state, State::Completed);
            return Err(error.details("This flow cannot be finished before its end."));
        }
        Err(error) => return Err(brought.refused_to(State::Completed, sessions, &error)),
    };
    let next = wire::next(&view);
    let data = &next["complete"]["result"]["data"];
    told(&context, json!({"success": true, "finalResult": data}), token)
}

async fn cancel(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let brought = Brought::take(&mut fields)?;
    brought.check(&interaction, &context).await?;
    let reason = fields.optional_text("reason")?;
    let sessions = sessions(&interaction)?;
    let cancelled = sessions.cancel(&brought.token, &owner(&context), reason).await;
    let refuse = |error| brought.refused_to(State::Cancelled, sessions, &error);
    let (_, token) = cancelled.map_err(refuse)?;
    told(&context, json!({"cancelled": true}), token)
}

async fn get_state(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let brought = Brought::take(&mut fields)?;
    brought.check(&interaction, &context).await?;
    let sessions = sessions(&interaction)?;
    let session = sessions.inspect(&brought.token, &owner(&context)).await;
    let session = session.map_err(|error| brought.refused(sessions, &error))?;
    // A token that was opened has a session.
    let id = sessions.session(&brought.token).ok_or_else(RpcError::internal)?;
    told(&context, wire::state(id, &session), brought.token)
}

/// Nothing is kept here, so there is nothing to list.
async fn list(_: Interaction, context: Context, _: Fields) -> Outcome {
    reply(&context, json!({"sessions": []}))
}

fn sessions(interaction: &Interaction) -> Result<&Stateless, RpcError> {
    // These methods are added only where it is there.
    interaction.inner.stateless.as_ref().ok_or_else(RpcError::internal)
}

fn told(context: &Context, mut result: Value, token: String) -> Outcome {
    result["sessionToken"] = token.into();
    reply(context, result)
}

/// The token a request brings, as `sessionToken` or in place of `sessionId`.
struct Brought {
    token: String,
    /// What the session is called in errors.
    name: String,
    as_token: bool,
}

impl Brought {
    fn take(fields: &mut Fields) -> Result<Self, RpcError> {
        let id = fields.optional_text("sessionId")?;
        let token = fields.optional_text("sessionToken")?;
        match (token, id) {
            (Some(token), id) => Ok(Self { token, name: id.unwrap_or_default(), as_token: true }),
            (None, Some(id)) => Ok(Self { token: id.clone(), name: id, as_token: false }),
            (None, None) => Err(fields.fault("sessionId", "or sessionToken is required")),
        }
    }

    /// Refuses a token that is of another session than the one the request names (C-43).
    fn check_name(&self, sessions: &Stateless) -> Result<(), RpcError> {
        let is_named = self.as_token && !self.name.is_empty();
        // What is no token at all is refused when it is used.
        let id = is_named.then(|| sessions.session(&self.token)).flatten();
        match id.is_none_or(|id| id.to_string() == self.name) {
            true => Ok(()),
            false => Err(about(VALIDATION_FAILED, &self.name)
                .with("field", "sessionToken")
                .details("This token is of another session; send the one that came with it.")),
        }
    }

    /// Refuses a session of a flow that the caller may not use, as if it were none.
    async fn check(&self, interaction: &Interaction, context: &Context) -> Result<(), RpcError> {
        self.check_name(sessions(interaction)?)?;
        if context.may_all(PermissionKind::Flow) {
            return Ok(());
        }
        let sessions = sessions(interaction)?;
        let session = sessions.inspect(&self.token, &owner(context)).await;
        let session = session.map_err(|error| self.refused(sessions, &error))?;
        match context.may(PermissionKind::Flow, &session.summary().flow) {
            true => Ok(()),
            false => Err(about(SESSION_NOT_FOUND, &self.name)),
        }
    }

    /// As [`refused`](Self::refused), of a request that would have taken the session somewhere else
    /// than an answer does.
    fn refused_to(&self, to: State, sessions: &Stateless, error: &EngineError) -> RpcError {
        match (error, sessions.session(&self.token)) {
            (EngineError::Outdated, Some(id)) => outdated(&id.to_string(), to),
            _ => self.refused(sessions, error),
        }
    }

    fn refused(&self, sessions: &Stateless, error: &EngineError) -> RpcError {
        match error {
            // A name alone says nothing of where its session stands, or whether there is one.
            EngineError::BadToken(_) if !self.as_token => about(SESSION_NOT_FOUND, &self.name),
            EngineError::BadToken(bad) => {
                // Which session a token is of is known only if the token is good.
                let error = match self.name.as_str() {
                    "" => RpcError::new(VALIDATION_FAILED),
                    name => about(VALIDATION_FAILED, name),
                };
                error.with("field", "sessionToken").details(bad.to_string())
            }
            other => match sessions.session(&self.token) {
                Some(id) => refused(&id.to_string(), other),
                None => refused(&self.name, other),
            },
        }
    }
}
