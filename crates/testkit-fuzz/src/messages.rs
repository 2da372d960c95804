//! Any frame decodes to a message or an error: the one that serde_json's reading of it implies, and
//! the same in both encodings.

use mcp_flow_proto::{Encoding, Incoming, Message, RequestId, write};
use serde_json::{Value, json};

use super::{check_refusal, is_deep, is_json, raw};

/// Input: a frame, decoded as JSON and as CBOR.
pub fn run(data: &[u8]) {
    check_json(data);
    check_cbor(data);
}

fn check_json(frame: &[u8]) {
    let well_formed = is_json(frame);
    let meaning = Meaning::of(frame, Encoding::Json);
    match meaning.kind {
        Kind::Refused(-32700) => assert!(!well_formed && meaning.id.is_none(), "{meaning:?}"),
        kind => assert!(well_formed, "{kind:?} was read from what is no JSON"),
    }
    if let Ok(value) = serde_json::from_slice(frame) {
        meaning.check_against(&value);
        meaning.check_written_back();
        check_encodings_agree(&value, frame.len());
    }
}

/// Checks that CBOR that is valid as JSON has the same meaning.
fn check_cbor(frame: &[u8]) {
    let meaning = Meaning::of(frame, Encoding::Cbor);
    if !matches!(meaning.kind, Kind::Refused(_))
        && let Ok(value) = raw(frame, Encoding::Cbor).decode::<Value>()
        && !is_deep(&value)
    {
        let json = Meaning::of(value.to_string().as_bytes(), Encoding::Json);
        assert!(meaning.is_like(&json), "as CBOR {meaning:?}, as JSON {json:?}");
    }
}

/// Checks that a value has the same meaning in both encodings.
fn check_encodings_agree(value: &Value, length: usize) {
    // The length of an id is that of its encoding, so at the limit the two differ.
    if length > 1000 || is_deep(value) {
        return;
    }
    let [json, cbor] = [Encoding::Json, Encoding::Cbor].map(|encoding| {
        let frame = encoding.encode(value).unwrap();
        assert_eq!(raw(&frame, encoding).decode::<Value>().unwrap(), *value);
        Meaning::of(&frame, encoding)
    });
    assert!(json.is_like(&cbor), "as JSON {json:?}, as CBOR {cbor:?}");
}

/// Meaning of a frame, independent of its encoding.
#[derive(Debug)]
struct Meaning {
    kind: Kind,
    id: Option<RequestId>,
    method: Option<String>,
    /// Params, result, error or batch; `None` if it is well formed and fits no type.
    body: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Request,
    Notification,
    Result,
    Error,
    Batch,
    /// Rejected with this code.
    Refused(i32),
}

impl Meaning {
    fn of(frame: &[u8], encoding: Encoding) -> Self {
        let (kind, id, method, body) = match Incoming::decode(frame, encoding) {
            Ok(Incoming::Message(Message::Request(it))) => {
                (Kind::Request, Some(it.id), Some(it.method), it.params.decode().ok())
            }
            Ok(Incoming::Message(Message::Notification(it))) => {
                (Kind::Notification, None, Some(it.method), it.params.decode().ok())
            }
            Ok(Incoming::Message(Message::Response(it))) => match it.outcome {
                Ok(result) => (Kind::Result, it.id, None, result.decode().ok()),
                Err(error) => (Kind::Error, it.id, None, error.decode().ok()),
            },
            Ok(Incoming::Batch(batch)) => (Kind::Batch, None, None, batch.decode().ok()),
            Err(refusal) => {
                check_refusal(&refusal);
                (Kind::Refused(refusal.error.code()), refusal.id, None, None)
            }
        };
        Self { kind, id, method: method.map(Into::into), body }
    }

    /// Compares with the members that serde_json finds.
    fn check_against(&self, value: &Value) {
        let member = |name: &str| value.get(name).cloned();
        let params = || member("params").filter(|it| !it.is_null()).or_else(|| Some(json!({})));
        let (method, body) = match self.kind {
            Kind::Request => (member("method"), params()),
            Kind::Notification => {
                assert_eq!(member("id"), None);
                (member("method"), params())
            }
            Kind::Result => (member("method"), member("result")),
            Kind::Error => (member("method"), member("error")),
            Kind::Batch => (None, Some(value.clone())),
            Kind::Refused(code) => {
                assert_eq!(code, -32600);
                (None, None)
            }
        };
        assert_eq!(self.method.clone().map(Value::from), method);
        assert_eq!(self.body, body);
        if !matches!(self.kind, Kind::Batch | Kind::Refused(_)) {
            assert_eq!(value["jsonrpc"], "2.0");
        }
        // A response may have none, and of two ids neither counts.
        if let Some(id) = &self.id {
            let read_back: Value = serde_json::from_str(&id.to_string()).unwrap();
            assert_eq!(read_back, value["id"]);
        }
    }

    /// Encodes a request or notification in both encodings, and decodes the same again.
    fn check_written_back(&self) {
        let Some(method) = &self.method else { return };
        for encoding in [Encoding::Json, Encoding::Cbor] {
            let mut frame = Vec::new();
            let written = match &self.id {
                Some(id) => write::request(&mut frame, encoding, id, method, &self.body),
                None => write::notification(&mut frame, encoding, method, &self.body),
            };
            written.unwrap();
            let again = Self::of(&frame, encoding);
            assert!(self.is_like(&again), "{self:?} was written, {again:?} was read");
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        // Numbers are compared by value: CBOR does not keep their notation.
        let same_id = match (&self.id, &other.id) {
            (Some(RequestId::Number(one)), Some(RequestId::Number(other))) => {
                one.parse::<f64>() == other.parse::<f64>()
            }
            (one, other) => one == other,
        };
        same_id && self.kind == other.kind && self.method == other.method && self.body == other.body
    }
}
