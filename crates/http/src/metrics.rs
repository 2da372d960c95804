//! What operators ask for: counts in the Prometheus text format.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hyper::StatusCode;
use mcp_flow_server::observe::{MetricType, MetricsText};

use crate::departures::Departures;
use crate::guard::LastCaller;

/// Counts of one HTTP server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    connections: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// By the first digit of the status.
    answers: [AtomicU64; 6],
    /// By what is the matter; see [`REFUSALS`].
    refusals: [AtomicU64; REFUSALS.len()],
}

impl Metrics {
    /// Counts a connection for as long as the value returned lives; `None` if there are too many.
    pub(crate) fn connect(
        self: &Arc<Self>,
        peer: SocketAddr,
        most: usize,
    ) -> Option<Arc<Connected>> {
        if self.connections.fetch_add(1, Ordering::AcqRel) >= most {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let (metrics, departures) = (self.clone(), Arc::default());
        Some(Arc::new(Connected { peer, metrics, departures, caller: LastCaller::default() }))
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        if let Some(kind) = REFUSALS.iter().position(|refusal| *refusal == status.as_u16()) {
            self.refusals[kind].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts as text, with the numbers of sessions by kind.
    pub(crate) fn text(&self, sessions: &[(&str, usize)]) -> String {
        use MetricType::{Counter, Gauge};
        let mut text = MetricsText::default();
        let name = "mcp_flow_http_connections";
        let count = self.connections.load(Ordering::Relaxed);
        text.single(name, Gauge, "Open HTTP connections", count);
        for (name, help, count) in [
            (
                "mcp_flow_http_connections_accepted_total",
                "Accepted HTTP connections",
                &self.accepted,
            ),
            (
                "mcp_flow_http_connections_refused_total",
                "Connections past the limit",
                &self.refused,
            ),
        ] {
            text.single(name, Counter, help, count.load(Ordering::Relaxed));
        }
        let name = "mcp_flow_http_answers_total";
        text.metric(name, Counter, "Answers by class of status");
        for (class, count) in self.answers.iter().enumerate().skip(1) {
            let class = format!("{class}xx");
            text.sample(name, &[("class", &class)], count.load(Ordering::Relaxed));
        }
        let name = "mcp_flow_http_refusals_total";
        text.metric(name, Counter, "Rejected requests by status");
        for (status, count) in REFUSALS.iter().zip(&self.refusals) {
            let status = status.to_string();
            text.sample(name, &[("status", &status)], count.load(Ordering::Relaxed));
        }
        text.metric("mcp_flow_sessions", Gauge, "Open sessions by kind");
        for (kind, count) in sessions {
            text.sample("mcp_flow_sessions", &[("kind", kind)], count);
        }
        text.finish()
    }
}

/// Bad requests, strangers, the forbidden, what is not there, what is too slow, too much or too often,
/// and what there is no room for.
const REFUSALS: [u16; 11] = [400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 503];

/// One connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Connected {
    /// Where it comes from.
    pub(crate) peer: SocketAddr,
    metrics: Arc<Metrics>,
    /// What waits for answers that leave by it.
    pub(crate) departures: Arc<Departures>,
    pub(crate) caller: LastCaller,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.metrics.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
