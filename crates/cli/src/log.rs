//! The log on standard error: level, format and panics.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow_otlp::LogExport;
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::{LogFormat, LogLevel, LogOptions};
use crate::configuration::LogSection;
use crate::terminal::output::wants_colour;

/// Starts logging to standard error; standard output carries protocol messages.
///
/// A panic is logged as an error. The call it happened in answers with a failure of its own.
pub(crate) fn init(level: LogLevel, format: LogFormat) {
    let (filter, handle) = reload::Layer::new(targets(level));
    set_format(format);
    let lines = layer()
        .with_ansi(wants_colour())
        .event_format(Lines::default())
        .with_writer(std::io::stderr);
    tracing_subscriber::registry().with(filter).with(lines).with(LogExport).init();
    // This is called once, so it cannot be set already.
    let _ = FILTER.set(handle);
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// Applies the level and format of a configuration file, unless the command line sets them.
pub(crate) fn apply(options: LogOptions, file: &LogSection) {
    set_level(options.level.unwrap_or(file.level));
    set_format(options.format.unwrap_or(file.format));
}

fn set_level(level: LogLevel) {
    if let Some(filter) = FILTER.get() {
        // Fails only once the subscriber is gone.
        let _ = filter.reload(targets(level));
    }
}

fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

fn targets(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // The WebTransport library warns about every client that disconnects.
    let library = if level > LevelFilter::WARN { level } else { level.min(LevelFilter::ERROR) };
    Targets::new().with_default(level).with_target("web_transport_quinn", library)
}

/// Formatter that follows the configured format, which may change while the program runs.
struct Lines {
    text: Format<Full>,
    json: Format<Json>,
}

impl Default for Lines {
    fn default() -> Self {
        let json = Format::default().json().flatten_event(true);
        let json = json.with_current_span(false).with_span_list(false);
        Self { text: Format::default(), json }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match IS_JSON.load(Ordering::Relaxed) {
            true => self.json.format_event(context, writer, event),
            false => self.text.format_event(context, writer, event),
        }
    }
}

static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

static IS_JSON: AtomicBool = AtomicBool::new(false);
