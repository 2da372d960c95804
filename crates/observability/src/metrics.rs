//! Metrics of all calls, in the Prometheus text format.
//!
//! The number of series is bounded by the methods and outcomes of the program, whatever clients
//! send: unknown methods are counted as `other`. Tools have their own series only on request, and
//! only those that ran.
//!
//! The success rate is `sum(rate(mcp_flow_calls_total{outcome="ok"}[5m])) /
//! sum(rate(mcp_flow_calls_total[5m]))`.

mod slots;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_server::observe::{ConnectionCounts, MetricType, MetricsText};
use mcp_flow_server::{ConnectionEvent, ConnectionInfo, Detail, Observed, Observer, ServerBuilder};
use parking_lot::Mutex;

use slots::Slots;

/// The metrics of one server. A handle; clones share them.
///
/// ```
/// use mcp_flow_server::Server;
/// use mcp_flow_observability::metrics::Metrics;
///
/// let metrics = Metrics::new(false);
/// let server = metrics.add_to(Server::builder("demo", "1.0.0")).build().unwrap();
/// // … serve …
/// assert!(metrics.text().contains("# TYPE mcp_flow_calls_total counter"));
/// ```
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    methods: Slots<Method, METHODS>,
    request_bytes: AtomicU64,
    result_bytes: AtomicU64,
    connections: ConnectionCounts,
    /// Calls by tool, successful and failed, if enabled.
    tools: Option<Mutex<BTreeMap<Box<str>, [u64; 2]>>>,
}

/// The metrics of one method.
#[derive(Default)]
struct Method {
    outcomes: Slots<AtomicU64, OUTCOMES>,
    /// Histogram counts: calls that took at most each of [`TIMES`] and longer than the one before;
    /// the last are those that took longer than all.
    times: [AtomicU64; TIMES.len() + 1],
    /// Total duration, in microseconds.
    time: AtomicU64,
}

impl Metrics {
    /// Starts at zero. With `tools`, each tool called has its own series, up to a limit.
    pub fn new(tools: bool) -> Self {
        let inner = Inner {
            methods: Slots::default(),
            request_bytes: AtomicU64::new(0),
            result_bytes: AtomicU64::new(0),
            connections: ConnectionCounts::default(),
            tools: tools.then(Mutex::default),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Registers with a server.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let counting = self.inner.clone();
        server.observer(self.clone()).hook(
            move |connection: &ConnectionInfo, event: &ConnectionEvent<'_>| {
                counting.connections.record(connection.transport, event);
                Ok(())
            },
        )
    }

    /// All metrics, in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut text = MetricsText::default();
        self.inner.write(&mut text);
        text.finish()
    }
}

impl Observer for Metrics {
    fn detail(&self) -> Detail {
        if self.inner.tools.is_some() { Detail::Outline } else { Detail::Metrics }
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let inner = &*self.inner;
        let outcome = exchange.outcome_name();
        inner.methods.of(exchange.known.unwrap_or(OTHER)).count(outcome, exchange.time);
        inner.request_bytes.fetch_add(exchange.request_bytes as u64, Ordering::Relaxed);
        let result_bytes = exchange.outcome.map_or(0, <[u8]>::len);
        inner.result_bytes.fetch_add(result_bytes as u64, Ordering::Relaxed);
        if let Some(tools) = &inner.tools
            && exchange.known == Some("tools/call")
            && ["ok", "failed"].contains(&outcome)
            && let Some(tool) = exchange.target
        {
            let mut tools = tools.lock();
            let is_room = tools.len() < TOOLS || tools.contains_key(tool);
            let counts = tools.entry(if is_room { tool } else { OTHER }.into()).or_default();
            counts[usize::from(outcome == "failed")] += 1;
        }
    }
}

impl Method {
    fn count(&self, outcome: &'static str, time: Duration) {
        self.outcomes.of(outcome).fetch_add(1, Ordering::Relaxed);
        let seconds = time.as_secs_f64();
        let bucket = TIMES.iter().position(|limit| seconds <= *limit).unwrap_or(TIMES.len());
        self.times[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.time.fetch_add(micros, Ordering::Relaxed);
    }

    fn write_times(&self, text: &mut MetricsText, method: &str) {
        const BUCKET: &str = "mcp_flow_call_duration_seconds_bucket";
        let mut count = 0;
        for (bucket, times) in self.times.iter().enumerate() {
            count += times.load(Ordering::Relaxed);
            let limit = TIMES.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
            text.sample(BUCKET, &[("method", method), ("le", &limit)], count);
        }
        let time = Duration::from_micros(self.time.load(Ordering::Relaxed)).as_secs_f64();
        text.sample("mcp_flow_call_duration_seconds_sum", &[("method", method)], time);
        text.sample("mcp_flow_call_duration_seconds_count", &[("method", method)], count);
    }
}

impl Inner {
    fn write(&self, text: &mut MetricsText) {
        use MetricType::{Counter, Gauge, Histogram};
        let name = "mcp_flow_calls_total";
        text.metric(name, Counter, "Completed requests, by outcome");
        for (method, metrics) in self.methods.each() {
            for (outcome, count) in metrics.outcomes.each() {
                let count = count.load(Ordering::Relaxed);
                text.sample(name, &[("method", method), ("outcome", outcome)], count);
            }
        }
        let help = "Time from dispatch to completion";
        text.metric("mcp_flow_call_duration_seconds", Histogram, help);
        for (method, metrics) in self.methods.each() {
            metrics.write_times(text, method);
        }
        for (name, help, count) in [
            ("mcp_flow_request_bytes_total", "Bytes of requests", &self.request_bytes),
            ("mcp_flow_result_bytes_total", "Bytes of results", &self.result_bytes),
        ] {
            text.single(name, Counter, help, count.load(Ordering::Relaxed));
        }
        text.metric("mcp_flow_connections", Gauge, "Open connections by transport");
        for kind in self.connections.each() {
            text.sample("mcp_flow_connections", &[("transport", kind.transport)], kind.open);
        }
        let name = "mcp_flow_connections_opened_total";
        text.metric(name, Counter, "Connections opened, by transport");
        for kind in self.connections.each() {
            text.sample(name, &[("transport", kind.transport)], kind.opened);
        }
        if let Some(tools) = &self.tools {
            let name = "mcp_flow_tool_calls_total";
            text.metric(name, Counter, "Tool calls that ran, by outcome");
            for (tool, counts) in &*tools.lock() {
                for (outcome, count) in ["ok", "failed"].into_iter().zip(counts) {
                    text.sample(name, &[("tool", tool), ("outcome", outcome)], count);
                }
            }
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Label of what is not distinguished.
const OTHER: &str = "other";

/// More than any server has.
const METHODS: usize = 96;

/// More than there are error names in one method.
const OUTCOMES: usize = 24;

const TOOLS: usize = 200;

/// Upper bounds of the histogram buckets, in seconds.
const TIMES: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];
