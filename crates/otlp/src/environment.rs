//! The `OTEL_*` variables.
//!
//! Variables take precedence over the defaults that a program passes, which come from its own
//! configuration. As OpenTelemetry requires, an invalid value is ignored with a warning: a server
//! starts without telemetry rather than not at all.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use hyper::header::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::sampler::Sampler;
use crate::settings::{
    Batching, Destination, Protocol, Signal, TelemetrySettings, add_header, url_of,
};

/// Defaults for variables that are not set.
#[derive(Clone, Debug, Default)]
pub struct TelemetryDefaults {
    /// Base endpoint of all signals.
    pub endpoint: Option<String>,
    /// Protocol.
    pub protocol: Protocol,
    /// Signals that are not exported.
    pub disabled: Vec<Signal>,
    /// Sampler.
    pub sampler: Sampler,
    /// Name of the service.
    pub service: Option<String>,
    /// Attributes of the process.
    pub resource: BTreeMap<String, String>,
}

/// Reads all variables. Problems are added to `warnings`.
pub fn read_environment(
    defaults: &TelemetryDefaults,
    variable: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> TelemetrySettings {
    // An empty variable counts as one that is not set.
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let mut reader = Reader { variable: &variable, warnings };
    let is_disabled = reader.choice("OTEL_SDK_DISABLED", false, |value| match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("use true or false".to_owned()),
    });
    let mut destination = |signal| match is_disabled {
        true => None,
        false => reader.destination(defaults, signal),
    };
    let traces = destination(Signal::Traces);
    let metrics = destination(Signal::Metrics);
    let logs = destination(Signal::Logs);
    let argument = (reader.variable)("OTEL_TRACES_SAMPLER_ARG");
    let sampler = reader.choice("OTEL_TRACES_SAMPLER", defaults.sampler, |name| {
        Sampler::from_name(name, argument.as_deref().map(str::trim))
    });
    let is_delta =
        reader.choice("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", false, |name| {
            match name.to_ascii_lowercase().as_str() {
                "cumulative" => Ok(false),
                // The two differ for instruments that this exporter does not have.
                "delta" | "lowmemory" => Ok(true),
                _ => Err("use cumulative, delta or lowmemory".to_owned()),
            }
        });
    TelemetrySettings {
        traces,
        metrics,
        logs,
        sampler,
        resource: reader.resource(defaults),
        span_batches: reader.batching("OTEL_BSP", Duration::from_secs(5)),
        log_batches: reader.batching("OTEL_BLRP", Duration::from_secs(1)),
        metric_interval: reader.millis("OTEL_METRIC_EXPORT_INTERVAL", Duration::from_secs(60)),
        is_delta,
    }
}

struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn warn(&mut self, name: &str, problem: &str) {
        let warning = format!("{name} is ignored: {problem}");
        // A variable of all signals is read for each of them.
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn choice<T>(
        &mut self,
        name: &str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        let Some(value) = (self.variable)(name) else { return default };
        match read(value.trim()) {
            Ok(value) => value,
            Err(problem) => {
                self.warn(name, &problem);
                default
            }
        }
    }

    fn number<T: FromStr + PartialOrd + From<u8>>(&mut self, name: &str, default: T) -> T {
        self.choice(name, default, |value| match value.parse::<T>() {
            Ok(number) if number >= T::from(1) => Ok(number),
            _ => Err("it must be a number above 0".to_owned()),
        })
    }

    fn millis(&mut self, name: &str, default: Duration) -> Duration {
        let usual = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.number(name, usual).min(MAX_MILLIS))
    }

    fn batching(&mut self, prefix: &str, delay: Duration) -> Batching {
        let max_queue = self.number(&format!("{prefix}_MAX_QUEUE_SIZE"), 2048_usize);
        Batching {
            max_queue: max_queue.min(MAX_QUEUE),
            max_batch: self.number(&format!("{prefix}_MAX_EXPORT_BATCH_SIZE"), 512_usize),
            delay: self.millis(&format!("{prefix}_SCHEDULE_DELAY"), delay),
            timeout: self.millis(&format!("{prefix}_EXPORT_TIMEOUT"), Duration::from_secs(30)),
        }
    }

    /// Reads where a signal goes; `None` if it is not exported.
    fn destination(&mut self, defaults: &TelemetryDefaults, signal: Signal) -> Option<Destination> {
        let upper = signal.name().to_ascii_uppercase();
        let is_on = !defaults.disabled.contains(&signal);
        let exporter = format!("OTEL_{upper}_EXPORTER");
        let is_on = self.choice(&exporter, is_on, |names| {
            let mut names = names.split(',').map(str::trim);
            match names.clone().all(|name| matches!(name, "otlp" | "none")) {
                true => Ok(names.any(|name| name == "otlp")),
                false => Err("use otlp or none".to_owned()),
            }
        });
        let own = |what: &str| format!("OTEL_EXPORTER_OTLP_{upper}_{what}");
        let common = |what: &str| format!("OTEL_EXPORTER_OTLP_{what}");
        // The variable of the signal takes precedence over that of all.
        let pick = |reader: &Self, what: &str| {
            let is_set = |name: &String| (reader.variable)(name).is_some();
            Some(own(what)).filter(is_set).unwrap_or_else(|| common(what))
        };
        let (endpoint, source, is_base) = match (self.variable)(&own("ENDPOINT")) {
            Some(endpoint) => (endpoint, own("ENDPOINT"), false),
            None => match (self.variable)(&common("ENDPOINT")) {
                Some(endpoint) => (endpoint, common("ENDPOINT"), true),
                None => (defaults.endpoint.clone()?, "telemetry.endpoint".to_owned(), true),
            },
        };
        if !is_on {
            return None;
        }
        let name = pick(self, "PROTOCOL");
        let protocol = self.choice(&name, defaults.protocol, |name| {
            let known = Protocol::from_name(name);
            known.ok_or_else(|| format!("{name:?} is not supported; use http/protobuf or grpc"))
        });
        let url = match url_of(endpoint.trim(), is_base, protocol, signal) {
            Ok(url) => url,
            Err(problem) => {
                self.warn(&source, &problem);
                return None;
            }
        };
        let name = pick(self, "COMPRESSION");
        let is_compressed = self.choice(&name, false, |name| match name {
            "gzip" => Ok(true),
            "none" => Ok(false),
            _ => Err("use gzip or none".to_owned()),
        });
        let name = pick(self, "HEADERS");
        let headers = self.choice(&name, HeaderMap::new(), read_headers);
        let name = pick(self, "TIMEOUT");
        let timeout = self.millis(&name, Duration::from_secs(10));
        let certificate = (self.variable)(&pick(self, "CERTIFICATE")).map(Into::into);
        for part in ["CLIENT_KEY", "CLIENT_CERTIFICATE"] {
            let name = pick(self, part);
            if (self.variable)(&name).is_some() {
                self.warn(
                    &name,
                    "this exporter has no client certificates; authenticate by headers",
                );
            }
        }
        Some(Destination { url, protocol, headers, timeout, is_compressed, certificate })
    }

    fn resource(&mut self, defaults: &TelemetryDefaults) -> BTreeMap<String, String> {
        let mut resource = defaults.resource.clone();
        let further = self.choice("OTEL_RESOURCE_ATTRIBUTES", BTreeMap::new(), read_pairs);
        resource.extend(further);
        let named = (self.variable)("OTEL_SERVICE_NAME");
        // The attribute of the variable is more specific than the service of a file.
        let in_file = defaults.service.clone().filter(|_| !resource.contains_key(SERVICE_NAME));
        if let Some(name) = named.or(in_file) {
            resource.insert(SERVICE_NAME.to_owned(), name);
        }
        resource
    }
}

fn read_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in read_pairs(text)? {
        add_header(&mut headers, &name, &value)?;
    }
    Ok(headers)
}

/// Reads `name=value` pairs with commas between them, percent-encoded.
fn read_pairs(text: &str) -> Result<BTreeMap<String, String>, String> {
    let decode = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => Ok((decode(name), decode(value))),
            // The value may be a secret.
            _ => Err("write name=value, with commas between several".to_owned()),
        })
        .collect()
}

pub(crate) const SERVICE_NAME: &str = "service.name";

/// A day; longer intervals are typing errors.
const MAX_MILLIS: u64 = 86_400_000;

/// Records that may wait at most, whatever is asked for: each may have some kilobytes.
const MAX_QUEUE: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::{TelemetryDefaults, read_environment};
    use crate::sampler::Sampler;
    use crate::settings::{Protocol, Signal, TelemetrySettings};

    fn read(variables: &[(&str, &str)]) -> (TelemetrySettings, Vec<String>) {
        read_with(&TelemetryDefaults::default(), variables)
    }

    fn read_with(
        defaults: &TelemetryDefaults,
        variables: &[(&str, &str)],
    ) -> (TelemetrySettings, Vec<String>) {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        let mut warnings = Vec::new();
        let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
        let settings = read_environment(defaults, variable, &mut warnings);
        (settings, warnings)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");

    #[test]
    fn nothing_is_exported_without_an_endpoint() {
        for variables in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")],
        ] {
            let (settings, warnings) = read(variables);
            assert!(settings.is_off() && warnings.is_empty(), "{variables:?} {warnings:?}");
        }
    }

    #[test]
    fn an_endpoint_exports_all_signals_over_http() {
        let (settings, warnings) = read(&[ENDPOINT]);
        assert_eq!(warnings, [""; 0]);
        for signal in Signal::ALL {
            let destination = settings.destination(signal).unwrap();
            assert_eq!(destination.url.to_string(), format!("http://c:4318/v1/{}", signal.name()));
            assert_eq!(destination.protocol, Protocol::Http);
            assert_eq!(destination.timeout, Duration::from_secs(10));
        }
        assert_eq!(settings.span_batches.max_queue, 2048);
        assert_eq!(settings.log_batches.delay, Duration::from_secs(1));
        assert_eq!(settings.sampler, Sampler::default());
    }

    #[test]
    fn the_variable_of_a_signal_takes_precedence() {
        let (settings, warnings) = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/exact"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, tenant=blue"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "tenant=red"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_SERVICE_NAME", "shop"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%2Cb"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ]);
        assert_eq!(warnings, [""; 0]);
        let traces = settings.traces.unwrap();
        assert_eq!(traces.url.to_string(), "https://t/exact");
        assert_eq!(traces.headers.len(), 1);
        assert_eq!(traces.headers["tenant"], "red");
        let logs = settings.logs.unwrap();
        assert_eq!(logs.protocol, Protocol::Grpc);
        assert_eq!(logs.headers["authorization"], "Bearer x");
        assert!(logs.is_compressed && settings.metrics.is_none());
        assert_eq!(settings.resource["service.name"], "shop");
        assert_eq!(settings.resource["deployment.environment.name"], "a,b");
    }

    #[test]
    fn invalid_values_are_ignored_with_a_warning() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "s3cret.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "s3cret.pem"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "nowhere"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret%0Ab"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_SDK_DISABLED", "perhaps"),
            ("OTEL_RESOURCE_ATTRIBUTES", "s3cret"),
        ] {
            let (settings, warnings) = read(&[ENDPOINT, (name, value)]);
            assert!(!warnings.is_empty() && !settings.is_off(), "{name}={value}");
            assert!(warnings.iter().all(|text| text.contains(name)), "{warnings:?}");
            assert!(warnings.iter().all(|text| !text.contains("s3cret")), "{warnings:?}");
        }
    }

    #[test]
    fn variables_take_precedence_over_the_file() {
        let defaults = TelemetryDefaults {
            endpoint: Some("http://file:1".to_owned()),
            protocol: Protocol::Grpc,
            disabled: vec![Signal::Logs],
            service: Some("file".to_owned()),
            ..TelemetryDefaults::default()
        };
        let (settings, _) = read_with(&defaults, &[]);
        assert!(settings.logs.is_none());
        assert_eq!(settings.traces.unwrap().protocol, Protocol::Grpc);
        assert_eq!(settings.resource["service.name"], "file");
        let (settings, _) = read_with(&defaults, &[ENDPOINT, ("OTEL_LOGS_EXPORTER", "otlp")]);
        assert_eq!(settings.logs.unwrap().url.host(), Some("c"));
    }
}
