//! Metrics besides those of HTTP: sessions (INT-074) and memory.

use mcp_flow::Interaction;
use mcp_flow::engine::ClusterMember;
use mcp_flow::load::Load;
use mcp_flow::observe::{MetricType, MetricsText};
use mcp_flow::session::store::Census;

/// Formats the bytes held for all clients, in the Prometheus text format.
pub(crate) fn held_bytes(load: &Load) -> String {
    let mut text = MetricsText::default();
    let help = "Bytes held for all clients";
    text.single("mcp_flow_held_bytes", MetricType::Gauge, help, load.bytes());
    text.finish()
}

/// Counts sessions by state, in the Prometheus text format.
pub(crate) async fn session_counts(sessions: Interaction) -> String {
    match sessions.engine().census().await {
        Ok(census) => text(census),
        // Monitoring notices a missing metric.
        Err(error) => {
            tracing::warn!(%error, "cannot count sessions");
            String::new()
        }
    }
}

/// Counts the live nodes that share the store, and tells whether this one holds its lease.
pub(crate) fn node_counts(member: &ClusterMember) -> String {
    let mut text = MetricsText::default();
    let help = "Live nodes that share the session store";
    text.single("mcp_flow_nodes", MetricType::Gauge, help, member.known_nodes().len());
    let help = "1 while this node holds its lease, 0 while other nodes may take over its sessions";
    let holds = usize::from(member.epoch().is_some());
    text.single("mcp_flow_node_lease", MetricType::Gauge, help, holds);
    if let Some(epoch) = member.epoch() {
        let help = "Epoch of this node; a new one means that it had lost its lease";
        text.single("mcp_flow_node_epoch", MetricType::Gauge, help, epoch.number());
    }
    text.finish()
}

fn text(Census { waiting, working, ended }: Census) -> String {
    let name = "mcp_flow_sessions";
    let mut text = MetricsText::default();
    text.metric(name, MetricType::Gauge, "Sessions by state");
    for (state, count) in [("waiting", waiting), ("processing", working), ("ended", ended)] {
        text.sample(name, &[("state", state)], count);
    }
    text.finish()
}
