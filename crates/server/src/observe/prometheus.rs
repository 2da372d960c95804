//! Writer of the Prometheus text format, for all metrics of the workspace.

use std::fmt::{Display, Write};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A value that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

/// Metrics in the Prometheus text format.
///
/// ```
/// use mcp_flow_server::observe::{MetricType, MetricsText};
///
/// let mut text = MetricsText::default();
/// text.metric("calls_total", MetricType::Counter, "Completed calls");
/// text.sample("calls_total", &[("tool", "echo")], 7);
/// assert_eq!(
///     text.finish(),
///     "# HELP calls_total Completed calls\n# TYPE calls_total counter\n\
///      calls_total{tool=\"echo\"} 7\n"
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Starts a metric; its samples follow.
    pub fn metric(&mut self, name: &str, kind: MetricType, help: &str) {
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Adds a sample with these labels.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let start = if index == 0 { '{' } else { ',' };
            self.write(format_args!("{start}{label}=\"{}\"", escape(text)));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.write(format_args!("{end} {value}\n"));
    }

    /// Adds a metric that has one sample without labels.
    pub fn single(&mut self, name: &str, kind: MetricType, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.0
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a string does not fail");
    }
}

/// Escapes a label value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
