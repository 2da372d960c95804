//! `interaction.*` and `capabilities`.

mod carried;
mod start;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{EngineError, Reply as Answered, Response, Standing};
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome, Reply, ServerBuilder};
use mcp_flow_session::store::{Listed, Page, Phase};
use mcp_flow_session::{SessionId, State};
use serde_json::{Map, Value, json};

use crate::delivery::{Delivery, Outlook};
use crate::fault::{
    NOT_INTERACTIVE, SESSION_NOT_FOUND, VALIDATION_FAILED, about, going_on, refused, transition,
};
use crate::fields::Fields;
use crate::interaction::{ERA, Interaction, owner};
use crate::wire;
use start::refuse_timeout;

/// Adds the methods to a server.
pub(crate) fn add_to(interaction: &Interaction, server: ServerBuilder) -> ServerBuilder {
    let capabilities = Arc::new(interaction.capabilities());
    let server =
        server.early_method("capabilities", ERA, move |context: &Context, _: Params<'_>| {
            Reply::Ready(reply(context, (*capabilities).clone()))
        });
    if !interaction.inner.is_enabled {
        return METHODS.into_iter().fold(server, |server, method| {
            server.method(method, ERA, |_: &Context, _: Params<'_>| {
                let error = RpcError::new(NOT_INTERACTIVE).with("reason", "disabled");
                Reply::Ready(Err(error.details("Conversations are switched off; use tools/call.")))
            })
        });
    }
    if interaction.inner.stateless.is_some() {
        return carried::add_to(interaction, server);
    }
    let server = method(server, interaction, "interaction.start", start::start);
    let server = method(server, interaction, "interaction.respond", respond);
    let server = method(server, interaction, "interaction.continue", proceed);
    let server = method(server, interaction, "interaction.complete", complete);
    let server = method(server, interaction, "interaction.cancel", cancel);
    let server = method(server, interaction, "interaction.getState", get_state);
    method(server, interaction, "interaction.list", list)
}

const METHODS: [&str; 7] = [
    "interaction.start",
    "interaction.respond",
    "interaction.continue",
    "interaction.complete",
    "interaction.cancel",
    "interaction.getState",
    "interaction.list",
];

/// Adds a method whose params are taken apart before it begins to wait.
fn method<W>(
    server: ServerBuilder,
    interaction: &Interaction,
    name: &'static str,
    serve: impl Fn(Interaction, Context, Fields) -> W + Copy + Send + Sync + 'static,
) -> ServerBuilder
where
    W: Future<Output = Outcome> + Send + 'static,
{
    let interaction = interaction.clone();
    server.method(name, ERA, move |context: &Context, params: Params<'_>| {
        match Fields::read(params) {
            Ok(fields) => {
                Reply::Later(Box::pin(serve(interaction.clone(), context.clone(), fields)))
            }
            Err(error) => Reply::Ready(Err(error)),
        }
    })
}

/// The session a request names. One of a flow that the caller may not use is none.
async fn session(
    interaction: &Interaction,
    context: &Context,
    fields: &mut Fields,
) -> Result<(SessionId, String), RpcError> {
    let (id, name) = fields.session()?;
    if !context.may_all(PermissionKind::Flow) {
        let session = interaction.engine().inspect(id, &owner(context)).await;
        let session = session.map_err(|error| refused(&name, &error))?;
        if !context.may(PermissionKind::Flow, &session.summary().flow) {
            return Err(about(SESSION_NOT_FOUND, &name));
        }
    }
    Ok((id, name))
}

/// `interaction.respond`: the user answers (INT-035 to INT-042).
async fn respond(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    // Before anything is waited for: what is sent meanwhile, the sender has not seen.
    let seen = fields.peek_session().and_then(|id| interaction.seen(&context, id));
    let (id, name) = session(&interaction, &context, &mut fields).await?;
    let Some(response) = fields.object("response")? else {
        return Err(fields.fault("response", "is required"));
    };
    let response = read_response(response)?.seen(seen);
    let delivery = Delivery::of(&context);
    let engine = interaction.engine();
    let owner = owner(&context);
    let answered = engine.respond(id, &owner, response).await;
    let answered = answered.map_err(|error| refused(&name, &error))?;
    interaction.do_not_warn(id);
    if delivery == Delivery::Push {
        let (result, view) = (verdict(&answered, &name)?, answered.view());
        // That it is over follows from the reply; a question comes by itself.
        if let Standing::Ended(_) = view.standing {
            interaction.note_shown(view, context.client().moment());
        }
        interaction.deliver(&context, view, Outlook::of(view, false));
        return reply(&context, result);
    }
    let mut waited = None;
    if let Standing::Working(_) = answered.view().standing {
        let patience = interaction.inner.patience.start;
        waited = engine.wait(id, &owner, patience).await.ok();
    }
    let view = waited.as_ref().unwrap_or(answered.view());
    refuse_timeout(view)?;
    interaction.note_shown(view, context.client().moment());
    if let Answered::Accepted(_) | Answered::Repeated(_) = answered {
        return context.reply(&wire::Accepted::new(view, context.revision()));
    }
    let mut result = verdict(&answered, &name)?;
    result["next"] = wire::next(view);
    reply(&context, result)
}

/// What becomes of an answer.
fn verdict(answered: &Answered, session: &str) -> Result<Value, RpcError> {
    match answered {
        Answered::Accepted(_) | Answered::Repeated(_) => {
            Ok(json!({"accepted": true, "validation": {"valid": true}}))
        }
        Answered::Rejected { violation, .. } => {
            Ok(json!({"accepted": false, "validation": wire::rejection(violation)}))
        }
        Answered::Ended(_) => Err(about(VALIDATION_FAILED, session)
            .with("reason", "attempts")
            .with("sessionState", State::Error.name())
            .details("Too many invalid answers: the session has ended.")),
    }
}

fn read_response(members: Map<String, Value>) -> Result<Response, RpcError> {
    let mut fields = Fields::inside(members, "response.");
    let value = fields.any("value").ok_or_else(|| fields.fault("value", "is required"))?;
    let mut response = Response::from(value);
    response.answer.timestamp = fields.timestamp("timestamp")?;
    response.answer.metadata = fields.object("metadata")?.unwrap_or_default();
    let turn = fields.whole("turnId")?;
    response.turn = turn.map(|turn| u32::try_from(turn).unwrap_or(u32::MAX));
    Ok(response)
}

/// `interaction.continue` from the client: what is next? (C-09)
async fn proceed(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let (id, name) = session(&interaction, &context, &mut fields).await?;
    check_continue(&mut fields)?;
    let patience = interaction.inner.patience.poll.min(call_patience(&context));
    let view = interaction.engine().wait(id, &owner(&context), patience).await;
    let view = view.and_then(going_on).map_err(|error| refused(&name, &error))?;
    interaction.note_shown(&view, context.client().moment());
    reply(&context, json!({"state": view.state.name(), "next": wire::next(&view)}))
}

/// Time that a request may wait for its flow: a little less than the call may take, so that the
/// client is told what it waits for (C-41).
fn call_patience(context: &Context) -> Duration {
    let limit = context.limits().call_time;
    limit.saturating_sub(limit / 10)
}

/// What only a server says in this request counts for nothing from a client, but has its form.
fn check_continue(fields: &mut Fields) -> Result<(), RpcError> {
    fields.object("nextPrompt")?;
    fields.object("progress")?;
    Ok(())
}

/// `interaction.complete` from the client: finish with what there is (C-08).
async fn complete(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let (id, name) = session(&interaction, &context, &mut fields).await?;
    fields.object("result")?;
    fields.optional_text("summary")?;
    let (engine, owner) = (interaction.engine(), owner(&context));
    let view = match engine.finish(id, &owner).await {
        Ok(view) => view,
        Err(EngineError::NotEarly) => {
            let view = engine.view(id, &owner).await.map_err(|error| refused(&name, &error))?;
            let error = transition(&name, view.state, State::Completed);
            return Err(error.details("This flow cannot be finished before its end."));
        }
        Err(error) => return Err(refused(&name, &error)),
    };
    interaction.do_not_warn(id);
    let next = wire::next(&view);
    let data = &next["complete"]["result"]["data"];
    reply(&context, json!({"success": true, "finalResult": data}))
}

/// `interaction.cancel` (INT-051 to INT-055).
async fn cancel(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let (id, name) = session(&interaction, &context, &mut fields).await?;
    let reason = fields.optional_text("reason")?;
    let cancelled = interaction.engine().cancel(id, &owner(&context), reason).await;
    cancelled.map_err(|error| refused(&name, &error))?;
    interaction.do_not_warn(id);
    tracing::info!(session = %id, "a session was cancelled");
    reply(&context, json!({"cancelled": true}))
}

/// `interaction.getState` (INT-056 to INT-061).
async fn get_state(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let (id, name) = session(&interaction, &context, &mut fields).await?;
    let session = interaction.engine().inspect(id, &owner(&context)).await;
    let session = session.map_err(|error| refused(&name, &error))?;
    let turn = match &session.ended {
        Some(ended) => Some(ended.turns),
        None => session.open.as_ref().and_then(|_| u32::try_from(session.history.len()).ok()),
    };
    if let Some(turn) = turn {
        interaction.inner.shown.note(id, turn, context.client().moment());
    }
    reply(&context, wire::state(id, &session))
}

/// `interaction.list`: the caller's own sessions, a page at a time (C-53).
async fn list(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let after = match fields.optional_text("cursor")? {
        None => None,
        Some(cursor) => match cursor.parse() {
            Ok(id) => Some(id),
            Err(_) => return Err(fields.fault("cursor", "is not one this server gave")),
        },
    };
    let page = Page { after, most: PAGE + 1 };
    let listed = interaction.engine().list(&owner(&context), Phase::Any, page).await;
    let mut listed = listed.map_err(|error| refused("", &error))?;
    let more = listed.len() > PAGE;
    listed.truncate(PAGE);
    let may_see = |listed: &&Listed| context.may(PermissionKind::Flow, &listed.summary.flow);
    let sessions: Vec<_> = listed.iter().filter(may_see).map(wire::listed).collect();
    let mut result = json!({"sessions": sessions});
    if let Some(last) = listed.last().filter(|_| more) {
        result["nextCursor"] = last.id.to_string().into();
    }
    reply(&context, result)
}

/// Encodes a result, saying what later revisions want said.
fn reply(context: &Context, mut result: Value) -> Outcome {
    if context.revision().is_stateless() {
        result["resultType"] = "complete".into();
    }
    context.reply(&result)
}

/// How many sessions are listed at once.
const PAGE: usize = 100;
