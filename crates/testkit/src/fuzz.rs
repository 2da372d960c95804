//! What must be true of any bytes whatever.
//!
//! Each module has a `run` that takes arbitrary bytes and panics if something is not as it should
//! be. cargo-fuzz calls them from `fuzz/fuzz_targets`; `tests/fuzz.rs` calls the same functions
//! with the seeds in `fuzz/corpus` and with what [`generate`] makes of them.

pub mod arguments;
pub mod connection;
pub mod frames;
pub mod generate;
pub mod messages;
pub mod rounds;
pub mod webtransport;
pub mod workflows;

use mcp_flow_proto::{Encoding, Incoming, InvalidMessage, Message, Raw, RequestId};
use mcp_flow_server::{Connection, Segment};
use serde::de::IgnoredAny;
use serde_json::Value;

/// One answer of a server.
#[derive(Debug)]
struct Answer {
    id: Option<RequestId>,
    outcome: Result<Value, Value>,
}

/// The answers in a segment, after a look at every message in it.
fn answers(segment: &Segment, encoding: Encoding) -> Vec<Answer> {
    let mut answers = Vec::new();
    for message in segment.messages() {
        if encoding == Encoding::Json {
            assert!(!message.contains(&b'\n'), "a message is one line: {}", shown(message));
            assert!(is_json(message), "the server sends JSON: {}", shown(message));
        }
        match Incoming::decode(message, encoding) {
            Ok(Incoming::Message(message)) => answers.extend(answer(&message)),
            Ok(Incoming::Batch(batch)) => {
                let elements = batch.elements(usize::MAX).unwrap().unwrap();
                assert!(!elements.is_empty(), "an empty batch is never sent");
                for element in elements {
                    let message = Message::from_raw(element).unwrap();
                    answers.push(answer(&message).expect("a batch holds nothing but answers"));
                }
            }
            Err(refusal) => panic!("the server sends {}: {refusal:?}", shown(message)),
        }
    }
    answers
}

/// The answer a message is, unless it is a request or notification of the server's.
fn answer(message: &Message<'_>) -> Option<Answer> {
    let Message::Response(response) = message else { return None };
    let outcome = match response.outcome {
        Ok(result) => Ok(result.decode().unwrap()),
        Err(error) => Err(error.decode().unwrap()),
    };
    if let Err(error) = &outcome {
        check_error(error);
    }
    Some(Answer { id: response.id.clone(), outcome })
}

/// The answers that are ready to be sent.
fn take_answers(connection: &Connection, encoding: Encoding) -> Vec<Answer> {
    let mut taken = Vec::new();
    while let Some(segment) = connection.take_output() {
        taken.extend(answers(&segment, encoding));
        connection.recycle(segment);
    }
    taken
}

/// An error on the wire has a number, a sentence, a domain and a name.
fn check_error(error: &Value) {
    let code = error["code"].as_i64().unwrap_or_default();
    assert!((-32700..=-31000).contains(&code), "{error} has an odd number");
    for text in [&error["message"], &error["data"]["domain"], &error["data"]["name"]] {
        assert!(text.as_str().is_some_and(|text| !text.is_empty()), "{error} does not say enough");
    }
}

fn check_refusal(refusal: &InvalidMessage) {
    let wire = refusal.error.wire(mcp_flow_proto::Revision::BASE);
    let error = serde_json::to_value(wire).unwrap();
    check_error(&error);
    assert!(error["data"]["details"].is_string(), "{error} has no details");
}

/// Bytes as a text that can be read and copied.
pub fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Whether serde_json takes bytes for JSON. Not every such text is a [`Value`]: an id like `1e400`
/// fits no number there is.
fn is_json(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes);
    text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Whether a value nests so deep that one encoding may take it and the other not: what counts is
/// how deep it is in its frame for the one, and in itself for the other.
fn is_deep(value: &Value) -> bool {
    depth(value) > 100
}

fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(elements) => elements.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    deepest.unwrap_or_default() + 1
}

fn raw(bytes: &[u8], encoding: Encoding) -> Raw<'_> {
    match encoding {
        Encoding::Json => Raw::Json(std::str::from_utf8(bytes).unwrap()),
        Encoding::Cbor => Raw::Cbor(bytes),
    }
}
