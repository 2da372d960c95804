//! JSON read in pieces: members and elements of a text, each left raw.
//!
//! The pass that finds them also checks the syntax of everything it skips, so a text that came
//! through here once is known to be well formed.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::raw::{DecodeError, Kind, Raw};

pub(crate) fn kind(text: &str) -> Kind {
    match text.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') => Kind::Null,
        Some(b'-' | b'0'..=b'9') => Kind::Number,
        _ => Kind::Other,
    }
}

pub(crate) fn members<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
) -> Result<[Option<Raw<'a>>; N], DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(Members(&names))?;
    deserializer.end()?;
    Ok(members.map(|member| member.map(Raw::Json)))
}

pub(crate) fn elements(text: &str) -> Result<Vec<Raw<'_>>, DecodeError> {
    let elements: Vec<&RawValue> = serde_json::from_str(text)?;
    Ok(elements.into_iter().map(|element| Raw::Json(element.get())).collect())
}

pub(crate) fn text(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// Checks a whole text that is not an object, to tell bad syntax from a wrong kind of value.
pub(crate) fn check(text: &str) -> Result<(), DecodeError> {
    serde_json::from_str::<IgnoredAny>(text)?;
    Ok(())
}

struct Members<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(position) = map.next_key_seed(Position(self.0))? {
            let Some(index) = position else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: &RawValue = map.next_value()?;
            if found[index].replace(value.get()).is_some() {
                return Err(A::Error::custom(format_args!("`{}` appears twice", self.0[index])));
            }
        }
        Ok(found)
    }
}

/// Turns a key into its place among the names asked for, without copying it.
struct Position<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}
