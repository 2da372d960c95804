//! `interaction.signal`: sends a signal to the flow of a session.

use mcp_flow_server::{Context, Outcome};
use serde_json::json;

use super::reply;
use super::session::RequestedSession;
use crate::delivery::Delivery;
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::{VALIDATION_FAILED, session_error};
use crate::wire;

/// Handles the method: the flow gets `value` where it waits for a signal of this `name`. Until then
/// the signal is kept.
pub(super) async fn signal(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    let name = fields.text("name")?;
    let value = fields.any("value").unwrap_or_default();
    if interaction.inner.backend.is_client_held() {
        return Err(session_error(VALIDATION_FAILED, &requested.name())
            .details("The client holds this session, so its flow cannot wait for signals."));
    }
    let (id, owner) = (requested.id()?, owner(&context));
    let signalled = interaction.engine().signal(id, &owner, name, value).await;
    let signalled = signalled.map_err(|error| requested.error(&error))?;
    let mut result = json!({"signalled": true, "kept": signalled.is_kept});
    // Otherwise what is next is pushed to whoever follows the session, which need not be the sender.
    if !signalled.is_kept && interaction.delivery(&context) == Delivery::Inline {
        interaction.record_delivered(&signalled.view, context.client().queue_position());
        result["next"] = wire::next(&signalled.view);
    }
    reply(&context, result)
}
