//! `interaction.revokeLinks`: revokes links of a session.

use mcp_flow_server::{Context, Outcome};
use serde_json::json;

use super::reply;
use super::session::RequestedSession;
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::{VALIDATION_FAILED, session_error};

/// Handles the method: the links that can still be used, of one `name` if that is given.
pub(super) async fn revoke(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    let name = fields.optional_text("name")?;
    if interaction.inner.backend.is_client_held() {
        return Err(session_error(VALIDATION_FAILED, &requested.name())
            .details("The client holds this session, so it has no links."));
    }
    let (id, owner) = (requested.id()?, owner(&context));
    let revoked = interaction.engine().revoke_links(id, &owner, name.as_deref()).await;
    let revoked = revoked.map_err(|error| requested.error(&error))?;
    reply(&context, json!({"revoked": revoked}))
}
