//! Settings of the exporter: where each signal goes, and how much is recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::sampler::Sampler;

/// Everything the exporter needs to know. `environment` reads it from variables.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// Destination of spans; `None` to record none.
    pub traces: Option<Destination>,
    /// Destination of metrics; `None` to record none.
    pub metrics: Option<Destination>,
    /// Destination of log records; `None` to export none.
    pub logs: Option<Destination>,
    /// Traces that are recorded.
    pub sampler: Sampler,
    /// Attributes of the process, such as `service.name`.
    pub resource: BTreeMap<String, String>,
    /// Batches of spans.
    pub span_batches: Batching,
    /// Batches of log records.
    pub log_batches: Batching,
    /// Time between two exports of metrics.
    pub metric_interval: Duration,
    /// Set if metrics count from the last export instead of the start.
    pub is_delta: bool,
}

/// Collector of one signal.
#[derive(Clone, Debug)]
pub struct Destination {
    /// URL that requests are sent to.
    pub url: Uri,
    /// Protocol of the requests.
    pub protocol: Protocol,
    /// Further headers, such as a token.
    pub headers: HeaderMap,
    /// Time after which a request is given up.
    pub timeout: Duration,
    /// Set if requests are compressed.
    pub is_compressed: bool,
    /// PEM file of the certificate authority of the collector, if not one of the system's.
    pub certificate: Option<PathBuf>,
}

/// Protocol between exporter and collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Protocol Buffers over HTTP.
    #[default]
    Http,
    /// gRPC.
    Grpc,
}

/// Bounds on records that wait for their export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Records that may wait; further ones are dropped and counted.
    pub max_queue: usize,
    /// Records of one request.
    pub max_batch: usize,
    /// Time for which a record waits for more.
    pub delay: Duration,
    /// Time for which the export of a batch is retried.
    pub timeout: Duration,
}

/// Kinds of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Histograms and counters.
    Metrics,
    /// Log records.
    Logs,
}

impl TelemetrySettings {
    /// Returns whether there is nothing to export.
    pub fn is_off(&self) -> bool {
        [&self.traces, &self.metrics, &self.logs].into_iter().all(Option::is_none)
    }

    /// Returns the destination of a signal.
    pub fn destination(&self, signal: Signal) -> Option<&Destination> {
        match signal {
            Signal::Traces => self.traces.as_ref(),
            Signal::Metrics => self.metrics.as_ref(),
            Signal::Logs => self.logs.as_ref(),
        }
    }
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Name in variables and URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Method of the collector, as a path of a gRPC request.
    pub(crate) fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }
}

impl Protocol {
    /// Reads the name of a protocol.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "http/protobuf" => Some(Self::Http),
            "grpc" => Some(Self::Grpc),
            _ => None,
        }
    }
}

/// Builds the URL for a signal at an endpoint. The path of a signal is appended to a base endpoint,
/// and that of gRPC replaces any other.
pub(crate) fn url_of(
    endpoint: &str,
    is_base: bool,
    protocol: Protocol,
    signal: Signal,
) -> Result<Uri, String> {
    // gRPC endpoints are often written without a scheme.
    let text = match endpoint.contains("://") {
        false if protocol == Protocol::Grpc => format!("http://{endpoint}"),
        _ => endpoint.to_owned(),
    };
    let mut url =
        Url::parse(&text).map_err(|error| format!("{endpoint:?} is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("{endpoint:?} is not an http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("put credentials into headers, not into the URL of the endpoint".to_owned());
    }
    url.set_fragment(None);
    match protocol {
        Protocol::Grpc => {
            url.set_query(None);
            url.set_path(signal.grpc_path());
        }
        Protocol::Http if is_base => {
            let path = format!("{}/v1/{}", url.path().trim_end_matches('/'), signal.name());
            url.set_path(&path);
        }
        Protocol::Http => {}
    }
    url.as_str().parse().map_err(|_| format!("{endpoint:?} cannot be requested"))
}

/// Adds a header, unless its name or value is invalid.
pub(crate) fn add_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let bad = || format!("{name:?} cannot be a header with this value");
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Protocol, Signal, url_of};

    #[test]
    fn endpoints_become_urls_of_signals() {
        for (endpoint, is_base, protocol, expected) in [
            ("http://collector:4318", true, Protocol::Http, "http://collector:4318/v1/traces"),
            ("https://c/otlp/", true, Protocol::Http, "https://c/otlp/v1/traces"),
            ("https://c/otlp/", false, Protocol::Http, "https://c/otlp/"),
            ("http://c:9/?key=1", true, Protocol::Http, "http://c:9/v1/traces?key=1"),
            (
                "c:4317",
                true,
                Protocol::Grpc,
                "http://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            ),
        ] {
            let url = url_of(endpoint, is_base, protocol, Signal::Traces).unwrap();
            assert_eq!(url.to_string(), expected);
        }
        for bad in ["", "collector:4318", "ftp://c", "http://", "http://user:secret@c", "unix:/x"] {
            let problem = url_of(bad, true, Protocol::Http, Signal::Logs).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
