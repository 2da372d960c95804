//! `[telemetry]`: OpenTelemetry. The `OTEL_*` variables take precedence.

use std::collections::BTreeMap;

use mcp_flow_otlp::{Protocol, Sampler, Signal, TelemetryDefaults, read_environment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// OpenTelemetry: traces, metrics and logs for a collector. `OTEL_*` variables take precedence.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TelemetrySection {
    /// URL of the collector, such as `http://127.0.0.1:4318`. Default: no telemetry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Protocol of the collector.
    pub(crate) protocol: TelemetryProtocol,
    /// Export spans.
    pub(crate) traces: bool,
    /// Export durations of operations and sessions.
    pub(crate) metrics: bool,
    /// Export log records, from `info` on.
    pub(crate) logs: bool,
    /// Share of traces that are recorded, from 0 to 1, unless the caller has decided.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) sample_ratio: f64,
    /// Name of this service. Default: `mcp-flow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_name: Option<String>,
    /// Further attributes of the process, such as `deployment.environment.name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) attributes: BTreeMap<String, String>,
}

/// Protocol of the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum TelemetryProtocol {
    /// Protocol Buffers over HTTP.
    #[default]
    #[serde(rename = "http/protobuf")]
    Http,
    /// gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: TelemetryProtocol::default(),
            traces: true,
            metrics: true,
            logs: true,
            sample_ratio: 1.0,
            service_name: None,
            attributes: BTreeMap::new(),
        }
    }
}

impl TelemetrySection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        let mut warnings = Vec::new();
        read_environment(&self.defaults(), |_| None, &mut warnings);
        if let Some(problem) = warnings.first() {
            problems.add(&["telemetry", "endpoint"], problem.clone());
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            let problem = "telemetry.sample_ratio must be from 0 to 1";
            problems.add(&["telemetry", "sample_ratio"], problem);
        }
    }

    /// Returns what applies where no variable is set.
    pub(crate) fn defaults(&self) -> TelemetryDefaults {
        let signals = [
            (Signal::Traces, self.traces),
            (Signal::Metrics, self.metrics),
            (Signal::Logs, self.logs),
        ];
        TelemetryDefaults {
            endpoint: self.endpoint.clone(),
            protocol: match self.protocol {
                TelemetryProtocol::Http => Protocol::Http,
                TelemetryProtocol::Grpc => Protocol::Grpc,
            },
            disabled: signals.iter().filter(|(_, is_on)| !is_on).map(|(one, _)| *one).collect(),
            sampler: Sampler::ratio(self.sample_ratio),
            service: self.service_name.clone(),
            resource: self.attributes.clone(),
        }
    }
}
