//! What is wrong with a file, where, and what may have been meant: everything, in the order of the
//! file.

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

use super::File;

/// The problems of a text. Each is at a place, by which it is told in the end.
pub(crate) struct Problems<'a> {
    text: &'a str,
    whole: DeTable<'a>,
    found: Vec<(usize, String)>,
    /// Keys that were taken out to read the rest, by where the table begins that they were in.
    removed: Vec<Removed>,
}

type Removed = (usize, String);

impl<'a> Problems<'a> {
    /// Reads as much of a text as can be read, and notes what cannot.
    ///
    /// Each error of the deserializer ends it, so what it is about is taken out and the rest is read
    /// again.
    pub(super) fn read(text: &'a str) -> (File, Self) {
        let (whole, errors) = DeTable::parse_recoverable(text);
        let table = whole.clone().into_inner();
        let mut problems =
            Self { text, whole: table.clone(), found: Vec::new(), removed: Vec::new() };
        if !errors.is_empty() {
            // What is read in spite of wrong syntax is guesswork.
            for error in &errors {
                problems.note(error, error.span().map_or(0, |span| span.start));
            }
            return (File::default(), problems);
        }
        let mut rest = table;
        while problems.found.len() < MOST {
            let document = Spanned::new(whole.span(), rest.clone());
            let error = match File::deserialize(Deserializer::from(document)) {
                Ok(file) => return (file, problems),
                Err(error) => error,
            };
            let at = error.span().map_or(0, |span| span.start);
            if !missing(&error).is_some_and(|name| problems.has_removed(at, name)) {
                problems.note(&error, at);
            }
            match take_out(&mut rest, 0, at) {
                Some(removed) => problems.removed.push(removed),
                None => break,
            }
        }
        (File::default(), problems)
    }

    /// Notes a problem with the value that these keys lead to, or with the table it is missing in.
    /// Elements of arrays go by their index.
    pub(crate) fn add(&mut self, keys: &[&str], problem: impl Into<String>) {
        let problem = problem.into();
        let Place { at, tables } = Place::of(&self.whole, keys);
        // What was taken out of one of these tables is wrong already, and not missing.
        let mut words = problem.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if words.any(|word| tables.iter().any(|table| self.has_removed(*table, word))) {
            return;
        }
        self.found.push((at, problem));
    }

    /// All problems in the order of the file, each with line and column.
    pub(crate) fn told(mut self) -> Vec<String> {
        self.found.sort_by_key(|(at, _)| *at);
        let told = self.found.iter().map(|(at, problem)| {
            let (line, column) = line_and_column(self.text, *at);
            format!("line {line}, column {column}: {problem}")
        });
        told.collect()
    }

    fn note(&mut self, error: &Error, at: usize) {
        self.found.push((at, explain(error.message().trim())));
    }

    /// Whether a key is missing only because it was taken out of the table that begins here.
    fn has_removed(&self, at: usize, name: &str) -> bool {
        self.removed.iter().any(|(table, key)| *table == at && key == name)
    }
}

/// The key that serde misses.
fn missing(error: &Error) -> Option<&str> {
    error.message().strip_prefix("missing field `")?.split('`').next()
}

/// Takes out what an error at a byte is about, and says what that was.
fn take_out(table: &mut DeTable<'_>, begins: usize, at: usize) -> Option<Removed> {
    // Deeper first: the span of a table is that of its header.
    let deeper = table.iter_mut().find_map(|(_, value)| {
        let begins = value.span().start;
        take_out_of(value.get_mut(), begins, at)
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

fn take_out_of(value: &mut DeValue<'_>, begins: usize, at: usize) -> Option<Removed> {
    match value {
        DeValue::Table(table) => take_out(table, begins, at),
        DeValue::Array(array) => {
            let deeper = array.iter_mut().find_map(|element| {
                let begins = element.span().start;
                take_out_of(element.get_mut(), begins, at)
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

/// Where keys lead, as far as they do.
struct Place {
    /// The byte at which the last of them is, or the element it stands for.
    at: usize,
    /// Where the tables begin that they lead through.
    tables: Vec<usize>,
}

impl Place {
    fn of(whole: &DeTable<'_>, keys: &[&str]) -> Self {
        let mut place = Self { at: 0, tables: Vec::new() };
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
            place.at = at;
            (table, array) = (value.get_ref().as_table(), value.get_ref().as_array());
            place.tables.extend(table.map(|_| value.span().start));
        }
        place
    }
}

/// Says what is wrong, with the nearest key if one is unknown.
fn explain(message: &str) -> String {
    match unknown(message) {
        Some((key, known)) => match nearest(key, &known) {
            Some(near) => format!("there is no key `{key}` here; did you mean `{near}`?"),
            None => format!("there is no key `{key}` here; there are {}", known.join(", ")),
        },
        None => message.to_owned(),
    }
}

/// The line and column of a byte, both counted from one.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    (line, column)
}

/// The key that serde does not know, and those it does.
fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    // Names stand between backticks, so every second piece is one.
    let known = rest.split('`').skip(1).step_by(2).collect();
    Some((key, known))
}

/// The name that is spelled most like another, if any is near enough to have been meant.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |other: &&str| strsim::jaro_winkler(name, other);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > NEAR).then_some(best)
}

/// From here on two words are taken for spellings of one.
const NEAR: f64 = 0.8;

/// How many problems are looked for.
const MOST: usize = 100;
