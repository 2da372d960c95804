//! Tool arguments are validated as by the jsonschema crate, and rejected with reasons.

mod schemas;

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use mcp_flow_proto::{Encoding, Incoming, Revision, ValueKind};
use mcp_flow_server::{Connection, ConnectionInfo, Context, Server, Tool};
use serde_json::{Value, json};

use super::{ServerResponse, is_deep, is_json, raw, take_responses};

/// Input: a letter, then arguments. The letter selects a tool; uppercase selects the first revision
/// instead of the last one with a handshake.
pub fn run(data: &[u8]) {
    let Some((&letter, arguments)) = data.split_first() else { return };
    let tool = usize::from(letter.wrapping_sub(1) & 0x1f) % VALIDATORS.len();
    let revision = if letter & 0x20 == 0 { Revision::V2024_11_05 } else { Revision::V2025_11_25 };
    let json = Call { tool, revision, encoding: Encoding::Json };
    let cbor = Call { tool, revision, encoding: Encoding::Cbor };

    let outcome = cbor.make(arguments);
    if is_cbor(arguments) {
        let raw = raw(arguments, Encoding::Cbor);
        // Infinity decodes as null, but is not null.
        let is_itself = |value: &Value| !value.is_null() || raw.kind() == ValueKind::Null;
        let value = raw.decode().ok().filter(is_itself).filter(|value| !is_deep(value));
        cbor.check(&outcome, value.as_ref());
    }
    let outcome = json.make(arguments);
    if is_json(arguments) {
        let value: Option<Value> = serde_json::from_slice(arguments).ok();
        json.check(&outcome, value.as_ref());
        if let Some(value) = value.filter(|value| !is_deep(value)) {
            let again = cbor.make(&Encoding::Cbor.encode(&value).unwrap());
            assert_eq!(again, outcome, "CBOR and JSON are judged alike: {value}");
        }
    }
}

/// One way to call a tool.
#[derive(Clone, Copy)]
struct Call {
    tool: usize,
    revision: Revision,
    encoding: Encoding,
}

/// Outcome of a call.
#[derive(Debug, PartialEq)]
enum CallOutcome {
    /// The tool was called. It checks its arguments itself.
    Called,
    /// The arguments were rejected, at these pointers, as far as they could be decoded.
    Refused(Vec<String>),
}

impl Call {
    /// Calls the tool on a new connection. There is one response, and no panic behind it.
    fn make(self, arguments: &[u8]) -> CallOutcome {
        let encoding = self.encoding;
        let info = ConnectionInfo { encoding, ..ConnectionInfo::new("fuzz") };
        let connection = SERVER.connect(info).unwrap();
        let version = self.revision.name();
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": version, "capabilities": {}}});
        response(&connection, encoding, &encoding.encode(&initialize).unwrap());
        let response = response(&connection, encoding, &self.frame(arguments));
        CallOutcome::of(response)
    }

    /// Encodes a request with these bytes as its arguments, valid or not.
    fn frame(self, arguments: &[u8]) -> Vec<u8> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": format!("tool{}", self.tool), "arguments": null}});
        let mut frame = self.encoding.encode(&request).unwrap();
        // Null comes last, and is followed in JSON by the ends of two objects.
        let (null, ends): (_, &[u8]) = match self.encoding {
            Encoding::Json => (b"null}}".len(), b"}}"),
            Encoding::Cbor => (1, b""),
        };
        frame.truncate(frame.len() - null);
        [&frame, arguments, ends].concat()
    }

    /// Compares with the result of jsonschema, as far as the arguments can be decoded.
    fn check(self, outcome: &CallOutcome, arguments: Option<&Value>) {
        let empty = json!({});
        let good = match arguments {
            Some(Value::Null) => VALIDATORS[self.tool].is_valid(&empty),
            Some(value) => value.is_object() && VALIDATORS[self.tool].is_valid(value),
            // CBOR's undefined means null, and is not a value of its own.
            None => return,
        };
        let arguments = arguments.filter(|value| !value.is_null()).unwrap_or(&empty);
        match outcome {
            CallOutcome::Called => assert!(good, "called with {arguments}"),
            CallOutcome::Refused(pointers) => {
                assert!(!good, "refused {arguments} because of {pointers:?}");
                let named = !pointers.is_empty() || !arguments.is_object();
                assert!(named, "refused {arguments} without a violation");
                pointers.iter().for_each(|pointer| check_pointer(pointer, arguments));
            }
        }
    }
}

impl CallOutcome {
    fn of(response: ServerResponse) -> Self {
        let error = match response.outcome {
            Ok(result) if result["isError"] == false => return Self::Called,
            Ok(mut result) => result["_meta"]["error"].take(),
            Err(error) => error,
        };
        super::check_error(&error);
        assert_ne!(error["code"], -32603, "something panicked: {error}");
        let violations = error["data"]["violations"].as_array().cloned().unwrap_or_default();
        let pointer = |violation: Value| {
            assert!(violation["message"].as_str().is_some_and(|message| !message.is_empty()));
            violation["pointer"].as_str().expect("a violation says where").to_owned()
        };
        Self::Refused(violations.into_iter().map(pointer).collect())
    }
}

/// Sends one frame, which has exactly one response.
fn response(connection: &Connection, encoding: Encoding, frame: &[u8]) -> ServerResponse {
    connection.receive(frame);
    let mut answers = take_responses(connection, encoding);
    assert_eq!(answers.len(), 1, "one request has one response: {answers:?}");
    answers.remove(0)
}

/// Checks that a pointer is well formed, and its parent exists; the member itself may be missing,
/// which may be the problem.
fn check_pointer(pointer: &str, arguments: &Value) {
    let Some((parent, _)) = pointer.rsplit_once('/') else {
        return assert_eq!(pointer, "", "a pointer is empty or begins with a slash");
    };
    assert!(pointer.starts_with('/'), "{pointer} is no pointer");
    let mut escapes = pointer.split('~').skip(1);
    assert!(escapes.all(|rest| rest.starts_with(['0', '1'])), "{pointer} is no pointer");
    let found = arguments.pointer(parent).is_some();
    assert!(found, "{pointer} leads nowhere in {arguments}");
}

/// Returns whether bytes are exactly one well-formed item.
fn is_cbor(bytes: &[u8]) -> bool {
    Incoming::decode(bytes, Encoding::Cbor).map_or_else(|it| it.error.code() != -32700, |_| true)
}

/// Validators, one for each schema.
static VALIDATORS: LazyLock<Vec<Arc<Validator>>> = LazyLock::new(|| {
    let compile = |schema| Arc::new(jsonschema::draft202012::new(schema).unwrap());
    schemas::all().iter().map(compile).collect()
});

/// Server with one tool for each schema.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let tools = schemas::all().into_iter().zip(VALIDATORS.iter()).enumerate();
    let builder = Server::builder("fuzz", "1.0.0");
    let with_tools = tools.fold(builder, |builder, (number, (schema, validator))| {
        let check = |_: &Context, arguments: Value| {
            assert!(validator.is_valid(&arguments), "the tool was called with {arguments}");
        };
        let tool = Tool::builder(format!("tool{number}")).input_schema(schema).quick(check);
        builder.tools(tool.unwrap())
    });
    with_tools.build().unwrap()
});
