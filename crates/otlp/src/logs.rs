//! Log records: the events that the log on standard error has, for the collector.

use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use mcp_flow_telemetry::current;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::exporter::Pipeline;
use crate::protobuf::Encode;
use crate::spans::{nanos, truncate};

/// Layer that records events for the collector, once telemetry has started.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogExport;

/// Directs events to a pipeline. There is one for each process.
pub(crate) fn direct_to(pipeline: Arc<Pipeline>) {
    // Fails if telemetry was started twice; the first stays.
    let _ = PIPELINE.set(pipeline);
}

impl<S: Subscriber> Layer<S> for LogExport {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(queue) = PIPELINE.get().and_then(|pipeline| pipeline.logs.as_ref()) else {
            return;
        };
        let metadata = event.metadata();
        let is_own = OWN_TARGETS.iter().any(|target| metadata.target().starts_with(target));
        if is_own {
            return;
        }
        queue.push(|record| {
            let now = nanos(SystemTime::now());
            record.fixed64(1, now);
            let (severity, name) = match *metadata.level() {
                Level::ERROR => (17, "ERROR"),
                Level::WARN => (13, "WARN"),
                Level::INFO => (9, "INFO"),
                Level::DEBUG => (5, "DEBUG"),
                Level::TRACE => (1, "TRACE"),
            };
            record.number(2, severity);
            record.text(3, name);
            let mut fields = Fields { record, message: String::new() };
            event.record(&mut fields);
            let message = std::mem::take(&mut fields.message);
            record.message(5, |body| body.text(1, truncate(&message)));
            record.attribute(ATTRIBUTES, "log.target", metadata.target());
            if let Some(parent) = current().and_then(|context| context.parent) {
                record.fixed32(8, u32::from(parent.is_sampled()));
                record.bytes(9, &parent.trace_id().to_be_bytes());
                record.bytes(10, &parent.span_id().to_be_bytes());
            }
            record.fixed64(11, now);
        });
    }
}

/// Writes the fields of an event as attributes.
struct Fields<'a> {
    record: &'a mut Vec<u8>,
    message: String,
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.record.attribute(ATTRIBUTES, name, truncate(value)),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record.integer_attribute(ATTRIBUTES, field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.record.integer_attribute(ATTRIBUTES, field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record.boolean_attribute(ATTRIBUTES, field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A value that cannot be formatted is left out.
        if write!(text, "{value:?}").is_ok() {
            self.record_str(field, &text);
        }
    }
}

/// Targets whose events would be caused by their own export.
const OWN_TARGETS: [&str; 5] = ["mcp_flow_otlp", "hyper", "h2", "rustls", "mio"];

const ATTRIBUTES: u32 = 6;

static PIPELINE: OnceLock<Arc<Pipeline>> = OnceLock::new();
