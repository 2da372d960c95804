//! Recorded histories, replayed against the code of today.

use std::path::Path;

use mcp_flow_engine::SessionHistory;
use mcp_flow_interaction::{Interaction, IntoFlows};
use mcp_flow_session::JournalEvent;

use crate::FlowTestError;

/// Checks whether flows can continue a session from its exported history, as
/// `mcp-flow sessions export` and [`TestedSession::export`](crate::TestedSession::export) write it.
///
/// Nothing is run: steps return what was recorded. Export a history of each kind before a flow is
/// changed, and keep the files beside its tests.
pub fn replay(flows: impl IntoFlows, file: impl AsRef<Path>) -> Result<(), FlowTestError> {
    let file = file.as_ref();
    let unreadable = |cause| FlowTestError::Unreadable { file: file.to_owned(), cause };
    let text = std::fs::read(file).map_err(unreadable)?;
    let history = serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?;
    let mut events = SessionHistory::read(&history)?.events;
    // A history that was recorded by a test goes on to the end, which would fit any code.
    if events.len() > 1 {
        events.pop_if(|event| matches!(event, JournalEvent::Ended(_)));
    }
    let interaction = Interaction::builder().flows(flows).offline().build();
    Ok(interaction.engine().check_history(&events)?)
}
