//! What commands write, for people and for programs.

pub(crate) mod content;
pub(crate) mod table;

use std::borrow::Cow;
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

/// Writes a value for programs, which read what the server wrote: whatever acts on a terminal is
/// escaped, as JSON can.
pub(crate) fn print_json(value: &Value) -> anyhow::Result<()> {
    print(&escaped(&value.to_string()))
}

/// JSON that holds nothing but what can be seen; such characters stand in texts alone.
fn escaped(json: &str) -> String {
    // Most is harmless as it is.
    if let Cow::Borrowed(harmless) = mcp_flow::client::neutral::text(json) {
        return harmless.to_owned();
    }
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match neutral(character.encode_utf8(&mut [0; 4])).starts_with(character) {
            true => text.push(character),
            false => text.extend(
                character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")),
            ),
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    /// PAT-023: what programs read is what the server wrote, and harmless on a terminal.
    #[test]
    fn json_is_harmless_and_the_same() {
        let value = json!({"a\u{9b}": ["\u{1b}[2J", "\u{7f}", "\u{202e}x", "\u{e0041}", "é🙂\n"]});
        let text = super::escaped(&value.to_string());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(super::neutral(&text), text);
        assert!(text.contains("é🙂") && text.contains("\\udb40\\udc41"), "{text}");
    }
}
