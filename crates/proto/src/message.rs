//! Frames to messages.
//!
//! A message is a request, a notification or a response; its params are still raw, but for the
//! `_meta` that says how a request is to be read. What is not a message comes out as a [`Refusal`], which carries the error to send and whom to send it to.

use std::borrow::Cow;

use crate::error::RpcError;
use crate::id::RequestId;
use crate::model::RequestMeta;
use crate::raw::{COMMON_NAMES, Common, DecodeError, Encoding, Kind, Params, Raw};
use crate::{cbor, json};

/// What one frame holds.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// One message.
    Message(Message<'a>),
    /// A JSON-RPC batch: a well-formed array of what should be messages.
    Batch(Raw<'a>),
}

/// One JSON-RPC message.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants exactly one response.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Answers a request of ours.
    Response(Response<'a>),
}

/// A call that wants exactly one response.
#[derive(Debug)]
pub struct Request<'a> {
    /// Names the request in its response.
    pub id: RequestId,
    /// What is asked for.
    pub method: Cow<'a, str>,
    /// With what.
    pub params: Params<'a>,
    /// What rides along in `_meta`, or what is wrong with it.
    pub meta: Result<Option<Box<RequestMeta>>, String>,
}

impl Request<'_> {
    /// Whether the request says its own version, and so stands alone.
    pub fn is_stateless(&self) -> bool {
        let meta = self.meta.as_ref().ok().and_then(Option::as_deref);
        meta.is_some_and(|meta| meta.protocol_version.is_some())
    }
}

/// A message that gets no reply, whatever it says.
#[derive(Debug)]
pub struct Notification<'a> {
    /// What happened.
    pub method: Cow<'a, str>,
    /// The particulars.
    pub params: Params<'a>,
}

/// The answer to a request of ours.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id our request had; `None` where the peer could not read it.
    pub id: Option<RequestId>,
    /// The result, or the error object, both raw.
    pub outcome: Result<Raw<'a>, Raw<'a>>,
}

/// A frame or batch element that is not a message.
#[derive(Debug)]
pub struct Refusal {
    /// Whom to answer; `None` is written as `null`.
    pub id: Option<RequestId>,
    /// What to answer.
    pub error: RpcError,
}

impl<'a> Incoming<'a> {
    /// Reads one frame.
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
    pub fn decode(frame: &'a [u8], encoding: Encoding) -> Result<Self, Refusal> {
        let raw = match encoding {
            Encoding::Json => match std::str::from_utf8(frame) {
                Ok(text) => Raw::Json(text.trim_matches([' ', '\t', '\n', '\r'])),
                Err(error) => return Err(unreadable(&format!("the text is not UTF-8: {error}"))),
            },
            Encoding::Cbor => {
                cbor::check(frame).map_err(|error| unreadable(&error.to_string()))?;
                Raw::Cbor(frame)
            }
        };
        match raw.kind() {
            Kind::Array => {
                check_syntax(raw)?;
                Ok(Self::Batch(raw))
            }
            _ => Message::from_raw(raw).map(Self::Message),
        }
    }
}

impl<'a> Message<'a> {
    /// Reads one message from a value that is, or should be, an object.
    pub fn from_raw(raw: Raw<'a>) -> Result<Self, Refusal> {
        if raw.kind() != Kind::Object {
            check_syntax(raw)?;
            return Err(malformed(None, "a message is an object"));
        }
        let ([version, id, method, params, result, error], common) = match envelope(raw) {
            Ok(found) => found,
            Err(DecodeError::Syntax(details)) => return Err(unreadable(&details)),
            Err(DecodeError::Shape(details)) => return Err(malformed(lone_id(raw), &details)),
        };
        let named = id.and_then(RequestId::from_raw);
        if !version.is_some_and(is_two) {
            return Err(malformed(named, "`jsonrpc` must be \"2.0\""));
        }
        // Whoever looked at it on the way may have taken it for the other.
        if method.is_some() && (result.is_some() || error.is_some()) {
            return Err(malformed(named, "a message has `method`, `result` or `error`, not two"));
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
            (Some(Some(_)), Some(_), None) => {
                Err(malformed(None, "`id` must be a string or a number of at most 1024 bytes"))
            }
            (Some(None), _, named) => Err(malformed(named, "`method` must be a string")),
            (None, _, named) => match (result, error) {
                (Some(result), None) => {
                    Ok(Self::Response(Response { id: named, outcome: Ok(result) }))
                }
                (None, Some(error)) => {
                    Ok(Self::Response(Response { id: named, outcome: Err(error) }))
                }
                (Some(_), Some(_)) => {
                    Err(malformed(named, "a response has either `result` or `error`, not both"))
                }
                (None, None) => Err(malformed(named, "`method` is required")),
            },
        }
    }
}

/// The members of an envelope, and what was seen of the params on the way.
fn envelope(raw: Raw<'_>) -> Result<([Option<Raw<'_>>; NAMES.len()], Common<'_>), DecodeError> {
    let Raw::Json(text) = raw else { return Ok((raw.members(NAMES)?, Common::Unknown)) };
    let found = json::envelope(text, NAMES, PARAMS, COMMON_NAMES)?;
    if let Some(index) = found.members.twice {
        return Err(DecodeError::Shape(format!("`{}` appears twice", NAMES[index])));
    }
    // Params that name a member twice are looked at again, and refused, where they are used.
    let common = match found.params.twice {
        Some(_) => Common::Unknown,
        None => Common::Known(found.params.values),
    };
    Ok((found.members.values, common))
}

/// The names of an envelope's members.
const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
const PARAMS: usize = 3;

/// Whether this is the one version of JSON-RPC, hardly ever written in any other way.
fn is_two(version: Raw<'_>) -> bool {
    version == Raw::Json("\"2.0\"") || version.as_text().as_deref() == Some("2.0")
}

/// The id of an object whose members could not all be read, if it has exactly one.
fn lone_id(raw: Raw<'_>) -> Option<RequestId> {
    let [id] = raw.members(["id"]).ok()?;
    id.and_then(RequestId::from_raw)
}

fn check_syntax(raw: Raw<'_>) -> Result<(), Refusal> {
    match raw {
        Raw::Json(text) => json::check(text).map_err(|error| unreadable(&error.to_string())),
        // A CBOR frame was checked whole before anything looked inside.
        Raw::Cbor(_) => Ok(()),
    }
}

fn unreadable(details: &str) -> Refusal {
    Refusal { id: None, error: RpcError::parse_error(details) }
}

fn malformed(id: Option<RequestId>, details: &str) -> Refusal {
    Refusal { id, error: RpcError::invalid_request(details) }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, Message};
    use crate::raw::Encoding;

    /// MCP-003, MCP-012, MCP-022, MCP-062, C-36: what is no message is refused with the standard
    /// code, and with the id where it could be read.
    #[test]
    fn what_is_no_message_is_refused() {
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
    fn messages_are_told_apart() {
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
