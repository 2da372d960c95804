//! Properties that hold for any bytes.
//!
//! Each module has a `run` that takes arbitrary bytes and panics if its property does not hold.
//! cargo-fuzz calls them from `fuzz/fuzz_targets`; the tests of this crate call them with the seeds in
//! `fuzz/corpus` and with inputs that [`generate`] derives from them.

// A failed expectation panics with the reason: that is how a test learns of it.
#![allow(clippy::panic, clippy::unwrap_used)]

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

/// One response of a server.
#[derive(Debug)]
struct ServerResponse {
    id: Option<RequestId>,
    outcome: Result<Value, Value>,
}

/// Decodes and checks all messages of a segment, and returns the responses.
fn responses(segment: &Segment, encoding: Encoding) -> Vec<ServerResponse> {
    let mut responses = Vec::new();
    for message in segment.messages() {
        if encoding == Encoding::Json {
            assert!(!message.contains(&b'\n'), "a message is one line: {}", shown(message));
            assert!(is_json(message), "the server sends JSON: {}", shown(message));
        }
        match Incoming::decode(message, encoding) {
            Ok(Incoming::Message(message)) => responses.extend(response(&message)),
            Ok(Incoming::Batch(batch)) => {
                let elements = batch.elements(usize::MAX).unwrap().unwrap();
                assert!(!elements.is_empty(), "an empty batch is never sent");
                for element in elements {
                    let message = Message::from_raw(element).unwrap();
                    responses
                        .push(response(&message).expect("a batch holds nothing but responses"));
                }
            }
            Err(refusal) => panic!("the server sends {}: {refusal:?}", shown(message)),
        }
    }
    responses
}

/// Returns the response in a message, if it is one.
fn response(message: &Message<'_>) -> Option<ServerResponse> {
    let Message::Response(response) = message else { return None };
    let outcome = match response.outcome {
        Ok(result) => Ok(result.decode().unwrap()),
        Err(error) => Err(error.decode().unwrap()),
    };
    if let Err(error) = &outcome {
        check_error(error);
    }
    Some(ServerResponse { id: response.id.clone(), outcome })
}

/// Takes all responses that are ready to be sent.
fn take_responses(connection: &Connection, encoding: Encoding) -> Vec<ServerResponse> {
    let mut taken = Vec::new();
    while let Some(segment) = connection.take_output() {
        taken.extend(responses(&segment, encoding));
        connection.recycle(segment);
    }
    taken
}

/// Checks that an error has a code, a message, a domain and a name.
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

/// Escapes bytes for display.
pub fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Returns whether serde_json accepts the bytes as JSON. Not every such text is a [`Value`]: an id
/// like `1e400` does not fit any number.
fn is_json(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes);
    text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Returns whether a value nests so deep that only one encoding may accept it: one counts the depth
/// within the frame, the other within the value.
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
