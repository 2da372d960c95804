//! Start of the telemetry that variables and the configuration ask for.

use mcp_flow_otlp::{Telemetry, read_environment};

use crate::configuration::TelemetrySection;
use crate::log;

/// Starts telemetry. Problems are logged: a server works without it.
pub(crate) fn start(section: &TelemetrySection) -> Option<Telemetry> {
    let mut warnings = Vec::new();
    let variable = |name: &str| std::env::var(name).ok();
    let settings = read_environment(&section.defaults(), variable, &mut warnings);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let started = Telemetry::start(&settings).unwrap_or_else(|error| {
        tracing::warn!(%error, "telemetry cannot start; the server continues without it");
        None
    });
    if started.is_some() {
        log::export();
        tracing::info!("telemetry is exported");
    }
    started
}
