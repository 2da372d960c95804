//! Output of commands on standard output, for people and for programs.

pub(crate) mod content;
pub(crate) mod table;

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::Value;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables that fit the terminal
    #[default]
    #[value(alias = "text")]
    Table,
    /// One entry per line, with tabs between its fields
    Plain,
    /// One JSON value
    Json,
}

/// Writes to standard output, for commands that do not serve a client there.
#[expect(clippy::disallowed_methods, reason = "no client is served on standard output here")]
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush())
    {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Writes a JSON value. Control characters are escaped, so programs read what the server sent and
/// terminals are safe.
pub(crate) fn print_json(value: &Value) -> anyhow::Result<()> {
    print(&escape_controls(&value.to_string()))
}

/// Escapes control characters, which JSON has only in strings.
fn escape_controls(json: &str) -> String {
    // Most JSON needs no escapes.
    if let Cow::Borrowed(unchanged) = mcp_flow::client::sanitize::text(json) {
        return unchanged.to_owned();
    }
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match sanitize(character.encode_utf8(&mut [0; 4])).starts_with(character) {
            true => text.push(character),
            false => text.extend(
                character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")),
            ),
        }
    }
    text
}

/// Returns whether standard error shows colours (<https://no-color.org>).
pub(crate) fn wants_colour() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_refused && !is_dumb_terminal() && std::io::stderr().is_terminal()
}

/// Returns whether the terminal has neither colours nor a cursor to move.
pub(crate) fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns the width of the terminal; none if standard output is no terminal.
pub(crate) fn columns() -> Option<u16> {
    #[expect(clippy::disallowed_methods, reason = "it is only measured")]
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    terminal_size::terminal_size_of(&out).map(|(terminal_size::Width(columns), _)| columns)
}

/// Replaces control characters, so that a text is safe to show in a terminal (PAT-023, PAT-033).
pub(crate) fn sanitize(text: &str) -> String {
    mcp_flow::client::sanitize::text(text).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    /// PAT-023: escaped JSON has the same value and is safe on a terminal.
    #[test]
    fn escaped_json_is_equal_and_safe() {
        let value = json!({"a\u{9b}": ["\u{1b}[2J", "\u{7f}", "\u{202e}x", "\u{e0041}", "é🙂\n"]});
        let text = super::escape_controls(&value.to_string());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(super::sanitize(&text), text);
        assert!(text.contains("é🙂") && text.contains("\\udb40\\udc41"), "{text}");
    }
}
