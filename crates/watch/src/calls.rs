//! A line of the log for each call.

use mcp_flow_server::observe::Denial;
use mcp_flow_server::{Detail, Observed, Observer};

/// Says of each call, at `info`: which request of which connection it was, its method, how long it
/// took, what came of it and which trace it belongs to.
///
/// Nothing that users have written is among it: not what was asked for by name, not who asked, and
/// of what is no method of the server not even its name. The audit log has those.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallLines;

impl Observer for CallLines {
    fn detail(&self) -> Detail {
        match tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            true => Detail::Figures,
            false => Detail::Nothing,
        }
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let request = exchange.id.to_string();
        let request: String = request.chars().take(LONGEST_ID).collect();
        let trace = exchange.trace.map(|trace| trace.parent.trace());
        #[expect(clippy::cast_precision_loss, reason = "nothing takes centuries")]
        let ms = exchange.time.as_micros() as f64 / 1000.0;
        tracing::info!(
            target: TARGET,
            request,
            connection = exchange.connection.number,
            transport = exchange.connection.transport,
            method = exchange.known.unwrap_or("other"),
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

/// How many characters of a request's id are told; clients choose them.
const LONGEST_ID: usize = 64;
