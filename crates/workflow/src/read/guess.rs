//! Heuristic for the id of a workflow in a text that cannot be parsed.

use super::{is_identifier, is_identifier_character};
use crate::source::Format;

/// Finds the probable id of the workflow, not one of a step and not part of another word.
pub(super) fn id(text: &str, format: Format) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Yaml if !text.trim_start().starts_with('{') => text.lines().find_map(of_line),
        _ => of_object(text),
    }
}

/// Reads the id from a line without indentation; ids of steps are indented.
fn of_line(line: &str) -> Option<&str> {
    let names = ["id", "\"id\"", "'id'"];
    let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
    value(rest.trim_start().strip_prefix(':')?)
}

/// Reads the id from an object, by its depth in the braces.
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

/// Finds the end of a quoted text, or of its line if the closing quote is missing.
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
