//! The members of one object, and notes on what is wrong with them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::allowance::Allowance;
use crate::problem::{Problem, Severity, nearest, short};
use crate::read::is_identifier;
use crate::source::{Places, push_part};

/// Where in a value something is. Becomes a text only if something is wrong there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    outer: Option<&'a Place<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> Place<'a> {
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

/// What was found to be wrong.
#[derive(Debug, Default)]
pub(super) struct Notes {
    told: RefCell<Vec<Note>>,
    allowance: Allowance,
}

#[derive(Debug)]
pub(super) struct Note {
    severity: Severity,
    pointer: String,
    /// Whether it is the name of the member that is wrong.
    at_name: bool,
    message: String,
}

impl Note {
    pub(super) fn pointer(&self) -> &str {
        &self.pointer
    }

    pub(super) fn located(self, places: &Places) -> Problem {
        let Self { severity, pointer, at_name, message } = self;
        let position = if at_name { places.name(&pointer) } else { places.value(&pointer) };
        Problem { severity, position, pointer, message }
    }
}

impl Notes {
    pub(super) fn error(&self, place: Place<'_>, message: impl Into<String>) {
        self.add(Severity::Error, place, false, message.into());
    }

    fn add(&self, severity: Severity, place: Place<'_>, at_name: bool, message: String) {
        if !self.is_full() {
            let pointer = place.pointer();
            self.told.borrow_mut().push(Note { severity, pointer, at_name, message });
        }
    }

    /// Whether nothing more would be told.
    pub(super) fn is_full(&self) -> bool {
        self.told.borrow().len() >= MOST_NOTES
    }

    pub(super) fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    pub(super) fn into_inner(self) -> Vec<Note> {
        self.told.into_inner()
    }
}

/// The members of an object of which it is known which there may be.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    members: &'a Map<String, Value>,
    place: Place<'a>,
    notes: &'a Notes,
}

impl<'a> Fields<'a> {
    /// The members of a value; notes what is unknown among them, or that it is no object.
    pub(super) fn of(
        value: &'a Value,
        place: Place<'a>,
        known: &[&str],
        notes: &'a Notes,
    ) -> Option<Self> {
        let Value::Object(members) = value else {
            notes.error(place, format!("this must be an object, not {}", shown(value)));
            return None;
        };
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            if notes.is_full() {
                break;
            }
            let told = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("`{name}` is unknown; did you mean `{meant}`?"),
                None => {
                    format!("`{}` is unknown; known are {}", short(name), known.join(", "))
                }
            };
            notes.add(Severity::Error, place.member(name), true, told);
        }
        Some(Self { members, place, notes })
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn place<'b>(&'b self, name: &'b str) -> Place<'b> {
        self.place.member(name)
    }

    pub(super) fn notes(&self) -> &'a Notes {
        self.notes
    }

    /// Notes what is wrong with a member.
    pub(super) fn note(&self, name: &str, message: impl Into<String>) {
        self.notes.error(self.place.member(name), message);
    }

    /// Notes what is wrong with the object.
    pub(super) fn note_here(&self, message: impl Into<String>) {
        self.notes.error(self.place, message);
    }

    /// Notes what is odd about the object.
    pub(super) fn warn(&self, message: &str) {
        self.notes.add(Severity::Warning, self.place, false, message.to_owned());
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

    /// A text of so many characters.
    pub(super) fn text(&self, name: &str, length: RangeInclusive<usize>) -> Option<Box<str>> {
        let value = self.get(name)?;
        check_text(value, &format_args!("`{name}`"), &length)
            .map_err(|told| self.note(name, told))
            .ok()
            .map(Into::into)
    }

    /// A list of different texts; empty if it is not there.
    pub(super) fn texts(&self, name: &str, length: RangeInclusive<usize>) -> Vec<Box<str>> {
        if self.get(name).is_none() {
            return Vec::new();
        }
        let mut texts: Vec<Box<str>> = Vec::new();
        let mut seen = HashSet::new();
        let place = self.place.member(name);
        for (index, value) in self.items(name).into_iter().flatten().enumerate() {
            match check_text(value, &"this", &length) {
                Ok(text) if !seen.insert(text) => {
                    self.notes.error(place.item(index), "this is in the list twice");
                }
                Ok(text) => texts.push(text.into()),
                Err(told) => self.notes.error(place.item(index), told),
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

    /// A whole number.
    pub(super) fn whole(&self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(name)?;
        let number = value.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            let (from, to) = range.into_inner();
            let wanted = match to {
                u64::MAX => format!("a whole number from {from}"),
                to => format!("a whole number from {from} to {to}"),
            };
            self.note(name, format!("`{name}` must be {wanted}, not {}", shown(value)));
        }
        number
    }

    /// A list that has to be there.
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
            let told = "must be 3 to 64 small letters, digits or hyphens";
            self.note(name, format!("`{name}` {told}, not {}", shown(value)));
        }
        id.map(Into::into)
    }

    /// A semantic version.
    pub(super) fn version(&self, name: &str) -> Option<Box<str>> {
        let value = self.get(name)?;
        let version = value.as_str().filter(|version| semver::Version::parse(version).is_ok());
        if version.is_none() {
            let hint = if value.is_number() { ", in quotes" } else { "" };
            let told =
                format!("`{name}` must be a version such as 1.0.0{hint}, not {}", shown(value));
            self.note(name, told);
        }
        version.map(Into::into)
    }

    /// The name of a variable of the context.
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
        return Err(format!("{name} must be a text, not {}", shown(value)));
    };
    // Characters are never more than bytes, and seldom have to be counted.
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

/// A value short enough to be repeated.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("{:?}", short(text)),
        other => other.to_string(),
    }
}

/// How many things that are wrong with one file are told.
const MOST_NOTES: usize = 100;
