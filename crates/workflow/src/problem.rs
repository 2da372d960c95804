//! What is wrong with a workflow file, and where.

use std::borrow::Cow;
use std::fmt;

/// A place in a text, counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Which line.
    pub line: usize,
    /// Which character of it.
    pub column: usize,
}

impl Position {
    /// Where a text begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position of a byte in a text.
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

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not say what was meant.
    Warning,
}

/// One thing that is wrong with a workflow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub position: Position,
    /// Where it is, as a JSON Pointer.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem with the file as a whole.
    pub fn of_file(message: impl Into<String>) -> Self {
        Self::at(Position::START, message)
    }

    pub(crate) fn at(position: Position, message: impl Into<String>) -> Self {
        let (pointer, message) = (String::new(), message.into());
        Self { severity: Severity::Error, position, pointer, message }
    }

    /// Whether the file cannot be used for it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.position, self.message)
    }
}

/// A name out of a file, short enough to be repeated.
pub(crate) fn short(name: &str) -> Cow<'_, str> {
    mcp_flow_proto::text::truncate(name, LONGEST_SHOWN)
}

/// The candidate that was probably meant, if one is near enough.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Longer words can hold more slips; what is long beyond reason was not mistyped.
    let length = written.chars().count();
    let most = if length > LONGEST_WORD { return None } else { (length / 3).max(1) };
    let written = plain(written);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST_WORD * 4)
        .map(|candidate| (plain(candidate), candidate))
        .filter(|(plain, _)| may_be_near(&written, plain, most))
        .take(MOST_COMPARED)
        .map(|(plain, candidate)| (strsim::osa_distance(&written, &plain), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A word without what counts for little: capitals and separators.
fn plain(word: &str) -> String {
    word.to_lowercase().replace(['_', '-', ' '], "")
}

/// Whether so many slips could lead from one word to the other, by their letters alone: a slip
/// takes one away and adds one at most. Comparing words takes far longer.
fn may_be_near(one: &str, other: &str, most: usize) -> bool {
    let mut counts = [0_i32; 64];
    one.chars().for_each(|letter| counts[letter as usize % 64] += 1);
    other.chars().for_each(|letter| counts[letter as usize % 64] -= 1);
    let differing: u32 = counts.iter().map(|count| count.unsigned_abs()).sum();
    differing as usize <= most * 2
}

/// How many candidates are compared letter by letter.
const MOST_COMPARED: usize = 500;

const LONGEST_SHOWN: usize = 60;

const LONGEST_WORD: usize = 100;

#[cfg(test)]
mod tests {
    use super::{Position, nearest};

    #[test]
    fn slips_find_what_was_meant() {
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
