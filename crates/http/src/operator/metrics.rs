//! Connection and response counts of the HTTP listener, in the Prometheus text format.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hyper::StatusCode;
use mcp_flow_server::observe::{MetricType, MetricsText};

use crate::authentication::LastCaller;
use crate::limits::follow_ups::FollowUps;

/// Counters of one HTTP listener.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    connections: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// Responses by the first digit of the status.
    responses: [AtomicU64; 6],
    /// Responses by the statuses of [`REJECTIONS`].
    rejections: [AtomicU64; REJECTIONS.len()],
}

impl Metrics {
    /// Counts a connection until the returned value is dropped; `None` if the limit is reached.
    pub(crate) fn connect(
        self: &Arc<Self>,
        peer: SocketAddr,
        limit: usize,
    ) -> Option<Arc<HttpConnection>> {
        if self.connections.fetch_add(1, Ordering::AcqRel) >= limit {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(HttpConnection {
            peer,
            metrics: self.clone(),
            follow_ups: Arc::default(),
            last_caller: LastCaller::default(),
        }))
    }

    pub(crate) fn count_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
        if let Some(index) = REJECTIONS.iter().position(|code| *code == status.as_u16()) {
            self.rejections[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the counters and the session counts by kind in the Prometheus text format.
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
        let name = "mcp_flow_http_responses_total";
        text.metric(name, Counter, "HTTP responses by status class");
        for (class, count) in self.responses.iter().enumerate().skip(1) {
            let class = format!("{class}xx");
            text.sample(name, &[("class", &class)], count.load(Ordering::Relaxed));
        }
        let name = "mcp_flow_http_rejections_total";
        text.metric(name, Counter, "Rejected HTTP requests by status");
        for (status, count) in REJECTIONS.iter().zip(&self.rejections) {
            let status = status.to_string();
            text.sample(name, &[("status", &status)], count.load(Ordering::Relaxed));
        }
        text.metric("mcp_flow_transport_sessions", Gauge, "Open transport sessions by kind");
        for (kind, count) in sessions {
            text.sample("mcp_flow_transport_sessions", &[("kind", kind)], count);
        }
        text.finish()
    }
}

/// Statuses that are counted one by one.
const REJECTIONS: [u16; 11] = [400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 503];

/// State of one accepted connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) peer: SocketAddr,
    metrics: Arc<Metrics>,
    pub(crate) follow_ups: Arc<FollowUps>,
    pub(crate) last_caller: LastCaller,
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.metrics.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
