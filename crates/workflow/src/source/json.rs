//! JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::{Places, push_part};
use crate::problem::{Position, Problem};

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    serde_json::from_str::<Strict>(text).map(|Strict(value)| value).map_err(|error| {
        let position = Position { line: error.line().max(1), column: error.column().max(1) };
        // The error says its place at its end, which is told apart here.
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        Problem::at(position, format!("this is not JSON: {message}"))
    })
}

/// A value in which no member is there twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("the member `{name}` is there twice")));
            }
            let Strict(value) = members.next_value()?;
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

/// Finds all places in a text that has been parsed before.
pub(super) fn locate(text: &str) -> Places {
    let mut places = Places::default();
    if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
        let mut finder = Finder { text, places: &mut places, pointer: String::new() };
        finder.value(whole, None);
    }
    places
}

struct Finder<'t, 'p> {
    text: &'t str,
    places: &'p mut Places,
    pointer: String,
}

impl Finder<'_, '_> {
    fn value(&mut self, raw: &RawValue, name: Option<&str>) {
        let offset = self.offset(raw);
        let value = Position::of(self.text, offset);
        let name = name.map_or(value, |_| Position::of(self.text, self.name_before(offset)));
        self.places.add(&self.pointer, name, value);
        if let Ok(Members(members)) = serde_json::from_str(raw.get()) {
            for (name, raw) in members {
                self.part(&name, raw, Some(&name));
            }
        } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            for (index, raw) in items.into_iter().enumerate() {
                self.part(&index.to_string(), raw, None);
            }
        }
    }

    fn part(&mut self, part: &str, raw: &RawValue, name: Option<&str>) {
        let length = self.pointer.len();
        push_part(&mut self.pointer, part);
        self.value(raw, name);
        self.pointer.truncate(length);
    }

    /// Where a part of the text begins; the part is borrowed from the text.
    fn offset(&self, raw: &RawValue) -> usize {
        raw.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr())
    }

    /// Where the name before a value begins: at the last quote but one, not counting escaped ones.
    fn name_before(&self, value: usize) -> usize {
        let before = &self.text.as_bytes()[..value];
        let quotes = (0..before.len()).rev().filter(|place| {
            let escapes = before[..*place].iter().rev().take_while(|byte| **byte == b'\\').count();
            before[*place] == b'"' && escapes % 2 == 0
        });
        quotes.take(2).last().unwrap_or(value)
    }
}

/// The members of an object, in order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members_;
        impl<'de> Visitor<'de> for Members_ {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Members_).map(Self)
    }
}
