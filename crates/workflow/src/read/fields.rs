//! Typed access to the members of one object; collects problems.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::budget::Budget;
use crate::problem::{Problem, Severity, nearest, short};
use crate::read::is_identifier;
use crate::source::{Format, WantedPositions, push_part};

/// ValuePath in a value. Formatted only if there is a problem.
#[derive(Clone, Copy, Debug)]
pub struct ValuePath<'a> {
    outer: Option<&'a ValuePath<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> ValuePath<'a> {
    /// Path of the whole value.
    pub const ROOT: Self = Self { outer: None, part: Part::Root };

    /// Returns the path of a member.
    pub fn member(&'a self, name: &'a str) -> Self {
        Self { outer: Some(self), part: Part::Member(name) }
    }

    /// Returns the path of an item.
    pub fn item(&'a self, index: usize) -> Self {
        Self { outer: Some(self), part: Part::Item(index) }
    }

    fn pointer(&self) -> String {
        let mut pointer = self.outer.map(Self::pointer).unwrap_or_default();
        match self.part {
            Part::Root => {}
            Part::Member(name) => push_part(&mut pointer, name),
            Part::Item(index) => push_part(&mut pointer, &index.to_string()),
        }
        pointer
    }
}

/// Problems found so far.
#[derive(Debug, Default)]
pub struct Problems {
    message: RefCell<Vec<Unlocated>>,
    budget: Budget,
}

#[derive(Debug)]
pub(super) struct Unlocated {
    severity: Severity,
    pointer: String,
    /// True if the position is that of the member's name.
    at_name: bool,
    message: String,
}

impl Unlocated {
    fn pointer(&self) -> &str {
        &self.pointer
    }

    fn located(self, positions: &WantedPositions) -> Problem {
        let Self { severity, pointer, at_name, message } = self;
        let position = if at_name { positions.name(&pointer) } else { positions.value(&pointer) };
        Problem { severity, position, pointer, message }
    }
}

impl Problems {
    /// Collects the problems of a bundled file.
    pub(super) fn trusted() -> Self {
        Self { budget: Budget::trusted(), ..Self::default() }
    }

    /// Reports an error in a value.
    pub fn error(&self, location: ValuePath<'_>, message: impl Into<String>) {
        self.add(Severity::Error, location, false, message.into());
    }

    /// Reports a warning about a value.
    pub fn warning(&self, location: ValuePath<'_>, message: impl Into<String>) {
        self.add(Severity::Warning, location, false, message.into());
    }

    fn add(&self, severity: Severity, location: ValuePath<'_>, at_name: bool, message: String) {
        if !self.is_full() {
            let pointer = location.pointer();
            self.message.borrow_mut().push(Unlocated { severity, pointer, at_name, message });
        }
    }

    /// Returns whether no more problems are collected.
    pub fn is_full(&self) -> bool {
        self.message.borrow().len() >= MAX_PROBLEMS
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    #[cfg(test)]
    pub(super) fn into_inner(self) -> Vec<Unlocated> {
        self.message.into_inner()
    }

    /// Returns the problems with their positions in the text, in the order of the text.
    pub fn located(self, text: &str, format: Format) -> Vec<Problem> {
        let problems = self.message.into_inner();
        if problems.is_empty() {
            return Vec::new();
        }
        let mut positions = WantedPositions::wanted(problems.iter().map(Unlocated::pointer));
        format.locate(text, &mut positions);
        let mut problems: Vec<_> =
            problems.into_iter().map(|problem| problem.located(&positions)).collect();
        problems.sort_by_key(|problem| problem.position);
        problems
    }
}

/// Members of an object with a known set of names.
#[derive(Debug)]
pub struct Fields<'a> {
    members: &'a Map<String, Value>,
    location: ValuePath<'a>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// Reads the members of a value; reports unknown ones, and values that are not an object.
    pub fn of(
        value: &'a Value,
        location: ValuePath<'a>,
        known: &[&str],
        problems: &'a Problems,
    ) -> Option<Self> {
        let Value::Object(members) = value else {
            problems.error(location, format!("this must be an object, not {}", shown(value)));
            return None;
        };
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            if problems.is_full() {
                break;
            }
            let message = match nearest(name, known.iter().copied()) {
                _ if name == "<<" => {
                    "merge keys of YAML are not supported; write the members out".to_owned()
                }
                Some(meant) => format!("`{name}` is unknown; did you mean `{meant}`?"),
                None => {
                    format!("`{}` is unknown; known are {}", short(name), known.join(", "))
                }
            };
            problems.add(Severity::Error, location.member(name), true, message);
        }
        Some(Self { members, location, problems })
    }

    /// Returns the value of a member.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name)
    }

    /// Returns all members.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the path of a member.
    pub fn location<'b>(&'b self, name: &'b str) -> ValuePath<'b> {
        self.location.member(name)
    }

    /// Returns the problems found so far.
    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Reports an error in a member.
    pub fn note(&self, name: &str, message: impl Into<String>) {
        self.problems.error(self.location.member(name), message);
    }

    /// Reports an error in the object.
    pub fn note_here(&self, message: impl Into<String>) {
        self.problems.error(self.location, message);
    }

    /// Reports a warning about the object.
    pub fn warn(&self, message: &str) {
        self.problems.add(Severity::Warning, self.location, false, message.to_owned());
    }

    /// Returns the value of a required member.
    pub fn require(&self, name: &str) -> Option<&'a Value> {
        let value = self.get(name);
        if value.is_none() {
            self.note_here(format!("`{name}` is missing"));
        }
        value
    }

    /// Reads a required text with a bounded number of characters.
    pub fn required_text(&self, name: &str, length: RangeInclusive<usize>) -> Option<Box<str>> {
        self.require(name).and_then(|_| self.text(name, length))
    }

    /// Reads a text with a bounded number of characters.
    pub fn text(&self, name: &str, length: RangeInclusive<usize>) -> Option<Box<str>> {
        let value = self.get(name)?;
        check_text(value, &format_args!("`{name}`"), &length)
            .map_err(|message| self.note(name, message))
            .ok()
            .map(Into::into)
    }

    /// Reads a list of distinct texts; empty if it is missing.
    pub fn texts(&self, name: &str, length: RangeInclusive<usize>) -> Vec<Box<str>> {
        if self.get(name).is_none() {
            return Vec::new();
        }
        let mut texts: Vec<Box<str>> = Vec::new();
        let mut seen = HashSet::new();
        let location = self.location.member(name);
        for (index, value) in self.items(name).into_iter().flatten().enumerate() {
            match check_text(value, &"this", &length) {
                Ok(text) if !seen.insert(text) => {
                    self.problems.error(location.item(index), "this is a duplicate");
                }
                Ok(text) => texts.push(text.into()),
                Err(message) => self.problems.error(location.item(index), message),
            }
        }
        texts
    }

    /// Reads true or false.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        if value.as_bool().is_none() {
            self.note(name, format!("`{name}` must be true or false, not {}", shown(value)));
        }
        value.as_bool()
    }

    /// Reads an integer.
    pub fn whole(&self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(name)?;
        let number = value.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            let (from, to) = range.into_inner();
            let wanted = match to {
                u64::MAX => format!("an integer from {from}"),
                to => format!("an integer from {from} to {to}"),
            };
            self.note(name, format!("`{name}` must be {wanted}, not {}", shown(value)));
        }
        number
    }

    /// Reads a required list.
    pub fn items(&self, name: &str) -> Option<&'a Vec<Value>> {
        let value = self.require(name)?;
        if !value.is_array() {
            self.note(name, format!("`{name}` must be a list, not {}", shown(value)));
        }
        value.as_array()
    }

    pub(super) fn identifier(&self, name: &str) -> Option<Box<str>> {
        let value = self.require(name)?;
        let id = value.as_str().filter(|id| is_identifier(id));
        if id.is_none() {
            let message = "must be 3 to 64 lowercase letters, digits or hyphens";
            self.note(name, format!("`{name}` {message}, not {}", shown(value)));
        }
        id.map(Into::into)
    }

    /// Reads a semantic version.
    pub(super) fn version(&self, name: &str) -> Option<Box<str>> {
        let value = self.get(name)?;
        let version = value.as_str().filter(|version| semver::Version::parse(version).is_ok());
        if version.is_none() {
            let hint = if value.is_number() { ", in quotes" } else { "" };
            let message =
                format!("`{name}` must be a version such as 1.0.0{hint}, not {}", shown(value));
            self.note(name, message);
        }
        version.map(Into::into)
    }

    /// Reads the name of a context variable.
    pub(super) fn variable(&self, name: &str) -> Option<Box<str>> {
        self.text(name, 1..=128)
    }
}

fn check_text<'a>(
    value: &'a Value,
    name: &dyn std::fmt::Display,
    length: &RangeInclusive<usize>,
) -> Result<&'a str, String> {
    let Value::String(text) = value else {
        return Err(format!("{name} must be a string, not {}", shown(value)));
    };
    // A text has at most as many characters as bytes, so they rarely need counting.
    let (from, to) = (*length.start(), *length.end());
    let characters =
        if text.len() <= to && text.len() >= from * 4 { from } else { text.chars().count() };
    if length.contains(&characters) && !text.trim().is_empty() {
        return Ok(text);
    }
    Err(match characters {
        _ if text.trim().is_empty() => format!("{name} must not be empty"),
        count if count < from => {
            format!("{name} must have at least {from} characters, not {count}")
        }
        count => format!("{name} must have at most {to} characters, not {count}"),
    })
}

/// Shortens a value for display.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("{:?}", short(text)),
        other => other.to_string(),
    }
}

/// Limit on the problems reported for one file.
const MAX_PROBLEMS: usize = 100;
