//! Problems of a configuration file: all of them, each with line, column and a suggestion.

use mcp_flow::decode_error;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

use super::File;

/// Collected problems of a text, each at a byte offset.
pub(crate) struct Problems<'a> {
    text: &'a str,
    whole: DeTable<'a>,
    found: Vec<(usize, String)>,
    /// Keys that were removed to read the rest, by the offset of their table.
    removed: Vec<Removed>,
}

type Removed = (usize, String);

impl<'a> Problems<'a> {
    /// Reads as much of a text as possible, and collects its problems.
    ///
    /// The deserializer stops at the first error, so its cause is removed and the rest is read again.
    pub(super) fn read(text: &'a str) -> (File, Self) {
        let (whole, errors) = DeTable::parse_recoverable(text);
        let table = whole.clone().into_inner();
        let mut problems =
            Self { text, whole: table.clone(), found: Vec::new(), removed: Vec::new() };
        if !errors.is_empty() {
            // Values that are read in spite of syntax errors are guesses.
            for error in &errors {
                problems.add_error(error, error.span().map_or(0, |span| span.start));
            }
            return (File::default(), problems);
        }
        let mut rest = table;
        while problems.found.len() < MAX_COUNT {
            let document = Spanned::new(whole.span(), rest.clone());
            let error = match File::deserialize(Deserializer::from(document)) {
                Ok(file) => return (file, problems),
                Err(error) => error,
            };
            let at = error.span().map_or(0, |span| span.start);
            if !missing(&error).is_some_and(|name| problems.has_removed(at, name)) {
                problems.add_error(&error, at);
            }
            match remove_at(&mut rest, 0, at) {
                Some(removed) => problems.removed.push(removed),
                None => break,
            }
        }
        (File::default(), problems)
    }

    /// Adds a problem with the value at a path of keys, or with the table that lacks it. Elements of
    /// arrays go by their index.
    pub(crate) fn add(&mut self, keys: &[&str], problem: impl Into<String>) {
        let problem = problem.into();
        let Location { at, tables } = Location::of(&self.whole, keys);
        // A key that was removed from one of these tables has its problem already.
        let mut words = problem.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if words.any(|word| tables.iter().any(|table| self.has_removed(*table, word))) {
            return;
        }
        self.found.push((at, problem));
    }

    /// Formats all problems in the order of the file, each with line and column.
    pub(crate) fn into_messages(mut self) -> Vec<String> {
        self.found.sort_by_key(|(at, _)| *at);
        let messages = self.found.iter().map(|(at, problem)| {
            let (line, column) = line_and_column(self.text, *at);
            format!("line {line}, column {column}: {problem}")
        });
        messages.collect()
    }

    fn add_error(&mut self, error: &Error, at: usize) {
        self.found.push((at, explain(error.message().trim())));
    }

    /// Returns whether a key was removed from the table at an offset.
    fn has_removed(&self, at: usize, name: &str) -> bool {
        self.removed.iter().any(|(table, key)| *table == at && key == name)
    }
}

/// Returns the key that a deserializer misses.
fn missing(error: &Error) -> Option<&str> {
    error.message().strip_prefix("missing field `")?.split('`').next()
}

/// Removes the cause of an error at an offset; returns its table and key.
fn remove_at(table: &mut DeTable<'_>, begins: usize, at: usize) -> Option<Removed> {
    // Deeper first: the span of a table is that of its header.
    let deeper = table.iter_mut().find_map(|(_, value)| {
        let begins = value.span().start;
        remove_from(value.get_mut(), begins, at)
    });
    if deeper.is_some() {
        return deeper;
    }
    let is_meant = |key: &Spanned<_>, value: &Spanned<_>| {
        key.span().contains(&at) || value.span().contains(&at)
    };
    let (key, _) = table.iter().find(|(key, value)| is_meant(key, value))?;
    let key = key.get_ref().to_string();
    table.remove(key.as_str());
    Some((begins, key))
}

fn remove_from(value: &mut DeValue<'_>, begins: usize, at: usize) -> Option<Removed> {
    match value {
        DeValue::Table(table) => remove_at(table, begins, at),
        DeValue::Array(array) => {
            let deeper = array.iter_mut().find_map(|element| {
                let begins = element.span().start;
                remove_from(element.get_mut(), begins, at)
            });
            if deeper.is_some() {
                return deeper;
            }
            let index = array.iter().position(|element| element.span().contains(&at))?;
            let mut rest = DeArray::new();
            let others = array.iter().enumerate().filter(|(other, _)| *other != index);
            others.for_each(|(_, element)| rest.push(element.clone()));
            *array = rest;
            Some((begins, format!("[{index}]")))
        }
        _ => None,
    }
}

/// Location of a path of keys in the text, as far as the path exists.
struct Location {
    /// Offset of the last key or element that exists.
    at: usize,
    /// Offsets of the tables on the path.
    tables: Vec<usize>,
}

impl Location {
    fn of(whole: &DeTable<'_>, keys: &[&str]) -> Self {
        let mut location = Self { at: 0, tables: Vec::new() };
        let mut table = Some(whole);
        let mut array: Option<&DeArray<'_>> = None;
        for name in keys {
            let next = match (table, array) {
                (Some(table), _) => {
                    let found = table.iter().find(|(key, _)| key.get_ref() == name);
                    found.map(|(key, value)| (key.span().start, value))
                }
                (None, Some(array)) => {
                    let found = name.parse().ok().and_then(|index: usize| array.get(index));
                    found.map(|element| (element.span().start, element))
                }
                (None, None) => None,
            };
            let Some((at, value)) = next else { break };
            location.at = at;
            (table, array) = (value.get_ref().as_table(), value.get_ref().as_array());
            location.tables.extend(table.map(|_| value.span().start));
        }
        location
    }
}

/// Rewords the message of a deserializer: what was expected, or the key that was probably meant.
fn explain(message: &str) -> String {
    if let Some((key, known)) = unknown(message) {
        return match nearest(key, &known) {
            Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
            None => format!("unknown key `{key}`; known keys are {}", known.join(", ")),
        };
    }
    if let Some(key) = message.strip_prefix("missing field `").and_then(|key| key.strip_suffix('`'))
    {
        return format!("the key `{key}` is missing");
    }
    if message == "invalid socket address syntax" {
        return "expected an address with a port, for example 127.0.0.1:4433".to_owned();
    }
    decode_error::reword(message, |name| match decode_error::plain_type(name) {
        "an object" => "a table",
        "an array" => "a list",
        "socket address" => "an address with a port, for example 127.0.0.1:4433",
        other => other,
    })
}

/// Returns line and column of an offset, both counted from one.
pub(super) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    (line, column)
}

/// Returns the key that a deserializer does not know, and those it does.
fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    // Names are in backticks, so every second piece is one.
    let known = rest.split('`').skip(1).step_by(2).collect();
    Some((key, known))
}

/// Returns the most similar name, if one is similar enough to have been meant.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let similarity = |other: &&str| strsim::jaro_winkler(name, other);
    let best = known.iter().copied().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (similarity(&best) > SIMILAR).then_some(best)
}

/// Similarity from which one name is suggested for another.
const SIMILAR: f64 = 0.8;

/// Limit on collected problems.
const MAX_COUNT: usize = 100;
