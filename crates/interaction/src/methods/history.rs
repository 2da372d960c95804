//! `interaction.getHistory`: the journal of a session, with its state after each event.

use mcp_flow_engine::SessionHistory;
use mcp_flow_proto::RpcError;
use mcp_flow_server::{Context, Outcome};
use mcp_flow_session::timeline;

use super::reply;
use super::session::RequestedSession;
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::{VALIDATION_FAILED, session_error};

/// Handles the method. A session that its client holds has no journal here.
pub(super) async fn get_history(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    if interaction.inner.backend.is_client_held() {
        return Err(session_error(VALIDATION_FAILED, &requested.name())
            .details("Clients hold the sessions of this server, so it has no journals."));
    }
    let id = requested.id()?;
    let journal = interaction.engine().journal(id, &owner(&context)).await;
    let journal = journal.map_err(|error| requested.error(&error))?;
    let entries = timeline(&journal).map_err(|_| RpcError::internal())?;
    let entries = serde_json::to_value(entries).map_err(|_| RpcError::internal())?;
    let history = SessionHistory { id, events: journal };
    let mut result = history.to_value();
    let hashed = result["entries"].as_array_mut().into_iter().flatten();
    for (hashed, entry) in hashed.zip(entries.as_array().into_iter().flatten()) {
        for (name, member) in entry.as_object().into_iter().flatten() {
            hashed[name] = member.clone();
        }
    }
    let journal = &history.events;
    let session = mcp_flow_session::Session::replay(&journal[..1]).ok().flatten();
    let flow = session.map(|session| session.started.flow);
    context.concerns_tool(flow.as_deref().unwrap_or_default());
    result["flow"] = flow.into();
    reply(&context, result)
}
