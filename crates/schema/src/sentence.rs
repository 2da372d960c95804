//! Sentences that describe violations, for a person or a model to act on.

use std::borrow::Cow;
use std::fmt::Display;

use mcp_flow_proto::text::{escape_pointer, truncate, unescape_pointer};
use serde_json::Value;

use crate::Violation;

/// A rule that a value violates.
pub(crate) enum Rule<'a> {
    Type(&'a [&'a str]),
    Options(&'a Value),
    Constant(&'a Value),
    /// A bound of a number, such as `at least`.
    Bound(&'a str, &'a dyn Display),
    /// A bound of a length, such as `at least`, and its unit.
    Length(&'a str, u64, &'a str),
    Pattern(&'a str),
    Unique,
    Nothing,
    Other(&'a dyn Display),
}

impl Rule<'_> {
    /// Describes how the value at a location violates the rule.
    pub(crate) fn violation(&self, location: &str, value: &Value) -> Violation {
        let given = || shorten(&value.to_string()).into_owned();
        let requirement = match self {
            Self::Type(names) => format!("must be {}, not {}", type_words(names), given()),
            Self::Options(options) => format!("must be {}, not {}", option_words(options), given()),
            Self::Constant(expected) => format!("must be {expected}, not {}", given()),
            Self::Bound(words, limit) => format!("must be {words} {limit}, not {}", given()),
            Self::Length("at least", 1, "characters") => "must not be empty".to_owned(),
            Self::Length("at least", 1, "items") => "must have at least one item".to_owned(),
            Self::Length(words, limit, unit) => format!("must have {words} {limit} {unit}"),
            Self::Pattern(pattern) => format!("must match the pattern {pattern}, not {}", given()),
            Self::Unique => "must not hold the same item twice".to_owned(),
            Self::Nothing => "must be left out".to_owned(),
            Self::Other(reason) => format!("cannot be used: {reason}"),
        };
        at(location, &requirement)
    }
}

/// Subject of a sentence about the value itself, as opposed to a part of it.
pub const WHOLE: &str = "the whole of the arguments";

/// Names the location, and states the requirement.
pub(crate) fn at(location: &str, requirement: &str) -> Violation {
    let name = if location.is_empty() { WHOLE.to_owned() } else { dotted(location) };
    Violation { pointer: location.to_owned(), sentence: format!("{name} {requirement}") }
}

/// Describes a value whose check was given up.
pub(crate) fn too_many_steps() -> Violation {
    at("", "takes too many steps to check; give fewer or flatter values")
}

/// Describes a missing member.
pub(crate) fn required(location: &str, name: &str) -> Violation {
    let pointer = member(location, name);
    let sentence = format!("{} is required", dotted(&pointer));
    Violation { pointer, sentence }
}

/// Describes an unknown member: the known ones, and which was probably meant.
pub(crate) fn unknown_member(location: &str, name: &str, known: &[&str]) -> Violation {
    let short = shorten(name);
    let pointer = member(location, &short);
    let name = dotted(&pointer);
    let owner = if location.is_empty() { "this tool" } else { "the object it is in" };
    let sentence = match (known, nearest(&short, known)) {
        ([], _) if location.is_empty() => {
            format!("{name} is not an argument; this tool takes none")
        }
        ([], _) => format!("{name} has no meaning here; leave it out"),
        (known, None) => format!("{name} is not an argument; {owner} takes {}", list(known, "and")),
        (known, Some(meant)) => format!(
            "{name} is not an argument; did you mean {meant}? ({owner} takes {})",
            list(known, "and")
        ),
    };
    Violation { pointer, sentence }
}

/// The known name most similar to this one, if similar enough.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |known: &&str| strsim::jaro_winkler(name, known);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > NEAR).then_some(best)
}

/// Names at least this similar are taken for misspellings.
const NEAR: f64 = 0.8;

fn type_words(names: &[&str]) -> String {
    let words: Vec<_> = names.iter().map(|name| type_word(name)).collect();
    list(&words, "or")
}

/// The name of a JSON type in plain words.
pub(crate) fn type_word(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

fn option_words(options: &Value) -> String {
    let options: Vec<String> =
        options.as_array().into_iter().flatten().map(ToString::to_string).collect();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    match options.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("one of {}", list(several, "or")),
    }
}

/// Joins words: `a`, `a or b`, `a, b or c`.
pub(crate) fn list(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// Extends a JSON Pointer by the name of a member.
pub fn member(location: &str, name: &str) -> String {
    format!("{location}/{}", escape_pointer(name))
}

/// Converts a JSON Pointer into a dotted path: `/a/0/b` becomes `a.0.b`.
pub fn dotted(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.map(readable).collect::<Vec<_>>().join(".")
}

/// One segment of a path, quoted if it could be misread.
fn readable(part: &str) -> String {
    let part = unescape_pointer(part);
    let plain = |character: char| character.is_alphanumeric() || "_-$/~@:".contains(character);
    if !part.is_empty() && part.chars().all(plain) { part } else { format!("{part:?}") }
}

/// Truncates a text for use in a sentence.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    truncate(text, 60)
}
