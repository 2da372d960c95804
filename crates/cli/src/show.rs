//! What commands write, for people and for programs.

pub(crate) mod content;
pub(crate) mod table;

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::Value;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people: tables that fit the terminal
    #[default]
    #[value(alias = "text")]
    Table,
    /// For people and line tools: one thing a line, tabs between its parts
    Plain,
    /// For programs: one JSON value
    Json,
}

/// Writes to standard output, which belongs to no client in the commands that use this.
#[expect(clippy::disallowed_methods, reason = "no client speaks on standard output here")]
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush())
    {
        // Whoever reads has read enough, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output cannot be written to"),
    }
}

/// Writes a value for programs. What programs read is not changed, and JSON escapes all controls.
pub(crate) fn print_json(value: &Value) -> anyhow::Result<()> {
    print(&value.to_string())
}

/// Whether colours are wanted on standard error (<https://no-color.org>).
pub(crate) fn wants_colour() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_plain = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !is_refused && !is_plain && std::io::stderr().is_terminal()
}

/// How many columns the terminal has that standard output goes to; none where it goes elsewhere.
pub(crate) fn columns() -> Option<u16> {
    #[expect(clippy::disallowed_methods, reason = "it is measured and not written to")]
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    terminal_size::terminal_size_of(&out).map(|(terminal_size::Width(columns), _)| columns)
}

/// A text as it can be shown in a terminal without doing anything to it (PAT-023, PAT-033).
pub(crate) fn neutral(text: &str) -> String {
    mcp_flow::client::neutral::text(text).into_owned()
}
