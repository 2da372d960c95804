//! One log line per call.

use mcp_flow_proto::text::prefix;
use mcp_flow_server::observe::Denial;
use mcp_flow_server::{Detail, Observed, Observer};

/// Logs each call at `info`: request, connection, principal, method, tool, duration, outcome and
/// trace.
///
/// Contains nothing chosen by users: a tool or method is named only if the server has it, and URIs,
/// sessions and arguments never are. The audit log records targets by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallLog;

impl Observer for CallLog {
    fn detail(&self) -> Detail {
        match tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            true => Detail::Outline,
            false => Detail::Nothing,
        }
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let request = exchange.id.to_string();
        let request = prefix(&request, MAX_LENGTH);
        let trace = exchange.trace.and_then(|trace| trace.parent).map(|parent| parent.trace());
        #[expect(clippy::cast_precision_loss, reason = "nothing takes centuries")]
        let ms = exchange.time.as_micros() as f64 / 1000.0;
        tracing::info!(
            target: TARGET,
            request,
            connection = exchange.connection.number,
            transport = exchange.connection.transport,
            principal = prefix(exchange.principal.name(), MAX_LENGTH),
            method = exchange.known.unwrap_or("other"),
            tool = exchange.tool,
            outcome = exchange.outcome_name(),
            ms,
            trace,
            "call"
        );
    }

    fn denied(&self, denial: &Denial<'_>) {
        tracing::info!(
            target: TARGET,
            transport = denial.transport,
            peer = denial.peer.map(|peer| peer.to_string()),
            reason = denial.reason,
            others = denial.others,
            "client rejected"
        );
    }
}

/// Target by which these lines can be filtered.
const TARGET: &str = "mcp_flow::call";

/// Longest id or name in a log line, in characters: clients choose ids, and issuers the names of
/// principals.
const MAX_LENGTH: usize = 64;
