//! JSON files.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::{WantedPositions, too_many_values};
use crate::problem::{Position, Problem, short};

pub(super) fn parse(text: &str, most: usize) -> Result<Value, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let count = Cell::new(0);
    let value = Strict { count: &count, most }.deserialize(&mut deserializer);
    let whole = value.and_then(|value| deserializer.end().map(|()| value));
    whole.map_err(|error| {
        let position = Position { line: error.line().max(1), column: error.column().max(1) };
        // The error message ends with the position, which is split off here.
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        let is_json = error.is_data();
        Problem::at(
            position,
            if is_json { message.to_owned() } else { format!("this is not JSON: {message}") },
        )
    })
}

/// Deserializes a value; rejects duplicate members and too many values.
#[derive(Clone, Copy)]
struct Strict<'c> {
    /// Number of values so far.
    count: &'c Cell<usize>,
    /// Limit on values.
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count.set(self.count.get() + 1);
        if self.count.get() > self.most {
            return Err(D::Error::custom(too_many_values(self.most)));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
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
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if map.contains_key(&name) {
                let name = short(&name);
                return Err(A::Error::custom(format!("the member `{name}` is duplicated")));
            }
            let value = members.next_value_seed(self)?;
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

/// Finds positions in a text that was parsed before.
pub(super) fn locate(text: &str, positions: &mut WantedPositions) {
    if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
        look(text, None, whole, positions);
    }
}

fn look(text: &str, name: Option<&RawValue>, value: &RawValue, positions: &mut WantedPositions) {
    // Both are borrowed from the text.
    let position = |part: &RawValue| {
        let offset = part.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
        Position::of(text, offset)
    };
    positions.set(position(name.unwrap_or(value)), position(value));
    if positions.is_leaf() {
        return;
    }
    if let Ok(Members(members)) = serde_json::from_str(value.get()) {
        for (name, value) in members {
            let part = serde_json::from_str::<Cow<'_, str>>(name.get()).unwrap_or_default();
            if let Some(positions) = positions.inside(&part) {
                look(text, Some(name), value, positions);
            }
        }
    } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        for (index, value) in items.into_iter().enumerate() {
            if let Some(positions) = positions.inside(&index.to_string()) {
                look(text, None, value, positions);
            }
        }
    }
}

/// Members of an object, in order, unparsed.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}
