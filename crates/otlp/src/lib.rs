//! OpenTelemetry: traces, metrics and logs of a server, exported over OTLP.
//!
//! [`Telemetry::start`] begins the export that [`TelemetrySettings`] describe, which
//! [`read_environment`] reads from the `OTEL_*` variables. Calls of a server become spans and
//! durations by the semantic conventions for MCP (`observer`), the spans of
//! [`mcp_flow_telemetry`] become parts of them, and [`LogExport`] adds log records. Everything is
//! encoded where it happens and put into bounded queues (`queue`); a thread of its own sends them
//! (`exporter`, `sender`). If the collector does not keep up, records are dropped and counted.
//!
//! OTLP is written by hand (`protobuf`): three messages, without a code generator or a gRPC library.

mod environment;
mod exporter;
mod histograms;
mod logs;
mod observer;
mod payload;
mod protobuf;
mod queue;
mod sampler;
mod sender;
mod settings;
mod spans;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcp_flow_proto::model::TraceParent;
use mcp_flow_server::ServerBuilder;
use mcp_flow_server::observe::{MetricType, MetricsText};
use mcp_flow_telemetry::{AttributeValue, FinishedSpan, SpanKind, SpanSink};

use exporter::{Exporter, Pipeline};
use histograms::{LabelsRef, Metric};

pub use environment::{TelemetryDefaults, read_environment};
pub use logs::LogExport;
pub use sampler::Sampler;
pub use settings::{Batching, Destination, Protocol, Signal, TelemetrySettings};

/// The export of telemetry of this process.
#[derive(Debug)]
pub struct Telemetry {
    pipeline: Arc<Pipeline>,
    exporter: Exporter,
}

impl Telemetry {
    /// Starts the export; `None` if there is nothing to export. Spans and log records of the whole
    /// process are exported from then on, so it is started once.
    pub fn start(settings: &TelemetrySettings) -> Result<Option<Self>, std::io::Error> {
        if settings.is_off() {
            return Ok(None);
        }
        let pipeline = Arc::new(Pipeline::new(settings));
        let exporter = Exporter::start(pipeline.clone(), settings)?;
        let sink = Sink { pipeline: pipeline.clone(), sampler: settings.sampler };
        mcp_flow_telemetry::install(Arc::new(sink));
        logs::direct_to(pipeline.clone());
        Ok(Some(Self { pipeline, exporter }))
    }

    /// Adds spans and metrics of all calls to a server.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        observer::add_to(&self.pipeline, server)
    }

    /// Returns a source of metrics of the export itself, in the Prometheus text format.
    pub fn metrics(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let pipeline = self.pipeline.clone();
        move || {
            let mut text = MetricsText::default();
            let name = "mcp_flow_telemetry_dropped_total";
            let help = "Spans, log records and exports of metrics that were lost";
            text.metric(name, MetricType::Counter, help);
            let dropped = |queue: &Option<queue::Queue>| queue.as_ref().map(queue::Queue::dropped);
            for (signal, count) in [
                ("traces", dropped(&pipeline.spans)),
                ("logs", dropped(&pipeline.logs)),
                ("metrics", Some(pipeline.lost_metrics.load(Ordering::Relaxed))),
            ] {
                if let Some(count) = count {
                    text.sample(name, &[("signal", signal)], count);
                }
            }
            text.finish()
        }
    }

    /// Exports what waits and stops. Takes a few seconds at most, whatever the collector does.
    pub fn stop(self) {
        self.exporter.stop();
    }
}

/// Records the spans of this process.
struct Sink {
    pipeline: Arc<Pipeline>,
    sampler: Sampler,
}

impl SpanSink for Sink {
    fn samples(&self, parent: Option<&TraceParent>, trace: u128) -> bool {
        self.pipeline.spans.is_some() && self.sampler.samples(parent, trace)
    }

    fn measures(&self, kind: SpanKind) -> bool {
        kind == SpanKind::Client && self.pipeline.histograms.is_some()
    }

    fn record(&self, span: &FinishedSpan) {
        if let Some(spans) = self.pipeline.spans.as_ref().filter(|_| span.id.is_sampled()) {
            spans.push(|record| spans::encode(record, span));
        }
        if let Some(histograms) = &self.pipeline.histograms
            && span.kind == SpanKind::Client
        {
            let find = |name: &str| {
                let found = span.attributes.iter().find(|(other, _)| *other == name);
                found.and_then(|(_, value)| match value {
                    AttributeValue::Text(text) => Some(&**text),
                    _ => None,
                })
            };
            let Some(method) = find("mcp.method.name") else { return };
            let labels = LabelsRef {
                metric: Metric::ClientOperation,
                method,
                tool: find("gen_ai.tool.name"),
                prompt: find("gen_ai.prompt.name"),
                error: find("error.type"),
                status: find("rpc.response.status_code").and_then(|code| code.parse().ok()),
                transport: find("network.transport"),
                revision: find("mcp.protocol.version"),
            };
            histograms.record(labels, span.time);
        }
    }
}
