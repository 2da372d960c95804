//! What the program says about itself, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::LogLevel;

/// Sends log lines of at least this level to standard error; standard output is for messages.
///
/// A panic becomes one line among them: it is caught where it happens and answered there.
pub(crate) fn to_stderr(level: LogLevel) {
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
    let targets = Targets::new().with_default(level).with_target("web_transport_quinn", library);
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .finish()
        .with(targets)
        .init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}
