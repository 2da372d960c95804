//! `interaction.rewind`: changes an earlier answer.

use mcp_flow_engine::EngineError;
use mcp_flow_server::{Context, Outcome};
use serde_json::json;

use super::reply;
use super::session::RequestedSession;
use crate::delivery::{Delivery, NextUp};
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::{VALIDATION_FAILED, session_error};
use crate::wire;

/// Handles the method: the session goes on from its last answered question of the key `to`, which is
/// asked again. A client that holds a session has its earlier tokens instead.
pub(super) async fn rewind(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let requested = RequestedSession::read(&interaction, &context, &mut fields).await?;
    let to = fields.text("to")?;
    if interaction.inner.backend.is_client_held() {
        return Err(session_error(VALIDATION_FAILED, &requested.name())
            .details("The client holds this session, and its server has no journal to rewind."));
    }
    let (id, owner) = (requested.id()?, owner(&context));
    let rewound = interaction.engine().rewind(id, &owner, &to).await;
    let view = rewound.map_err(|error| match &error {
        EngineError::NotRewound(_) => requested.error(&error).with("to", to.as_str()),
        _ => requested.error(&error),
    })?;
    context.concerns_tool(&view.flow);
    interaction.cancel_warning(id);
    if interaction.delivery(&context) == Delivery::Push {
        interaction.deliver(&context, &view, NextUp::of(&view, false));
        return reply(&context, json!({"rewound": true}));
    }
    interaction.record_delivered(&view, context.client().queue_position());
    reply(&context, json!({"rewound": true, "next": wire::next(&view)}))
}
