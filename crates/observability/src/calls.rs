//! A line of the log for each call.

use mcp_flow_server::observe::Denial;
use mcp_flow_server::{Detail, Observed, Observer};

/// Logs each call at `info`: request, connection, principal, method, tool, duration, outcome and
/// trace.
///
/// Nothing that users have made up is among it: a tool or method is named if the server has it, and
/// URIs, sessions and arguments never are. The audit log has what was asked for by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallLines;

impl Observer for CallLines {
    fn detail(&self) -> Detail {
        match tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            true => Detail::Outline,
            false => Detail::Nothing,
        }
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let request = exchange.id.to_string();
        let request = beginning(&request);
        let trace = exchange.trace.map(|trace| trace.parent.trace());
        #[expect(clippy::cast_precision_loss, reason = "nothing takes centuries")]
        let ms = exchange.time.as_micros() as f64 / 1000.0;
        tracing::info!(
            target: TARGET,
            request,
            connection = exchange.connection.number,
            transport = exchange.connection.transport,
            principal = beginning(exchange.principal.name()),
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
            "somebody was not let in"
        );
    }
}

/// By which these lines can be told from others.
const TARGET: &str = "mcp_flow::call";

/// As much of a text as is told; clients choose ids, and issuers the names of principals.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end])
}

/// Limit on the characters of an id or a name in a log line.
const LONGEST: usize = 64;
