//! What the program says about itself, on standard error.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt};

use crate::arguments::LogLevel;

/// Sends log lines of at least this level to standard error; standard output is for messages.
///
/// A panic becomes one line among them: it is caught where it happens and answered there.
pub(crate) fn to_stderr(level: LogLevel) {
    let (filter, handle) = reload::Layer::new(targets(level));
    let lines =
        fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // This is called once, so it cannot be set already.
    let _ = FILTER.set(handle);
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// Says more or less from now on.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(filter) = FILTER.get() {
        // It can only fail when nothing is said any more.
        let _ = filter.reload(targets(level));
    }
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
    // To the library of WebTransport a client that just goes away is worth a warning.
    let library = if level > LevelFilter::WARN { level } else { level.min(LevelFilter::ERROR) };
    Targets::new().with_default(level).with_target("web_transport_quinn", library)
}

static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();
