//! Request ids, which pair responses with requests.
//!
//! Bounded when they are read, and written back as they came. The connections at either end know which ids
//! are in use.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::raw::{Raw, ValueKind};

/// A JSON-RPC request id, preserved exactly as its sender wrote it.
///
/// ```
/// use mcp_flow_proto::{Raw, RequestId};
///
/// for written in ["7", "\"7\"", "-0", "1.50", "12345678901234567890"] {
///     let id = RequestId::from_raw(Raw::Json(written)).unwrap();
///     assert_eq!(id.to_string(), written);
/// }
/// assert_eq!(RequestId::from_raw(Raw::Json("null")), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// An integer that fits `i64`; the common case.
    Integer(i64),
    /// A string, possibly empty.
    String(Box<str>),
    /// A number that `i64` cannot represent or would not write back the same way.
    Number(Box<str>),
}

impl RequestId {
    /// Reads an id. Returns `None` if the value is neither a string nor a number, or too long.
    pub fn from_raw(raw: Raw<'_>) -> Option<Self> {
        if raw.bytes().len() > MAX_LENGTH {
            return None;
        }
        match (raw.kind(), raw) {
            (ValueKind::String, _) => raw.as_text().map(|text| Self::String(text.into())),
            (ValueKind::Number, Raw::Json(text)) => Some(Self::from_digits(text)),
            (ValueKind::Number, Raw::Cbor(_)) => raw.decode().ok(),
            _ => None,
        }
    }

    /// Appends the id as JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            Self::Number(text) => out.extend_from_slice(text.as_bytes()),
            Self::String(text) if is_plain(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            Self::String(text) => {
                serde_json::to_writer(out, text).expect("memory can be written to");
            }
        }
    }

    fn from_digits(text: &str) -> Self {
        match text.parse::<i64>() {
            Ok(number) if text != "-0" => Self::Integer(number),
            _ => Self::Number(text.into()),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_json(&mut text);
        formatter.write_str(&String::from_utf8_lossy(&text))
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
            Self::Number(text) if serializer.is_human_readable() => {
                let verbatim = RawValue::from_string(text.to_string());
                verbatim.map_err(S::Error::custom)?.serialize(serializer)
            }
            Self::Number(text) => match text.parse() {
                Ok(number) => serializer.serialize_u64(number),
                Err(_) => serializer.serialize_f64(text.parse().unwrap_or(f64::MAX)),
            },
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RequestId;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RequestId, E> {
        Ok(RequestId::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RequestId, E> {
        Ok(RequestId::from_digits(&number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<RequestId, E> {
        if !number.is_finite() {
            return Err(E::custom("an id must be a finite number"));
        }
        let text = serde_json::to_string(&number).map_err(E::custom)?;
        Ok(RequestId::Number(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RequestId, E> {
        Ok(RequestId::String(text.into()))
    }
}

/// Maximum encoded length of an id or progress token. Ids are stored while their calls run.
const MAX_LENGTH: usize = 1024;

/// Returns whether a text needs no JSON escapes.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::RequestId;
    use crate::raw::{Encoding, Raw};

    /// MCP-010, MCP-011: ids of every legal kind are echoed unchanged.
    #[test]
    fn ids_are_echoed_unchanged() {
        for text in [
            "0",
            "7",
            "-3",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "1e3",
            "1.0",
            "-0",
            "\"7\"",
            "\"\"",
            "\"a\\\"b\\n\"",
            "\"0b1e9f6a-5c3d-4e0a-9d52-6a9a5b7c1d11\"",
        ] {
            let id = RequestId::from_raw(Raw::Json(text)).unwrap();
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn invalid_ids_are_rejected() {
        let long = format!("\"{}\"", "x".repeat(2000));
        for text in ["null", "true", "[1]", "{}", "\"\\ud800\"", &long] {
            assert_eq!(RequestId::from_raw(Raw::Json(text)), None, "{text}");
        }
    }

    #[test]
    fn unusual_numbers_are_serialized_verbatim() {
        let id = RequestId::from_raw(Raw::Json("1e400")).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "1e400");
    }

    #[test]
    fn text_and_number_are_different_ids() {
        let number = RequestId::from_raw(Raw::Json("7")).unwrap();
        let text = RequestId::from_raw(Raw::Json("\"7\"")).unwrap();
        assert_ne!(number, text);
    }

    #[test]
    fn ids_survive_cbor() {
        for id in [RequestId::from(7), RequestId::from("a"), RequestId::Number("1.5".into())] {
            let bytes = Encoding::Cbor.encode(&id).unwrap();
            assert_eq!(RequestId::from_raw(Raw::Cbor(&bytes)), Some(id));
        }
    }
}
