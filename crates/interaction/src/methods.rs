//! The methods `interaction.*` and `capabilities`.
//!
//! They run on stored and on client-held sessions ([`backend`](crate::backend)). With client-held
//! ones every result has a fresh `sessionToken` and contains what is next: a pushed question could
//! not be answered without a token (INT-128 to INT-133).

mod history;
pub(crate) mod list;
mod respond;
mod rewind;
mod session;
mod start;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::EngineError;
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::{Context, Outcome, Reply, ServerBuilder};
use mcp_flow_session::State;
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::interaction::{ERA, Interaction, owner};
use crate::protocol_errors::{NOT_INTERACTIVE, check_not_aborted, transition};
use crate::tool::output;
use crate::wire;
use session::{RequestedSession, reply_with};

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
                Reply::Ready(Err(error.details("Interaction is switched off; use tools/call.")))
            })
        });
    }
    let server = method(server, interaction, "interaction.start", start::start);
    let server = respond::add_to(interaction, server);
    let server = method(server, interaction, "interaction.continue", continue_session);
    let server = method(server, interaction, "interaction.complete", complete);
    let server = method(server, interaction, "interaction.cancel", cancel);
    let server = method(server, interaction, "interaction.rewind", rewind::rewind);
    let server = method(server, interaction, "interaction.getState", get_state);
    let server = method(server, interaction, "interaction.getHistory", history::get_history);
    method(server, interaction, "interaction.list", list::list)
}

const METHODS: [&str; 9] = [
    "interaction.start",
    "interaction.respond",
    "interaction.continue",
    "interaction.complete",
    "interaction.cancel",
    "interaction.rewind",
    "interaction.getState",
    "interaction.getHistory",
    "interaction.list",
];

/// Adds a method whose params are decoded before it waits.
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

/// `interaction.continue` from the client: returns what is next (C-09).
async fn continue_session(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    // Members that only a server sends are ignored, but must be well formed.
    fields.object("nextPrompt")?;
    fields.object("progress")?;
    let backend = &interaction.inner.backend;
    let timeout = interaction.inner.timeouts.poll.min(call_timeout(&context));
    let view = backend.wait(&requested.session, &owner(&context), timeout).await;
    let view = view.and_then(check_not_aborted).map_err(|error| requested.error(&error))?;
    context.concerns_tool(&view.flow);
    interaction.record_delivered(&view, context.client().queue_position());
    let result = json!({"state": view.state.name(), "next": wire::next(&view)});
    reply_with(&context, result, &requested.session)
}

/// Time a request may wait for its flow: a little less than the timeout of the call, so that the
/// client gets a reply (C-41).
fn call_timeout(context: &Context) -> Duration {
    let limit = context.limits().call_time;
    limit.saturating_sub(limit / 10)
}

/// `interaction.complete` from the client: completes early, with the data gathered so far (C-08).
async fn complete(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    fields.object("result")?;
    fields.optional_text("summary")?;
    let (backend, owner) = (&interaction.inner.backend, owner(&context));
    let (view, session) = match backend.finish(&requested.session, &owner).await {
        Ok(finished) => finished,
        Err(EngineError::NotEarly) => {
            let view = backend.view(&requested.session, &owner).await;
            let view = view.map_err(|error| requested.error(&error))?;
            let error = transition(&requested.name(), view.state, State::Completed);
            return Err(error.details("This flow cannot be finished before its end."));
        }
        Err(error) => return Err(requested.error_towards(State::Completed, &error)),
    };
    context.concerns_tool(&view.flow);
    interaction.cancel_warning(view.id);
    let next = wire::next(&view);
    let data = &next["complete"]["result"]["data"];
    reply_with(&context, json!({"success": true, "finalResult": data}), &session)
}

/// `interaction.cancel` (INT-051 to INT-055).
async fn cancel(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    let reason = fields.optional_text("reason")?.map(output::requested_reason);
    let backend = &interaction.inner.backend;
    let cancelled = backend.cancel(&requested.session, &owner(&context), reason).await;
    let (view, session) =
        cancelled.map_err(|error| requested.error_towards(State::Cancelled, &error))?;
    context.concerns_tool(&view.flow);
    interaction.cancel_warning(view.id);
    tracing::info!(session = %view.id, "session cancelled");
    reply_with(&context, json!({"cancelled": true}), &session)
}

/// `interaction.getState` (INT-056 to INT-061).
async fn get_state(interaction: Interaction, context: Context, mut fields: Fields) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    let session = interaction.inner.backend.inspect(&requested.session, &owner(&context)).await;
    let session = session.map_err(|error| requested.error(&error))?;
    context.concerns_tool(&session.started.flow);
    let turn = match &session.ended {
        Some(ended) => Some(ended.turns),
        None => session.open.as_ref().map(|_| session.turn()),
    };
    let id = requested.id()?;
    if let Some(turn) = turn {
        interaction.record_delivered_turn(id, turn, context.client().queue_position());
    }
    reply_with(&context, wire::state(id, &session), &requested.session)
}

/// Encodes a result, with the members later revisions require.
fn reply(context: &Context, mut result: Value) -> Outcome {
    if context.revision().is_stateless() {
        result["resultType"] = "complete".into();
    }
    context.reply(&result)
}
