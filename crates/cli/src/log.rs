//! What the program says about itself, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

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
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}
