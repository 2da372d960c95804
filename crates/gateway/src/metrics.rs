//! Counters of one upstream, and the last errors, for operators.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_flow_server::observe::MetricType::{self, Counter, Gauge};
use mcp_flow_server::observe::MetricsText;
use parking_lot::Mutex;
use serde::Serialize;

use crate::upstream::UpstreamStatus;

/// Counters of one upstream.
#[derive(Debug, Default)]
pub(crate) struct UpstreamMetrics {
    running: AtomicU64,
    calls: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
    errors: Mutex<VecDeque<UpstreamFailure>>,
}

/// Requests to one upstream, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpstreamCalls {
    /// Requests that run now.
    pub running: u64,
    /// Requests that have ended.
    pub total: u64,
    /// Those that ended with an error.
    pub failed: u64,
    /// Microseconds that all of them took.
    pub micros: u64,
}

/// A failed request to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpstreamFailure {
    /// Milliseconds since 1970.
    pub at: u64,
    /// Name of the error.
    pub name: String,
    /// Description.
    pub message: String,
}

/// Counts a request until it ends, however it does.
pub(crate) struct RunningCall<'a> {
    metrics: &'a UpstreamMetrics,
    begun: std::time::Instant,
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let UpstreamMetrics { running, calls, micros, .. } = self.metrics;
        running.fetch_sub(1, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        micros.fetch_add(took, Ordering::Relaxed);
    }
}

impl UpstreamMetrics {
    /// Begins to count a request.
    pub(crate) fn begin(&self) -> RunningCall<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningCall { metrics: self, begun: std::time::Instant::now() }
    }

    /// Records the error of a request.
    pub(crate) fn record_error(&self, name: &str, message: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.record_failure(name, message);
    }

    /// Records a failure outside of a request, such as that of a start.
    pub(crate) fn record_failure(&self, name: &str, message: &str) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let message = mcp_flow_client::sanitize::shorten(message, MAX_MESSAGE_LENGTH);
        let mut errors = self.errors.lock();
        if errors.len() >= MAX_ERRORS {
            errors.pop_front();
        }
        errors.push_back(UpstreamFailure { at, name: name.to_owned(), message });
    }

    pub(crate) fn calls(&self) -> UpstreamCalls {
        UpstreamCalls {
            running: self.running.load(Ordering::Relaxed),
            total: self.calls.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            micros: self.micros.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn errors(&self) -> Vec<UpstreamFailure> {
        self.errors.lock().iter().rev().cloned().collect()
    }
}

/// Writes the state of upstreams in the Prometheus text format, labelled by upstream.
pub(crate) fn text(upstreams: &[UpstreamStatus]) -> String {
    let mut text = MetricsText::default();
    let mut family =
        |name: &str, kind: MetricType, help: &str, value: &dyn Fn(&UpstreamStatus) -> f64| {
            text.metric(name, kind, help);
            for upstream in upstreams {
                text.sample(name, &[("server", &upstream.name)], value(upstream));
            }
        };
    let seconds =
        |upstream: &UpstreamStatus| Duration::from_micros(upstream.calls.micros).as_secs_f64();
    let help = "Requests to an upstream server";
    family("mcp_flow_upstream_calls_total", Counter, help, &|up| up.calls.total as f64);
    let help = "Requests to an upstream server that failed";
    family("mcp_flow_upstream_failures_total", Counter, help, &|up| up.calls.failed as f64);
    let help = "Time of all requests to an upstream server";
    family("mcp_flow_upstream_seconds_total", Counter, help, &seconds);
    let help = "Requests to an upstream server that run now";
    family("mcp_flow_upstream_running", Gauge, help, &|up| up.calls.running as f64);
    let help = "Open connections to an upstream server";
    family("mcp_flow_upstream_connections", Gauge, help, &|up| up.connections as f64);
    let help = "Tools of an upstream server that are quarantined";
    family("mcp_flow_upstream_quarantined", Gauge, help, &|up| up.quarantined as f64);
    let help = "Resources of an upstream server whose URIs another one has";
    family("mcp_flow_upstream_uri_collisions", Gauge, help, &|up| up.collisions as f64);
    let help = "1 unless the last start of the upstream server failed";
    family("mcp_flow_upstream_up", Gauge, help, &|up| f64::from(u8::from(up.failures == 0)));
    text.finish()
}

const MAX_ERRORS: usize = 10;

const MAX_MESSAGE_LENGTH: usize = 500;
