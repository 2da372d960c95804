//! Decodes frames into JSON-RPC messages.
//!
//! A message is a request, a notification or a response. Its params stay raw, except for `_meta`,
//! which decides how a request is handled. Input that is not a message becomes a [`InvalidMessage`]: the
//! error response to send.

use std::borrow::Cow;

use crate::decode_error::DecodeError;
use crate::error::RpcError;
use crate::id::RequestId;
use crate::model::RequestMeta;
use crate::raw::{COMMON_NAMES, Common, Encoding, Params, Raw, ValueKind};
use crate::{cbor, json};

/// The decoded content of one frame.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A single message.
    Message(Message<'a>),
    /// A JSON-RPC batch: a well-formed array whose elements are not decoded yet.
    Batch(Raw<'a>),
}

/// One JSON-RPC message.
#[derive(Debug)]
pub enum Message<'a> {
    /// Expects exactly one response.
    Request(Request<'a>),
    /// Expects no response.
    Notification(Notification<'a>),
    /// Responds to a request this end sent.
    Response(Response<'a>),
}

/// A request, which expects exactly one response.
#[derive(Debug)]
pub struct Request<'a> {
    /// Identifies the request in its response.
    pub id: RequestId,
    /// The method to call.
    pub method: Cow<'a, str>,
    /// The method's params, not decoded.
    pub params: Params<'a>,
    /// The decoded `_meta`, or a description of what is wrong with it.
    pub meta: Result<Option<Box<RequestMeta>>, String>,
}

impl Request<'_> {
    /// Returns whether the request carries its own protocol version, so that it needs no handshake.
    pub fn is_stateless(&self) -> bool {
        let meta = self.meta.as_ref().ok().and_then(Option::as_deref);
        meta.is_some_and(|meta| meta.protocol_version.is_some())
    }
}

/// A notification, which never gets a response.
#[derive(Debug)]
pub struct Notification<'a> {
    /// The notification's name.
    pub method: Cow<'a, str>,
    /// The notification's params, not decoded.
    pub params: Params<'a>,
}

/// The response to a request this end sent.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id of the request; `None` if the peer could not read it.
    pub id: Option<RequestId>,
    /// The raw result, or the raw error object.
    pub outcome: Result<Raw<'a>, Raw<'a>>,
}

/// The error response for a frame or batch element that is not a valid message.
#[derive(Debug)]
pub struct InvalidMessage {
    /// The id to respond to; `None` is written as `null`.
    pub id: Option<RequestId>,
    /// The error to send.
    pub error: RpcError,
}

impl<'a> Incoming<'a> {
    /// Decodes one frame.
    ///
    /// ```
    /// use mcp_flow_proto::{Encoding, Incoming, Message};
    ///
    /// let frame = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    /// let Ok(Incoming::Message(Message::Request(request))) =
    ///     Incoming::decode(frame, Encoding::Json)
    /// else {
    ///     panic!("not a request")
    /// };
    /// assert_eq!(request.method, "ping");
    ///
    /// let refusal = Incoming::decode(b"{\"jsonrpc\"", Encoding::Json).unwrap_err();
    /// assert_eq!((refusal.id, refusal.error.code()), (None, -32700));
    /// ```
    pub fn decode(frame: &'a [u8], encoding: Encoding) -> Result<Self, InvalidMessage> {
        let raw = match encoding {
            Encoding::Json => match std::str::from_utf8(frame) {
                Ok(text) => Raw::Json(text.trim_matches([' ', '\t', '\n', '\r'])),
                Err(error) => {
                    let valid = error.valid_up_to();
                    return Err(parse_error(&format!(
                        "the text is not UTF-8 from byte {valid} on"
                    )));
                }
            },
            Encoding::Cbor => {
                cbor::check(frame).map_err(|error| parse_error(&error.to_string()))?;
                Raw::Cbor(frame)
            }
        };
        match raw.kind() {
            ValueKind::Array => {
                check_syntax(raw)?;
                Ok(Self::Batch(raw))
            }
            _ => Message::from_raw(raw).map(Self::Message),
        }
    }
}

impl<'a> Message<'a> {
    /// Decodes one message from a value, which must be an object.
    pub fn from_raw(raw: Raw<'a>) -> Result<Self, InvalidMessage> {
        if raw.kind() != ValueKind::Object {
            check_syntax(raw)?;
            return Err(invalid_request(None, "a message is an object"));
        }
        let ([version, id, method, params, result, error], common) = match envelope(raw) {
            Ok(found) => found,
            Err(DecodeError::Syntax(details)) => return Err(parse_error(&details)),
            Err(DecodeError::Shape(details)) => {
                return Err(invalid_request(unique_id(raw), &details));
            }
        };
        let named = id.and_then(RequestId::from_raw);
        if !version.is_some_and(is_version_two) {
            return Err(invalid_request(named, "`jsonrpc` must be \"2.0\""));
        }
        // An intermediary may have classified such a message the other way.
        if method.is_some() && (result.is_some() || error.is_some()) {
            return Err(invalid_request(
                named,
                "a message has `method`, `result` or `error`, not two",
            ));
        }
        let params = Params::with_common(params, common);
        match (method.map(Raw::as_text), id, named) {
            (Some(Some(method)), None, _) => {
                Ok(Self::Notification(Notification { method, params }))
            }
            (Some(Some(method)), Some(_), Some(id)) => {
                let meta = RequestMeta::from_params(params);
                Ok(Self::Request(Request { id, method, params, meta }))
            }
            (Some(Some(_)), Some(_), None) => Err(invalid_request(
                None,
                "`id` must be a string or a number of at most 1024 bytes",
            )),
            (Some(None), _, named) => Err(invalid_request(named, "`method` must be a string")),
            (None, _, named) => match (result, error) {
                (Some(result), None) => {
                    Ok(Self::Response(Response { id: named, outcome: Ok(result) }))
                }
                (None, Some(error)) => {
                    Ok(Self::Response(Response { id: named, outcome: Err(error) }))
                }
                (Some(_), Some(_)) => Err(invalid_request(
                    named,
                    "a response has either `result` or `error`, not both",
                )),
                (None, None) => Err(invalid_request(named, "`method` is required")),
            },
        }
    }
}

/// Finds the members of the envelope and, for JSON, the common members of the params.
fn envelope(raw: Raw<'_>) -> Result<([Option<Raw<'_>>; NAMES.len()], Common<'_>), DecodeError> {
    let Raw::Json(text) = raw else { return Ok((raw.members(NAMES)?, Common::Unknown)) };
    let found = json::envelope(text, NAMES, PARAMS, COMMON_NAMES)?;
    if let Some(index) = found.members.duplicate {
        return Err(DecodeError::Shape(format!("`{}` appears twice", NAMES[index])));
    }
    // Params with a duplicate member are rejected where they are used, not here.
    let common = match found.params.duplicate {
        Some(_) => Common::Unknown,
        None => Common::Known(found.params.values),
    };
    Ok((found.members.values, common))
}

/// The members of a JSON-RPC envelope.
const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
const PARAMS: usize = 3;

/// Returns whether `jsonrpc` is "2.0". The first comparison covers the usual spelling.
fn is_version_two(version: Raw<'_>) -> bool {
    version == Raw::Json("\"2.0\"") || version.as_text().as_deref() == Some("2.0")
}

/// Returns the id of a malformed object, if it has exactly one.
fn unique_id(raw: Raw<'_>) -> Option<RequestId> {
    let [id] = raw.members(["id"]).ok()?;
    id.and_then(RequestId::from_raw)
}

fn check_syntax(raw: Raw<'_>) -> Result<(), InvalidMessage> {
    match raw {
        Raw::Json(text) => json::check(text).map_err(|error| parse_error(&error.to_string())),
        // The whole CBOR frame was checked before.
        Raw::Cbor(_) => Ok(()),
    }
}

fn parse_error(details: &str) -> InvalidMessage {
    InvalidMessage { id: None, error: RpcError::parse_error(details) }
}

fn invalid_request(id: Option<RequestId>, details: &str) -> InvalidMessage {
    InvalidMessage { id, error: RpcError::invalid_request(details) }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, Message};
    use crate::raw::Encoding;

    /// MCP-003, MCP-012, MCP-022, MCP-062, C-36: invalid messages are rejected with the standard
    /// code, and with the id if it could be read.
    #[test]
    fn invalid_messages_are_rejected() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"#, "-32700 null");
        check("garbage", "-32700 null");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}}"#, "-32700 null");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":}}"#, "-32700 null");
        check("[1,", "-32700 null");
        check("42", "-32600 null");
        check("null", "-32600 null");
        check("\"text\"", "-32600 null");
        check("{}", "-32600 null");
        check(r#"{"jsonrpc":"2.0"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":5}"#, "-32600 5");
        check(r#"{"id":5,"method":"ping"}"#, "-32600 5");
        check(r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, "-32600 \"x\"");
        check(r#"{"jsonrpc":2.0,"id":5,"method":"ping"}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","id":5,"method":7}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":5,"method":"a","method":"b"}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","id":5,"id":6,"method":"a"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":5,"result":{},"error":{}}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","id":5,"method":"ping","result":{}}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","id":5,"method":"ping","result":null}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","id":5,"method":"ping","error":{}}"#, "-32600 5");
        check(r#"{"jsonrpc":"2.0","method":"x","result":{}}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":5,"method":7,"result":{}}"#, "-32600 5");
    }

    /// MCP-010, MCP-013: requests have an id, notifications have none, params may be missing.
    #[test]
    fn requests_notifications_and_responses_are_distinguished() {
        check(r#" {"jsonrpc":"2.0","id":1,"method":"ping"} "#, "request 1 ping");
        check(r#"{"jsonrpc":"2.0","id":"a","method":"x","params":null}"#, "request \"a\" x");
        check(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#, "notification x");
        check(r#"{"jsonrpc":"2.0","method":"x","extra":[{}]}"#, "notification x");
        check(r#"{"jsonrpc":"2\u002e0","id":1,"method":"p\u0069ng"}"#, "request 1 ping");
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response 1 ok");
        check(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, "response 1 error");
        check(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "response null error");
        check(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},7]"#, "batch of 2");
    }

    #[test]
    fn cbor_messages_are_read_like_json_ones() {
        let ping = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let frame = Encoding::Cbor.encode(&ping).unwrap();
        assert_eq!(describe(&frame, Encoding::Cbor), "request 1 ping");
        for length in 0..frame.len() {
            assert_eq!(describe(&frame[..length], Encoding::Cbor), "-32700 null");
        }
        let trailing = [frame.as_slice(), &[0]].concat();
        assert_eq!(describe(&trailing, Encoding::Cbor), "-32700 null");
        assert_eq!(describe(&[0x81; 200], Encoding::Cbor), "-32700 null");
        assert_eq!(describe(&[0xff], Encoding::Cbor), "-32700 null");
        assert_eq!(describe(&[0x01], Encoding::Cbor), "-32600 null");
    }

    #[test]
    fn text_that_is_not_utf8_is_a_parse_error() {
        let frame = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}";
        assert_eq!(describe(frame, Encoding::Json), "-32700 null");
    }

    fn check(frame: &str, expected: &str) {
        assert_eq!(describe(frame.as_bytes(), Encoding::Json), expected, "{frame}");
    }

    fn describe(frame: &[u8], encoding: Encoding) -> String {
        let id = |id: Option<crate::RequestId>| id.map_or("null".to_owned(), |id| id.to_string());
        match Incoming::decode(frame, encoding) {
            Ok(Incoming::Message(Message::Request(request))) => {
                format!("request {} {}", request.id, request.method)
            }
            Ok(Incoming::Message(Message::Notification(it))) => {
                format!("notification {}", it.method)
            }
            Ok(Incoming::Message(Message::Response(response))) => {
                let outcome = if response.outcome.is_ok() { "ok" } else { "error" };
                format!("response {} {outcome}", id(response.id))
            }
            Ok(Incoming::Batch(batch)) => {
                format!("batch of {}", batch.elements(10).unwrap().map_or(0, |all| all.len()))
            }
            Err(refusal) => format!("{} {}", refusal.error.code(), id(refusal.id)),
        }
    }
}
