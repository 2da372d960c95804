//! Typed access to the members of one object; collects problems.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::budget::Budget;
use crate::problem::{Problem, Severity, nearest, short};
use crate::read::is_identifier;
use crate::source::{WantedPositions, push_part};

/// Location in a value. Formatted only if there is a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location<'a> {
    outer: Option<&'a Location<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> Location<'a> {
    pub(super) const ROOT: Self = Self { outer: None, part: Part::Root };

    pub(super) fn member(&'a self, name: &'a str) -> Self {
        Self { outer: Some(self), part: Part::Member(name) }
    }

    pub(super) fn item(&'a self, index: usize) -> Self {
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
pub(super) struct Problems {
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
    pub(super) fn pointer(&self) -> &str {
        &self.pointer
    }

    pub(super) fn located(self, positions: &WantedPositions) -> Problem {
        let Self { severity, pointer, at_name, message } = self;
        let position = if at_name { positions.name(&pointer) } else { positions.value(&pointer) };
        Problem { severity, position, pointer, message }
    }
}

impl Problems {
    pub(super) fn error(&self, location: Location<'_>, message: impl Into<String>) {
        self.add(Severity::Error, location, false, message.into());
    }

    fn add(&self, severity: Severity, location: Location<'_>, at_name: bool, message: String) {
        if !self.is_full() {
            let pointer = location.pointer();
            self.message.borrow_mut().push(Unlocated { severity, pointer, at_name, message });
        }
    }

    /// Returns whether no more problems are collected.
    pub(super) fn is_full(&self) -> bool {
        self.message.borrow().len() >= MOST_PROBLEMS
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(super) fn into_inner(self) -> Vec<Unlocated> {
        self.message.into_inner()
    }
}

/// Members of an object with a known set of names.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    members: &'a Map<String, Value>,
    location: Location<'a>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// Reads the members of a value; reports unknown ones, and values that are not an object.
    pub(super) fn of(
        value: &'a Value,
        location: Location<'a>,
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
                Some(meant) => format!("`{name}` is unknown; did you mean `{meant}`?"),
                None => {
                    format!("`{}` is unknown; known are {}", short(name), known.join(", "))
                }
            };
            problems.add(Severity::Error, location.member(name), true, message);
        }
        Some(Self { members, location, problems })
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn location<'b>(&'b self, name: &'b str) -> Location<'b> {
        self.location.member(name)
    }

    pub(super) fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Reports an error in a member.
    pub(super) fn note(&self, name: &str, message: impl Into<String>) {
        self.problems.error(self.location.member(name), message);
    }

    /// Reports an error in the object.
    pub(super) fn note_here(&self, message: impl Into<String>) {
        self.problems.error(self.location, message);
    }

    /// Reports a warning about the object.
    pub(super) fn warn(&self, message: &str) {
        self.problems.add(Severity::Warning, self.location, false, message.to_owned());
    }

    pub(super) fn require(&self, name: &str) -> Option<&'a Value> {
        let value = self.get(name);
        if value.is_none() {
            self.note_here(format!("`{name}` is missing"));
        }
        value
    }

    pub(super) fn required_text(
        &self,
        name: &str,
        length: RangeInclusive<usize>,
    ) -> Option<Box<str>> {
        self.require(name).and_then(|_| self.text(name, length))
    }

    /// Reads a text with a bounded number of characters.
    pub(super) fn text(&self, name: &str, length: RangeInclusive<usize>) -> Option<Box<str>> {
        let value = self.get(name)?;
        check_text(value, &format_args!("`{name}`"), &length)
            .map_err(|message| self.note(name, message))
            .ok()
            .map(Into::into)
    }

    /// Reads a list of distinct texts; empty if it is missing.
    pub(super) fn texts(&self, name: &str, length: RangeInclusive<usize>) -> Vec<Box<str>> {
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

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        if value.as_bool().is_none() {
            self.note(name, format!("`{name}` must be true or false, not {}", shown(value)));
        }
        value.as_bool()
    }

    /// Reads an integer.
    pub(super) fn whole(&self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
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
    pub(super) fn items(&self, name: &str) -> Option<&'a Vec<Value>> {
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
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("{:?}", short(text)),
        other => other.to_string(),
    }
}

/// Limit on the problems reported for one file.
const MOST_PROBLEMS: usize = 100;
