//! Partial CBOR decoding, the counterpart of [`json`](crate::json).
//!
//! [`check`] validates a whole item without recursion at the edge. It rejects truncated items,
//! excessive nesting, invalid UTF-8 and trailing bytes. Everything after it may assume a
//! well-formed item.

mod read;
mod walk;

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};
use serde::{Deserialize, Serialize};

use crate::decode_error::DecodeError;
use crate::raw::ValueKind;
use read::Reader;
use walk::Texts;

pub(crate) fn kind(bytes: &[u8]) -> ValueKind {
    match Decoder::new(bytes).datatype() {
        Ok(Type::Map | Type::MapIndef) => ValueKind::Object,
        Ok(Type::Array | Type::ArrayIndef) => ValueKind::Array,
        Ok(Type::String | Type::StringIndef) => ValueKind::String,
        Ok(Type::Bool) => ValueKind::Boolean,
        Ok(Type::Null | Type::Undefined) => ValueKind::Null,
        Ok(
            Type::U8
            | Type::U16
            | Type::U32
            | Type::U64
            | Type::I8
            | Type::I16
            | Type::I32
            | Type::I64
            | Type::Int,
        ) => ValueKind::Number,
        // JSON has no infinity or NaN, so these are not numbers here.
        Ok(Type::F16 | Type::F32 | Type::F64) if decode(bytes).is_ok_and(f64::is_finite) => {
            ValueKind::Number
        }
        _ => ValueKind::Other,
    }
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    T::deserialize(&mut reader).map_err(|error| {
        let (offset, depth) = reader.position();
        DecodeError::in_cbor(bytes, offset, depth, &error.to_string())
    })
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, String> {
    let mut serializer = minicbor_serde::Serializer::new(Vec::new());
    // A unit must decode as null, as in JSON, not as an empty array.
    serializer.serialize_unit_as_null(true);
    value.serialize(&mut serializer).map_err(|error| error.to_string())?;
    Ok(serializer.into_encoder().into_writer())
}

/// Calls `visit` with the name and the value of every member of an object, in order.
pub(crate) fn each_member<'a, E: From<DecodeError>>(
    bytes: &'a [u8],
    mut visit: impl FnMut(&'a str, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if kind(bytes) != ValueKind::Object {
        return Err(DecodeError::Shape("expected an object".to_owned()).into());
    }
    let mut decoder = Decoder::new(bytes);
    let length = decoder.map().map_err(DecodeError::from)?;
    let mut seen = 0;
    while !at_end(&mut decoder, length, seen)? {
        seen += 1;
        let name = decoder.str().map_err(DecodeError::from)?;
        if length == Some(seen) {
            // The last value extends to the end, so there is no need to walk over it.
            return visit(name, &bytes[decoder.position()..]);
        }
        visit(name, skip(&mut decoder, bytes)?)?;
    }
    Ok(())
}

/// Calls `visit` with every element of an array, in order.
pub(crate) fn each_element<'a, E: From<DecodeError>>(
    bytes: &'a [u8],
    mut visit: impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if kind(bytes) != ValueKind::Array {
        return Err(DecodeError::Shape("expected an array".to_owned()).into());
    }
    let mut decoder = Decoder::new(bytes);
    let length = decoder.array().map_err(DecodeError::from)?;
    let mut seen = 0;
    while !at_end(&mut decoder, length, seen)? {
        seen += 1;
        visit(skip(&mut decoder, bytes)?)?;
    }
    Ok(())
}

pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    Decoder::new(bytes).str().ok()
}

/// Validates one whole item.
pub(crate) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    match walk::length(bytes, Texts::Checked)? {
        end if end == bytes.len() => Ok(()),
        end => Err(DecodeError::Syntax(format!("{} bytes follow the message", bytes.len() - end))),
    }
}

fn at_end(decoder: &mut Decoder<'_>, length: Option<u64>, seen: u64) -> Result<bool, DecodeError> {
    match length {
        Some(length) => Ok(seen == length),
        None => Ok(decoder.datatype()? == Type::Break),
    }
}

fn skip<'a>(decoder: &mut Decoder<'a>, bytes: &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let start = decoder.position();
    let end = start + walk::length(&bytes[start..], Texts::Passed)?;
    decoder.set_position(end);
    Ok(&bytes[start..end])
}

impl From<Error> for DecodeError {
    fn from(error: Error) -> Self {
        if error.is_type_mismatch() {
            Self::Shape("the name of a member must be a string of definite length".to_owned())
        } else {
            Self::Syntax("the CBOR is malformed".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kind;
    use crate::raw::ValueKind;

    #[test]
    fn only_finite_floats_are_numbers() {
        for (bytes, expected) in [
            (&b"\xf9\x3e\x00"[..], ValueKind::Number),
            (b"\xfa\x3f\xc0\x00\x00", ValueKind::Number),
            (b"\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", ValueKind::Number),
            (b"\xf9\x7e\x00", ValueKind::Other),
            (b"\xf9\x7c\x00", ValueKind::Other),
            (b"\xfa\xff\x80\x00\x00", ValueKind::Other),
            (b"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00", ValueKind::Other),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:x?}");
        }
    }
}
