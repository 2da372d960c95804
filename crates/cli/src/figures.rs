//! Numbers beside those of HTTP at `/metrics`: conversations (INT-074), memory.

use mcp_flow::Interaction;
use mcp_flow::load::Load;
use mcp_flow::observe::{MetricType, MetricsText};
use mcp_flow::session::store::Census;

/// How much the server holds for all clients, in the text format of Prometheus.
pub(crate) fn held(load: &Load) -> String {
    let mut text = MetricsText::default();
    let help = "Bytes held for all clients";
    text.single("mcp_flow_held_bytes", MetricType::Gauge, help, load.bytes());
    text.finish()
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
    let name = "mcp_flow_conversations";
    let mut text = MetricsText::default();
    text.metric(name, MetricType::Gauge, "Sessions by state");
    for (state, count) in [("waiting", waiting), ("processing", working), ("ended", ended)] {
        text.sample(name, &[("state", state)], count);
    }
    text.finish()
}
