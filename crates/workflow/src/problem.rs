//! Problems of files, with their positions.
//!
//! Owns the wording common to all readers. Finding positions in YAML and JSON is the matter of `source`.

use std::borrow::Cow;
use std::fmt;

/// Position in a text, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Position {
    /// Start of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Converts a byte offset to a position.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Self { line, column: before[line_start..].chars().count() + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably has a mistake.
    Warning,
}

/// One problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity.
    pub severity: Severity,
    /// Position in the file.
    pub position: Position,
    /// JSON Pointer to the value.
    pub pointer: String,
    /// Description of the problem and of its solution.
    pub message: String,
}

impl Problem {
    /// Creates a problem of the file as a whole.
    pub fn of_file(message: impl Into<String>) -> Self {
        Self::at(Position::START, message)
    }

    /// Creates an error at a position.
    pub fn at(position: Position, message: impl Into<String>) -> Self {
        let (pointer, message) = (String::new(), message.into());
        Self { severity: Severity::Error, position, pointer, message }
    }

    /// Returns whether the file cannot be used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.position, self.message)
    }
}

/// Shortens a name from a file for display.
pub fn short(name: &str) -> Cow<'_, str> {
    mcp_flow_proto::text::truncate(name, MAX_SHOWN_LENGTH)
}

/// Returns the most similar candidate, if one is close enough.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Longer words can have more typos; very long ones are not compared.
    let length = written.chars().count();
    let most = if length > MAX_WORD_LENGTH { return None } else { (length / 3).max(1) };
    let written = plain(written);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD_LENGTH * 4)
        .map(|candidate| (plain(candidate), candidate))
        .filter(|(plain, _)| may_be_near(&written, plain, most))
        .take(MAX_COMPARED)
        .map(|(plain, candidate)| (strsim::osa_distance(&written, &plain), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Normalizes a word for comparison: lowercase, without separators.
fn plain(word: &str) -> String {
    word.to_lowercase().replace(['_', '-', ' '], "")
}

/// Returns whether the edit distance may be within the limit, by letter counts alone: an edit
/// removes one letter and adds one at most. Computing the distance takes far longer.
fn may_be_near(one: &str, other: &str, most: usize) -> bool {
    let mut counts = [0_i32; 64];
    one.chars().for_each(|letter| counts[letter as usize % 64] += 1);
    other.chars().for_each(|letter| counts[letter as usize % 64] -= 1);
    let differing: u32 = counts.iter().map(|count| count.unsigned_abs()).sum();
    differing as usize <= most * 2
}

/// Maximum number of candidates whose edit distance is computed.
const MAX_COMPARED: usize = 500;

const MAX_SHOWN_LENGTH: usize = 60;

const MAX_WORD_LENGTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::{Position, nearest};

    #[test]
    fn typos_find_the_nearest_name() {
        let known = ["prompt", "preconditions", "requireConfirmation", "runCondition"];
        for (written, meant) in [
            ("promt", Some("prompt")),
            ("requireconfirmation", Some("requireConfirmation")),
            ("require_confirmation", Some("requireConfirmation")),
            ("runConditon", Some("runCondition")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a\né→x";
        for (offset, line, column) in [(0, 1, 1), (1, 1, 2), (2, 2, 1), (4, 2, 2), (7, 2, 3)] {
            assert_eq!(Position::of(text, offset), Position { line, column }, "{offset}");
        }
        assert_eq!(Position::of(text, 99).line, 2);
    }
}
