//! CBOR read in pieces, the counterpart of [`json`](crate::json).
//!
//! [`check`] is the edge: it walks a whole item without recursion and refuses what is truncated,
//! too deep, not UTF-8 where it should be, or followed by more bytes. Everything after it may
//! assume a well-formed item.

mod read;
mod walk;

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};
use serde::{Deserialize, Serialize};

use crate::raw::{DecodeError, Kind};
use read::Reader;
use walk::Texts;

pub(crate) fn kind(bytes: &[u8]) -> Kind {
    match Decoder::new(bytes).datatype() {
        Ok(Type::Map | Type::MapIndef) => Kind::Object,
        Ok(Type::Array | Type::ArrayIndef) => Kind::Array,
        Ok(Type::String | Type::StringIndef) => Kind::String,
        Ok(Type::Bool) => Kind::Boolean,
        Ok(Type::Null | Type::Undefined) => Kind::Null,
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
        ) => Kind::Number,
        // Infinity and its like are no numbers anywhere else, and decode as something else.
        Ok(Type::F16 | Type::F32 | Type::F64) if decode(bytes).is_ok_and(f64::is_finite) => {
            Kind::Number
        }
        _ => Kind::Other,
    }
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    T::deserialize(&mut Reader::new(bytes)).map_err(|error| DecodeError::Shape(error.to_string()))
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, String> {
    let mut serializer = minicbor_serde::Serializer::new(Vec::new());
    // What JSON writes as null must be read as null, not as an empty array.
    serializer.serialize_unit_as_null(true);
    value.serialize(&mut serializer).map_err(|error| error.to_string())?;
    Ok(serializer.into_encoder().into_writer())
}

/// Calls `visit` with the name and the value of every member of an object, in order.
pub(crate) fn each_member<'a, E: From<DecodeError>>(
    bytes: &'a [u8],
    mut visit: impl FnMut(&'a str, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if kind(bytes) != Kind::Object {
        return Err(DecodeError::Shape("expected an object".to_owned()).into());
    }
    let mut decoder = Decoder::new(bytes);
    let length = decoder.map().map_err(DecodeError::from)?;
    let mut seen = 0;
    while !at_end(&mut decoder, length, seen)? {
        seen += 1;
        let name = decoder.str().map_err(DecodeError::from)?;
        if length == Some(seen) {
            // The last one goes to the end, however long it takes to walk there.
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
    if kind(bytes) != Kind::Array {
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

/// Walks one whole item and refuses anything that later steps could stumble over.
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
            Self::Shape(error.to_string())
        } else {
            Self::Syntax(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kind;
    use crate::raw::Kind;

    #[test]
    fn only_finite_floats_are_numbers() {
        for (bytes, expected) in [
            (&b"\xf9\x3e\x00"[..], Kind::Number),
            (b"\xfa\x3f\xc0\x00\x00", Kind::Number),
            (b"\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", Kind::Number),
            (b"\xf9\x7e\x00", Kind::Other),
            (b"\xf9\x7c\x00", Kind::Other),
            (b"\xfa\xff\x80\x00\x00", Kind::Other),
            (b"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00", Kind::Other),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:x?}");
        }
    }
}
