//! Serde deserializer for CBOR items.
//!
//! Types are presented with what JSON would present: integers where floats are accepted, null for
//! unit, strings for variant names.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::walk::{self, ARRAY, BYTES, MAP, NEGATIVE, SIMPLE, TAG, TEXT, Texts, UNSIGNED};
use crate::raw::MAX_DEPTH;

/// Deserializes CBOR items one after the other.
pub(super) struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    depth: usize,
}

/// A decoding error: a malformed item, or one of an unexpected type.
#[derive(Debug)]
pub(super) struct ReadError(Box<str>);

/// The head of an item: its major type and its argument.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    /// The length or number; `None` for an indefinite length.
    argument: Option<u64>,
    info: u8,
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// Returns the offset reached, and the number of containers around it.
    pub(super) fn position(&self) -> (usize, usize) {
        (self.at, self.depth)
    }

    #[inline]
    fn peek(&self) -> Result<u8, ReadError> {
        self.bytes.get(self.at).copied().ok_or_else(ReadError::truncated)
    }

    #[inline]
    fn head(&mut self) -> Result<Head, ReadError> {
        let first = self.peek()?;
        self.at += 1;
        let info = first & 0x1f;
        let argument = match info {
            0..=23 => Some(info.into()),
            24 => Some(u8::from_be_bytes(self.take()?).into()),
            25 => Some(u16::from_be_bytes(self.take()?).into()),
            26 => Some(u32::from_be_bytes(self.take()?).into()),
            27 => Some(u64::from_be_bytes(self.take()?)),
            31 => None,
            _ => return Err(ReadError::custom("an item of an unknown type")),
        };
        Ok(Head { kind: first >> 5, argument, info })
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let found = self.bytes[self.at..].first_chunk().ok_or_else(ReadError::truncated)?;
        self.at += N;
        Ok(*found)
    }

    #[inline]
    fn string(&mut self, length: u64) -> Result<&'de [u8], ReadError> {
        let rest = &self.bytes[self.at..];
        let string = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let string = string.ok_or_else(ReadError::truncated)?;
        self.at += string.len();
        Ok(string)
    }

    #[inline]
    fn text(&mut self, length: u64) -> Result<&'de str, ReadError> {
        let text = self.string(length)?;
        std::str::from_utf8(text).map_err(|_| ReadError::custom("a text is not UTF-8"))
    }

    /// Concatenates the chunks of a string of indefinite length.
    fn pieces(&mut self, kind: u8) -> Result<Vec<u8>, ReadError> {
        let mut whole = Vec::new();
        loop {
            match self.head()? {
                Head { kind: piece, argument: Some(length), .. } if piece == kind => {
                    whole.extend_from_slice(self.string(length)?);
                }
                Head { kind: SIMPLE, argument: None, .. } => return Ok(whole),
                _ => return Err(ReadError::custom("a string with chunks of another type")),
            }
        }
    }

    /// Reads the items of a container and rejects leftover ones.
    fn container<T>(
        &mut self,
        length: Option<u64>,
        read: impl FnOnce(&mut Items<'_, 'de>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        if self.depth == MAX_DEPTH {
            return Err(ReadError::custom(format_args!("nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let mut items = Items { reader: self, left: length };
        let value = read(&mut items)?;
        let is_over = items.is_over()?;
        self.depth -= 1;
        match is_over {
            true => Ok(value),
            false => Err(ReadError::custom("more items than expected")),
        }
    }

    fn simple<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, ReadError> {
        match head.info {
            20 => visitor.visit_bool(false),
            21 => visitor.visit_bool(true),
            22 => visitor.visit_unit(),
            25 => {
                let bits = head.argument.unwrap_or_default();
                visitor.visit_f64(half_float(u16::try_from(bits).unwrap_or_default()))
            }
            26 => {
                let bits = head.argument.unwrap_or_default();
                visitor.visit_f64(f32::from_bits(u32::try_from(bits).unwrap_or_default()).into())
            }
            27 => visitor.visit_f64(f64::from_bits(head.argument.unwrap_or_default())),
            _ => Err(ReadError::custom("an unsupported simple value")),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let head = self.head()?;
        match (head.kind, head.argument) {
            (UNSIGNED, Some(number)) => visitor.visit_u64(number),
            (NEGATIVE, Some(number)) => match i64::try_from(number) {
                Ok(number) => visitor.visit_i64(-1 - number),
                Err(_) => visitor.visit_i128(-1 - i128::from(number)),
            },
            (TEXT, Some(length)) => visitor.visit_borrowed_str(self.text(length)?),
            (TEXT, None) => match String::from_utf8(self.pieces(TEXT)?) {
                Ok(text) => visitor.visit_string(text),
                Err(_) => Err(ReadError::custom("a text is not UTF-8")),
            },
            (BYTES, Some(length)) => visitor.visit_borrowed_bytes(self.string(length)?),
            (BYTES, None) => visitor.visit_byte_buf(self.pieces(BYTES)?),
            (ARRAY, items) => self.container(items, |items| visitor.visit_seq(items)),
            (MAP, pairs) => self.container(pairs, |items| visitor.visit_map(items)),
            (SIMPLE, Some(_)) => self.simple(head, visitor),
            (TAG, Some(tag)) => Err(ReadError::custom(format_args!("unsupported tag {tag}"))),
            _ => Err(ReadError::custom("an indefinite length where none is allowed")),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let begin = self.at;
        match self.head()? {
            Head { kind: TEXT, argument: Some(length), .. } => {
                visitor.visit_borrowed_str(self.text(length)?)
            }
            _ => {
                self.at = begin;
                self.deserialize_any(visitor)
            }
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.peek()? == NULL {
            self.at += 1;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let head = self.head()?;
        match (head.kind, head.argument) {
            (TEXT, Some(length)) => {
                visitor.visit_enum(BorrowedStrDeserializer::<ReadError>::new(self.text(length)?))
            }
            (MAP, pairs) => self.container(pairs, |items| {
                if items.is_over()? {
                    return Err(ReadError::custom("expected a variant name"));
                }
                items.count();
                visitor.visit_enum(Variant { reader: &mut *items.reader })
            }),
            _ => Err(ReadError::custom("expected a variant name, alone or with its value")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let length = walk::length(&self.bytes[self.at..], Texts::Passed);
        self.at += length.map_err(ReadError::custom)?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct
    }
}

/// Access to the items of a container.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    /// The number of remaining items; `None` for an indefinite length.
    left: Option<u64>,
}

impl Items<'_, '_> {
    /// Returns whether the container has ended, and consumes its break byte.
    #[inline]
    fn is_over(&mut self) -> Result<bool, ReadError> {
        match self.left {
            Some(left) => Ok(left == 0),
            None if self.reader.peek()? == BREAK => {
                self.reader.at += 1;
                self.left = Some(0);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    #[inline]
    fn count(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }

    fn hint(&self) -> Option<usize> {
        // The claimed length is capped by the bytes that are left.
        let bytes = self.reader.bytes.len() - self.reader.at;
        self.left.and_then(|left| usize::try_from(left).ok()).map(|left| left.min(bytes))
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        if self.is_over()? {
            return Ok(None);
        }
        self.count();
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

impl<'de> MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        if self.is_over()? {
            return Ok(None);
        }
        self.count();
        seed.deserialize(&mut *self.reader).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

/// An enum variant with a value.
struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ReadError> {
        let name = seed.deserialize(&mut *self.reader)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        de::Deserialize::deserialize(self.reader)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.reader.deserialize_any(visitor)
    }
}

impl ReadError {
    #[cold]
    fn truncated() -> Self {
        Self::custom("truncated item")
    }
}

impl de::Error for ReadError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

/// Decodes a half-precision float (RFC 8949, appendix D).
fn half_float(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

const NULL: u8 = 0xf6;
const BREAK: u8 = 0xff;

#[cfg(test)]
mod tests;
