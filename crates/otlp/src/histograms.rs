//! Durations of operations and sessions, as histograms.

use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;

use crate::protobuf::Encode;
use crate::spans::nanos;

/// The histograms of one process.
#[derive(Debug)]
pub(crate) struct Histograms {
    series: Mutex<Series>,
    is_delta: bool,
}

#[derive(Debug)]
struct Series {
    counts: HashMap<Labels, Counts>,
    /// Time from which counts start.
    since: SystemTime,
}

/// Metrics of the conventions for MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Metric {
    ServerOperation,
    ClientOperation,
    ServerSession,
}

/// Attributes of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelsRef<'a> {
    pub(crate) metric: Metric,
    pub(crate) method: &'a str,
    pub(crate) tool: Option<&'a str>,
    pub(crate) prompt: Option<&'a str>,
    pub(crate) error: Option<&'a str>,
    /// Error code of the response.
    pub(crate) status: Option<i32>,
    pub(crate) transport: Option<&'a str>,
    pub(crate) revision: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
struct Labels {
    metric: Metric,
    method: Box<str>,
    tool: Option<Box<str>>,
    prompt: Option<Box<str>>,
    error: Option<Box<str>>,
    status: Option<i32>,
    transport: Option<Box<str>>,
    revision: Option<Box<str>>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    /// Measurements up to each of [`BOUNDS`] and above the one before; the last are above all.
    buckets: [u64; BOUNDS.len() + 1],
    sum: f64,
    least: f64,
    most: f64,
}

impl Histograms {
    pub(crate) fn new(is_delta: bool) -> Self {
        let series = Series { counts: HashMap::new(), since: SystemTime::now() };
        Self { series: Mutex::new(series), is_delta }
    }

    /// Counts a measurement. Beyond the limit on series, those with further names share one.
    pub(crate) fn record(&self, labels: LabelsRef<'_>, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut series = self.series.lock();
        if let Some(counts) = series.counts.get_mut(&labels) {
            return counts.add(seconds);
        }
        let labels = match series.counts.len() < MAX_SERIES {
            true => labels,
            false => LabelsRef { tool: None, prompt: None, error: None, status: None, ..labels },
        };
        series.counts.entry(labels.to_owned()).or_default().add(seconds);
    }

    /// Encodes all metrics as records of a request; `None` if there are none.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let now = SystemTime::now();
        let mut series = self.series.lock();
        let since = series.since;
        let counts = match self.is_delta {
            true => {
                series.since = now;
                std::mem::take(&mut series.counts)
            }
            // Copied, so that calls do not wait for the encoding.
            false => series.counts.iter().map(|(key, one)| (key.copy(), one.clone())).collect(),
        };
        drop(series);
        if counts.is_empty() {
            return None;
        }
        let mut records = Vec::new();
        for metric in Metric::ALL {
            let points: Vec<_> = counts.iter().filter(|(key, _)| key.metric == metric).collect();
            if points.is_empty() {
                continue;
            }
            records.message(2, |record| {
                let (name, description) = metric.describe();
                record.text(1, name);
                record.text(2, description);
                record.text(3, "s");
                record.message(9, |histogram| {
                    for (key, counts) in points {
                        histogram.message(1, |point| counts.encode(point, key, since, now));
                    }
                    histogram.number(2, if self.is_delta { 1 } else { 2 });
                });
            });
        }
        Some(records)
    }
}

impl Metric {
    const ALL: [Self; 3] = [Self::ServerOperation, Self::ClientOperation, Self::ServerSession];

    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::ServerOperation => {
                ("mcp.server.operation.duration", "Duration of requests that were served")
            }
            Self::ClientOperation => {
                ("mcp.client.operation.duration", "Duration of requests to other servers")
            }
            Self::ServerSession => {
                ("mcp.server.session.duration", "Duration of sessions that clients opened")
            }
        }
    }
}

impl Counts {
    fn add(&mut self, seconds: f64) {
        let is_first = self.buckets.iter().all(|count| *count == 0);
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum += seconds;
        self.least = if is_first { seconds } else { self.least.min(seconds) };
        self.most = self.most.max(seconds);
    }

    fn encode(&self, point: &mut Vec<u8>, key: &Labels, since: SystemTime, now: SystemTime) {
        point.fixed64(2, nanos(since));
        point.fixed64(3, nanos(now));
        point.fixed64(4, self.buckets.iter().sum());
        point.double(5, self.sum);
        let counts: Vec<u8> = self.buckets.iter().flat_map(|count| count.to_le_bytes()).collect();
        point.bytes(6, &counts);
        let bounds: Vec<u8> = BOUNDS.iter().flat_map(|bound| bound.to_le_bytes()).collect();
        point.bytes(7, &bounds);
        key.as_ref().each_attribute(|name, text| point.attribute(9, name, text));
        point.double(11, self.least);
        point.double(12, self.most);
    }
}

impl LabelsRef<'_> {
    fn to_owned(self) -> Labels {
        let own = |text: Option<&str>| text.map(Into::into);
        Labels {
            metric: self.metric,
            method: self.method.into(),
            tool: own(self.tool),
            prompt: own(self.prompt),
            error: own(self.error),
            status: self.status,
            transport: own(self.transport),
            revision: own(self.revision),
        }
    }

    fn each_attribute(&self, mut add: impl FnMut(&str, &str)) {
        let status = self.status.map(|code| code.to_string());
        let is_call = self.method == "tools/call";
        for (name, text) in [
            ("mcp.method.name", Some(self.method).filter(|method| !method.is_empty())),
            ("gen_ai.operation.name", is_call.then_some("execute_tool")),
            ("gen_ai.tool.name", self.tool),
            ("gen_ai.prompt.name", self.prompt),
            ("error.type", self.error),
            ("rpc.response.status_code", status.as_deref()),
            ("network.transport", self.transport),
            ("mcp.protocol.version", self.revision),
        ] {
            if let Some(text) = text {
                add(name, text);
            }
        }
    }
}

impl Labels {
    fn as_ref(&self) -> LabelsRef<'_> {
        LabelsRef {
            metric: self.metric,
            method: &self.method,
            tool: self.tool.as_deref(),
            prompt: self.prompt.as_deref(),
            error: self.error.as_deref(),
            status: self.status,
            transport: self.transport.as_deref(),
            revision: self.revision.as_deref(),
        }
    }

    fn copy(&self) -> Self {
        self.as_ref().to_owned()
    }
}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl Equivalent<Labels> for LabelsRef<'_> {
    fn equivalent(&self, key: &Labels) -> bool {
        *self == key.as_ref()
    }
}

/// Upper bounds of the buckets in seconds, as the conventions recommend them.
const BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Limit on time series with names of tools and errors.
const MAX_SERIES: usize = 2000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Histograms, LabelsRef, MAX_SERIES, Metric};

    fn labels(tool: &str) -> LabelsRef<'_> {
        LabelsRef {
            metric: Metric::ServerOperation,
            method: "tools/call",
            tool: Some(tool),
            prompt: None,
            error: None,
            status: None,
            transport: Some("tcp"),
            revision: None,
        }
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let histograms = Histograms::new(false);
        for number in 0..MAX_SERIES * 2 {
            histograms.record(labels(&number.to_string()), Duration::from_millis(1));
        }
        assert_eq!(histograms.series.lock().counts.len(), MAX_SERIES + 1);
    }

    #[test]
    fn delta_histograms_start_again_after_each_export() {
        for (is_delta, is_empty) in [(true, true), (false, false)] {
            let histograms = Histograms::new(is_delta);
            assert!(histograms.encode().is_none());
            histograms.record(labels("a"), Duration::from_millis(1));
            assert!(histograms.encode().is_some());
            assert_eq!(histograms.encode().is_none(), is_empty);
        }
    }
}
