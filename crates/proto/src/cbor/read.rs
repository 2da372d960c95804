//! Items to values, by serde.
//!
//! Types see what they would see of JSON: whole numbers where a fraction is possible, null where
//! nothing is, texts as names of variants.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::walk::{self, ARRAY, BYTES, MAP, NEGATIVE, SIMPLE, TAG, TEXT, Texts, UNSIGNED};
use crate::raw::MAX_DEPTH;

/// Reads one item after the other.
pub(super) struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    depth: usize,
}

/// What an item could not be read as, or why it is none.
#[derive(Debug)]
pub(super) struct Misread(Box<str>);

/// The first byte of an item: its kind, and its argument or where that is.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    /// The length or number; `None` if it is left open.
    argument: Option<u64>,
    info: u8,
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    #[inline]
    fn peek(&self) -> Result<u8, Misread> {
        self.bytes.get(self.at).copied().ok_or_else(Misread::truncated)
    }

    #[inline]
    fn head(&mut self) -> Result<Head, Misread> {
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
            _ => return Err(Misread::custom("an item of a kind that does not exist")),
        };
        Ok(Head { kind: first >> 5, argument, info })
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Misread> {
        let found = self.bytes[self.at..].first_chunk().ok_or_else(Misread::truncated)?;
        self.at += N;
        Ok(*found)
    }

    #[inline]
    fn string(&mut self, length: u64) -> Result<&'de [u8], Misread> {
        let rest = &self.bytes[self.at..];
        let string = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let string = string.ok_or_else(Misread::truncated)?;
        self.at += string.len();
        Ok(string)
    }

    #[inline]
    fn text(&mut self, length: u64) -> Result<&'de str, Misread> {
        let text = self.string(length)?;
        std::str::from_utf8(text).map_err(|_| Misread::custom("a text is not UTF-8"))
    }

    /// The pieces of a string whose length is left open, put together.
    fn pieces(&mut self, kind: u8) -> Result<Vec<u8>, Misread> {
        let mut whole = Vec::new();
        loop {
            match self.head()? {
                Head { kind: piece, argument: Some(length), .. } if piece == kind => {
                    whole.extend_from_slice(self.string(length)?);
                }
                Head { kind: SIMPLE, argument: None, .. } => return Ok(whole),
                _ => return Err(Misread::custom("a string in pieces of another kind")),
            }
        }
    }

    /// Reads the items of a container, all of which must be wanted.
    fn container<T>(
        &mut self,
        length: Option<u64>,
        read: impl FnOnce(&mut Items<'_, 'de>) -> Result<T, Misread>,
    ) -> Result<T, Misread> {
        if self.depth == MAX_DEPTH {
            return Err(Misread::custom(format_args!("nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let mut items = Items { reader: self, left: length };
        let value = read(&mut items)?;
        let is_over = items.is_over()?;
        self.depth -= 1;
        match is_over {
            true => Ok(value),
            false => Err(Misread::custom("it has more items than are expected")),
        }
    }

    fn simple<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Misread> {
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
            _ => Err(Misread::custom("a simple value that stands for nothing here")),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
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
                Err(_) => Err(Misread::custom("a text is not UTF-8")),
            },
            (BYTES, Some(length)) => visitor.visit_borrowed_bytes(self.string(length)?),
            (BYTES, None) => visitor.visit_byte_buf(self.pieces(BYTES)?),
            (ARRAY, items) => self.container(items, |items| visitor.visit_seq(items)),
            (MAP, pairs) => self.container(pairs, |items| visitor.visit_map(items)),
            (SIMPLE, Some(_)) => self.simple(head, visitor),
            (TAG, Some(tag)) => Err(Misread::custom(format_args!("the tag {tag} is not known"))),
            _ => Err(Misread::custom("an item without an end")),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
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
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
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
    ) -> Result<V::Value, Misread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        let head = self.head()?;
        match (head.kind, head.argument) {
            (TEXT, Some(length)) => {
                visitor.visit_enum(BorrowedStrDeserializer::<Misread>::new(self.text(length)?))
            }
            (MAP, pairs) => self.container(pairs, |items| {
                if items.is_over()? {
                    return Err(Misread::custom("expected the name of a variant"));
                }
                items.count();
                visitor.visit_enum(Variant { reader: &mut *items.reader })
            }),
            _ => Err(Misread::custom("expected the name of a variant, alone or with its value")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        let length = walk::length(&self.bytes[self.at..], Texts::Passed);
        self.at += length.map_err(Misread::custom)?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct
    }
}

/// What is in a container.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    /// How many are still to come; `None` if a break tells.
    left: Option<u64>,
}

impl Items<'_, '_> {
    /// Whether there are no more. A break is passed.
    #[inline]
    fn is_over(&mut self) -> Result<bool, Misread> {
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
        // What a peer claims is believed as far as there are bytes.
        let bytes = self.reader.bytes.len() - self.reader.at;
        self.left.and_then(|left| usize::try_from(left).ok()).map(|left| left.min(bytes))
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Misread;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misread> {
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
    type Error = Misread;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misread> {
        if self.is_over()? {
            return Ok(None);
        }
        self.count();
        seed.deserialize(&mut *self.reader).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misread> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

/// A variant that has a value.
struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Misread;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Misread> {
        let name = seed.deserialize(&mut *self.reader)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Misread;

    fn unit_variant(self) -> Result<(), Misread> {
        de::Deserialize::deserialize(self.reader)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Misread> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misread> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        self.reader.deserialize_any(visitor)
    }
}

impl Misread {
    #[cold]
    fn truncated() -> Self {
        Self::custom("it ends within an item")
    }
}

impl de::Error for Misread {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Misread {}

/// Decodes a float of half precision (RFC 8949, appendix D).
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
mod tests {
    use super::{Reader, half_float};
    use serde::Deserialize;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, String> {
        T::deserialize(&mut Reader::new(bytes)).map_err(|error| error.to_string())
    }

    /// The examples of RFC 8949, appendix A.
    #[test]
    fn floats_of_half_precision_are_exact() {
        for (bits, expected) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0x3e00, 1.5),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x0400, 0.000_061_035_156_25),
            (0xc400, -4.0),
            (0x7c00, f64::INFINITY),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(half_float(bits), expected, "{bits:x}");
        }
        assert!(half_float(0x8000).is_sign_negative() && half_float(0x7e00).is_nan());
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Shape {
        Point,
        Circle(f64),
        Box { width: u8 },
        Line(i8, i8),
    }

    /// WT-036: what is a text in JSON is one here, for types that could be something shorter too.
    #[test]
    fn types_are_read_from_the_texts_they_are_in_json() {
        let address: std::net::IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(read(b"\x69127.0.0.1"), Ok(address));
    }

    #[test]
    fn items_are_the_values_they_stand_for() {
        for (bytes, expected) in [
            (&b"\x00"[..], json!(0)),
            (b"\x17", json!(23)),
            (b"\x18\xff", json!(255)),
            (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
            (b"\x20", json!(-1)),
            (b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff", json!(i64::MIN)),
            (b"\x63abc", json!("abc")),
            (b"\x7f\x61a\x62bc\xff", json!("abc")),
            (b"\xf4", json!(false)),
            (b"\xf5", json!(true)),
            (b"\xf6", Value::Null),
            (b"\xf9\x3e\x00", json!(1.5)),
            (b"\xfa\x3f\xc0\0\0", json!(1.5)),
            (b"\xfb\x3f\xf8\0\0\0\0\0\0", json!(1.5)),
            (b"\x82\x01\x80", json!([1, []])),
            (b"\x9f\x01\x9f\xff\xff", json!([1, []])),
            (b"\xa1\x61a\xa0", json!({"a": {}})),
            (b"\xbf\x61a\xbf\xff\xff", json!({"a": {}})),
        ] {
            assert_eq!(read::<Value>(bytes), Ok(expected), "{bytes:x?}");
        }
        for bytes in [
            &b""[..],
            b"\x61",
            b"\x61\xff",
            b"\x7f\x41a\xff",
            b"\x7f\x61\xff\xff",
            b"\x82\x01",
            b"\x9f\x01",
            b"\xa1\x61a",
            b"\xa1\x01\x01",
            b"\xc1\x01",
            b"\xf7",
            b"\xf8\x20",
            b"\xff",
            b"\x1c",
            b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            &[0x81; 200],
        ] {
            assert!(read::<Value>(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn types_take_what_they_would_take_of_json() {
        assert_eq!(read::<f64>(b"\x02"), Ok(2.0));
        assert_eq!(read::<u8>(b"\x19\x01\x00").ok(), None);
        assert_eq!(read::<i8>(b"\x20"), Ok(-1));
        assert_eq!(read::<Option<u8>>(b"\xf6"), Ok(None));
        assert_eq!(read::<Option<u8>>(b"\x01"), Ok(Some(1)));
        assert_eq!(read::<&str>(b"\x61a"), Ok("a"));
        assert_eq!(read::<String>(b"\x7f\x61a\xff"), Ok("a".to_owned()));
        assert_eq!(read::<()>(b"\xf6"), Ok(()));
        assert_eq!(read::<(u8, u8)>(b"\x82\x01\x02"), Ok((1, 2)));
        for bytes in [&b"\x81\x01"[..], b"\x83\x01\x02\x03", b"\x9f\x01\x02\x03\xff"] {
            assert!(read::<(u8, u8)>(bytes).is_err(), "{bytes:x?}");
        }
        assert_eq!(read::<Shape>(b"\x65point"), Ok(Shape::Point));
        assert_eq!(read::<Shape>(b"\xa1\x66circle\x02"), Ok(Shape::Circle(2.0)));
        assert_eq!(read::<Shape>(b"\xbf\x66circle\x02\xff"), Ok(Shape::Circle(2.0)));
        assert_eq!(
            read::<Shape>(b"\xa1\x63box\xa2\x65width\x01\x61x\x81\x01"),
            Ok(Shape::Box { width: 1 })
        );
        assert_eq!(read::<Shape>(b"\xa1\x64line\x82\x01\x20"), Ok(Shape::Line(1, -1)));
        for bytes in [&b"\x61x"[..], b"\xa0", b"\xa2\x66circle\x02\x61a\x01", b"\x01"] {
            assert!(read::<Shape>(bytes).is_err(), "{bytes:x?}");
        }
        let map: BTreeMap<String, u8> = read(b"\xa1\x61a\x01").unwrap();
        assert_eq!(map, BTreeMap::from([("a".to_owned(), 1)]));
    }
}
