//! Numbers beside those of HTTP at `/metrics`: conversations (INT-074), memory.

use mcp_flow::Interaction;
use mcp_flow::load::Load;
use mcp_flow::session::store::Census;

/// How much the server holds for all clients, in the text format of Prometheus.
pub(crate) fn held(load: &Load) -> String {
    format!(
        "# HELP mcp_flow_held_bytes Bytes held for all clients\n\
         # TYPE mcp_flow_held_bytes gauge\n\
         mcp_flow_held_bytes {}\n",
        load.bytes()
    )
}

/// How many conversations there are, in the text format of Prometheus.
pub(crate) async fn conversations(sessions: Interaction) -> String {
    match sessions.engine().census().await {
        Ok(census) => text(census),
        // What cannot be counted is left out, which whoever watches is told of.
        Err(error) => {
            tracing::warn!(%error, "conversations cannot be counted");
            String::new()
        }
    }
}

fn text(Census { waiting, working, ended }: Census) -> String {
    format!(
        "# HELP mcp_flow_conversations Conversations by where they stand\n\
         # TYPE mcp_flow_conversations gauge\n\
         mcp_flow_conversations{{state=\"waiting\"}} {waiting}\n\
         mcp_flow_conversations{{state=\"processing\"}} {working}\n\
         mcp_flow_conversations{{state=\"ended\"}} {ended}\n"
    )
}
