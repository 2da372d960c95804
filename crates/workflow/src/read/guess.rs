//! The id in a text that cannot be read.

use super::{is_identifier, is_identifier_character};
use crate::source::Format;

/// What is probably the id of the workflow: that of no step, and no part of another word.
pub(super) fn id(text: &str, format: Format) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Yaml if !text.trim_start().starts_with('{') => text.lines().find_map(of_line),
        _ => of_object(text),
    }
}

/// The id of a workflow that is written line by line; those of steps are indented.
fn of_line(line: &str) -> Option<&str> {
    let names = ["id", "\"id\"", "'id'"];
    let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
    value(rest.trim_start().strip_prefix(':')?)
}

/// The id of a workflow that is written in braces, by how deep it stands in them.
fn of_object(text: &str) -> Option<&str> {
    let (mut rest, mut depth) = (text, 0_usize);
    loop {
        let start = rest.find(['"', '{', '[', '}', ']'])?;
        let (found, after) = (rest.as_bytes()[start], &rest[start + 1..]);
        rest = after;
        match found {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {
                let end = end_of_text(after);
                rest = after.get(end + 1..)?;
                if depth == 1 && &after[..end] == "id" {
                    let named = rest.trim_start().strip_prefix(':').and_then(value);
                    if named.is_some() {
                        return named;
                    }
                }
            }
        }
    }
}

/// Where a quoted text ends; at the end of its line if the quote is missing.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = (byte == b'"' && !escaped) || byte == b'\n';
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

fn value(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t', '\r', '\n', '"', '\'']);
    let end = text.find(|character| !is_identifier_character(character)).unwrap_or(text.len());
    Some(&text[..end]).filter(|id| is_identifier(id))
}
