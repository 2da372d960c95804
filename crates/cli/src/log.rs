//! The log on standard error: level, format and panics.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow::store_redb::is_panic_caught;
use mcp_flow_otlp::LogExport;
use parking_lot::Mutex;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::{LogFormat, LogLevel, LogOptions};
use crate::configuration::LogSection;
use crate::terminal::output::wants_colour;

/// Starts logging to standard error; standard output carries protocol messages.
///
/// A panic is logged as an error. The call it happened in answers with a failure of its own.
pub(crate) fn init(level: LogLevel, format: LogFormat) {
    let level = level_filter(level);
    let (printed, print) = reload::Layer::new(targets(level));
    let (exported, export) = reload::Layer::new(Targets::new());
    set_format(format);
    let lines = layer()
        .with_ansi(wants_colour())
        .event_format(Lines::default())
        .with_writer(std::io::stderr)
        .with_filter(printed);
    tracing_subscriber::registry().with(lines).with(LogExport.with_filter(exported)).init();
    let apply = move |State { level, is_exported }: State| {
        // Fails only once the subscriber is gone.
        let _ = print.reload(targets(level));
        let _ = export.reload(if is_exported { exported_targets(level) } else { Targets::new() });
    };
    let filters =
        Filters { state: Mutex::new(State { level, is_exported: false }), apply: Box::new(apply) };
    // This is called once, so it cannot be set already.
    let _ = FILTERS.set(filters);
    std::panic::set_hook(Box::new(|panic| match is_panic_caught() {
        // The error that it becomes says what to do.
        true => tracing::debug!("{panic}"),
        false => tracing::error!("{panic}"),
    }));
}

/// Applies the level and format of a configuration file, unless the command line sets them.
pub(crate) fn apply(options: LogOptions, file: &LogSection) {
    let level = level_filter(options.level.unwrap_or(file.level));
    change(|state| state.level = level);
    set_format(options.format.unwrap_or(file.format));
}

/// Exports the log from `info` on as well, whatever the level on standard error is.
pub(crate) fn export() {
    change(|state| state.is_exported = true);
}

fn change(change: impl FnOnce(&mut State)) {
    let Some(filters) = FILTERS.get() else { return };
    let mut state = filters.state.lock();
    change(&mut state);
    (filters.apply)(*state);
}

fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn targets(level: LevelFilter) -> Targets {
    // The WebTransport library warns about every client that disconnects.
    let library = if level > LevelFilter::WARN { level } else { level.min(LevelFilter::ERROR) };
    Targets::new().with_default(level).with_target("web_transport_quinn", library)
}

/// The exported targets: the log on standard error, and what this program says at `info`. A line for each call
/// would repeat its span.
fn exported_targets(level: LevelFilter) -> Targets {
    let own = level.max(LevelFilter::INFO);
    targets(level).with_target("mcp_flow", own).with_target("mcp_flow::call", level)
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

/// The filters of the log, which change while the program runs.
struct Filters {
    state: Mutex<State>,
    apply: Box<dyn Fn(State) + Send + Sync>,
}

#[derive(Clone, Copy)]
struct State {
    level: LevelFilter,
    is_exported: bool,
}

static FILTERS: OnceLock<Filters> = OnceLock::new();

static IS_JSON: AtomicBool = AtomicBool::new(false);
