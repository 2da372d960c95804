//! Well-formed values that have not been decoded.
//!
//! Params stay raw from the edge to the handler, which decodes them straight into its own type. One
//! type covers both encodings, so no handler depends on the encoding of a message.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::decode_error::DecodeError;
use crate::{cbor, json};

/// The encoding of messages on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// UTF-8 JSON, on every transport.
    #[default]
    Json,
    /// CBOR (RFC 8949), on `/mcp-flow` once negotiated.
    Cbor,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 2] = [Self::Json, Self::Cbor];

    /// Returns the name used in encoding negotiation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Cbor => "cbor",
        }
    }

    /// Looks up an encoding by name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name)
    }

    /// Returns the other encoding.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Json => Self::Cbor,
            Self::Cbor => Self::Json,
        }
    }

    /// Encodes a value.
    ///
    /// ```
    /// use mcp_flow_proto::Encoding;
    ///
    /// assert_eq!(Encoding::Json.encode(&[1, 2]).unwrap(), b"[1,2]");
    /// assert_eq!(Encoding::Cbor.encode(&[1, 2]).unwrap(), [0x82, 1, 2]);
    /// ```
    pub fn encode<T: Serialize + ?Sized>(self, value: &T) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::Json => serde_json::to_vec(value).map_err(|error| EncodeError(error.to_string())),
            Self::Cbor => cbor::encode(value).map_err(EncodeError),
        }
    }
}

/// One encoded value that has not been decoded.
///
/// ```
/// use mcp_flow_proto::{ValueKind, Raw};
///
/// let raw = Raw::Json(r#"{"name":"add","arguments":{"a":1}}"#);
/// let [name, arguments, absent] = raw.members(["name", "arguments", "cursor"]).unwrap();
///
/// assert_eq!(name.unwrap().decode::<&str>().unwrap(), "add");
/// assert_eq!(arguments.unwrap().kind(), ValueKind::Object);
/// assert!(absent.is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// JSON text without surrounding white space.
    Json(&'a str),
    /// One CBOR data item.
    Cbor(&'a [u8]),
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `null`, or CBOR's undefined.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
    /// A value that JSON cannot represent, such as CBOR bytes, tags or infinity.
    Other,
}

impl<'a> Raw<'a> {
    /// Returns the type of the value without decoding it.
    pub fn kind(self) -> ValueKind {
        match self {
            Self::Json(text) => json::kind(text),
            Self::Cbor(bytes) => cbor::kind(bytes),
        }
    }

    /// Returns the encoding of the value.
    pub fn encoding(self) -> Encoding {
        match self {
            Self::Json(_) => Encoding::Json,
            Self::Cbor(_) => Encoding::Cbor,
        }
    }

    /// Decodes the value. Rejects nesting deeper than 128.
    pub fn decode<T: Deserialize<'a>>(self) -> Result<T, DecodeError> {
        match self {
            Self::Json(text) => {
                serde_json::from_str(text).map_err(|error| DecodeError::in_json(text, &error))
            }
            Self::Cbor(bytes) => cbor::decode(bytes),
        }
    }

    /// Picks members of an object by name in one pass, each of them raw.
    ///
    /// A duplicate name is an error, because it would be ambiguous which value counts.
    pub fn members<const N: usize>(
        self,
        names: [&str; N],
    ) -> Result<[Option<Raw<'a>>; N], DecodeError> {
        let mut found = [None; N];
        self.each_member(&names, |position, value| {
            let Some(index) = position else { return Ok(()) };
            if found[index].replace(value).is_some() {
                return Err(DecodeError::Shape(format!("`{}` appears twice", names[index])));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `visit` for every member of an object, with the index of its name in `names` and its
    /// value. Stops at the first error, its own or that of `visit`.
    pub fn each_member<T: AsRef<str>, E: From<DecodeError>>(
        self,
        names: &[T],
        mut visit: impl FnMut(Option<usize>, Raw<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Members usually come in the order of `names`, so the next name is tried first.
        let mut next = 0;
        match self {
            Self::Json(text) => json::each_member(text, |name, value| {
                let position = match names.get(next) {
                    Some(expected) if name.is(expected.as_ref()) => Some(next),
                    _ => name.position(names),
                };
                next = position.map_or(next, |position| position + 1);
                visit(position, Raw::Json(value))
            }),
            Self::Cbor(bytes) => cbor::each_member(bytes, |name, value| {
                let position = names.iter().position(|wanted| wanted.as_ref() == name);
                visit(position, Raw::Cbor(value))
            }),
        }
    }

    /// Calls `visit` for every element of an array. Stops at the first error, its own or that of
    /// `visit`.
    pub fn each_element<E: From<DecodeError>>(
        self,
        mut visit: impl FnMut(Raw<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Json(text) => json::each_element(text, |value| visit(Raw::Json(value))),
            Self::Cbor(bytes) => cbor::each_element(bytes, |value| visit(Raw::Cbor(value))),
        }
    }

    /// Returns the raw elements of an array, or `None` if there are more than `most`.
    pub fn elements(self, most: usize) -> Result<Option<Vec<Raw<'a>>>, DecodeError> {
        let mut elements = Vec::new();
        let mut too_many = false;
        let walked = self.each_element(|element| {
            too_many = elements.len() == most;
            if too_many {
                return Err(DecodeError::Shape("more elements than allowed".to_owned()));
            }
            elements.push(element);
            Ok(())
        });
        if too_many { Ok(None) } else { walked.map(|()| Some(elements)) }
    }

    /// Returns an upper bound on the number of values, nested ones included. The memory needed to
    /// decode the value grows with it.
    pub fn count(self) -> usize {
        match self {
            Self::Json(text) => json::count(text),
            Self::Cbor(bytes) => bytes.len(),
        }
    }

    /// Returns the value as a float, if it is a number.
    pub fn as_number(self) -> Option<f64> {
        match self {
            Self::Json(text) if self.kind() == ValueKind::Number => text.parse().ok(),
            Self::Json(_) => None,
            Self::Cbor(_) => self.decode().ok(),
        }
    }

    /// Returns the text, if the value is a string.
    pub fn as_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(text) => json::text(text),
            Self::Cbor(bytes) => cbor::text(bytes).map(Cow::Borrowed),
        }
    }

    /// Returns the encoded bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(text) => text.as_bytes(),
            Self::Cbor(bytes) => bytes,
        }
    }

    /// Copies the value, to keep it longer than its message.
    pub fn to_owned(self) -> OwnedRaw {
        match self {
            Self::Json(text) => OwnedRaw::Json(text.into()),
            Self::Cbor(bytes) => OwnedRaw::Cbor(bytes.into()),
        }
    }
}

/// A [`Raw`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedRaw {
    /// JSON text.
    Json(Box<str>),
    /// One CBOR data item.
    Cbor(Box<[u8]>),
}

impl OwnedRaw {
    /// Borrows the value.
    pub fn as_raw(&self) -> Raw<'_> {
        match self {
            Self::Json(text) => Raw::Json(text),
            Self::Cbor(bytes) => Raw::Cbor(bytes),
        }
    }
}

/// The params of a request or notification: an object, or absent.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    raw: Option<Raw<'a>>,
    common: Common<'a>,
}

/// The members of params that most methods need, if the decoder of the envelope found them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Common<'a> {
    /// Not searched for yet.
    Unknown,
    /// All common members that are present.
    Known([Option<Raw<'a>>; COMMON_NAMES.len()]),
}

/// The names of the common members, in the order of [`Common::Known`].
pub(crate) const COMMON_NAMES: [&str; 5] =
    ["_meta", "name", "arguments", "inputResponses", "requestState"];

impl<'a> Params<'a> {
    /// Wraps params; `null` counts as absent.
    pub fn new(raw: Option<Raw<'a>>) -> Self {
        Self::with_common(raw, Common::Unknown)
    }

    pub(crate) fn with_common(raw: Option<Raw<'a>>, common: Common<'a>) -> Self {
        Self { raw: raw.filter(|raw| raw.kind() != ValueKind::Null), common }
    }

    /// Returns the members many methods share, usually found while the envelope was decoded:
    /// `_meta`, `name`, `arguments`, `inputResponses`, `requestState`.
    pub fn common(self) -> Result<[Option<Raw<'a>>; 5], DecodeError> {
        match self.common {
            Common::Known(members) => Ok(members),
            Common::Unknown => self.members(COMMON_NAMES),
        }
    }

    /// Returns whether these are params MCP allows: an object, null or absent.
    pub fn are_named(self) -> bool {
        self.raw.is_none_or(|raw| raw.kind() == ValueKind::Object)
    }

    /// Decodes the params; absent params decode like an empty object.
    pub fn decode<T: Deserialize<'a>>(self) -> Result<T, DecodeError> {
        self.object().decode()
    }

    /// Picks members by name, see [`Raw::members`].
    pub fn members<const N: usize>(
        self,
        names: [&str; N],
    ) -> Result<[Option<Raw<'a>>; N], DecodeError> {
        self.object().members(names)
    }

    /// Returns the params as an object.
    pub fn object(self) -> Raw<'a> {
        self.raw.unwrap_or(Raw::Json("{}"))
    }
}

/// A value that cannot be written in the requested encoding.
#[derive(Debug, thiserror::Error)]
#[error("the value cannot be encoded: {0}")]
pub struct EncodeError(String);

impl EncodeError {
    pub(crate) fn not_an_object() -> Self {
        Self("params must be an object".to_owned())
    }
}

impl From<serde_json::Error> for EncodeError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// Maximum nesting depth of values in every encoding.
pub const MAX_DEPTH: usize = 128;
