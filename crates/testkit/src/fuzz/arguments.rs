//! Any arguments are judged as the jsonschema crate judges them, and refused with reasons.

mod schemas;

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use mcp_flow_proto::{Encoding, Incoming, Revision, ValueKind};
use mcp_flow_server::{Connection, ConnectionInfo, Context, Server, Tool};
use serde_json::{Value, json};

use super::{Answer, is_deep, is_json, raw, take_answers};

/// Takes a letter, then arguments. The letter chooses a tool; a capital one, the first revision
/// instead of the last with a handshake.
pub fn run(data: &[u8]) {
    let Some((&letter, arguments)) = data.split_first() else { return };
    let tool = usize::from(letter.wrapping_sub(1) & 0x1f) % VALIDATORS.len();
    let revision = if letter & 0x20 == 0 { Revision::V2024_11_05 } else { Revision::V2025_11_25 };
    let json = Call { tool, revision, encoding: Encoding::Json };
    let cbor = Call { tool, revision, encoding: Encoding::Cbor };

    let verdict = cbor.make(arguments);
    if is_cbor(arguments) {
        let raw = raw(arguments, Encoding::Cbor);
        // Infinity is decoded as null, which it is not.
        let is_itself = |value: &Value| !value.is_null() || raw.kind() == ValueKind::Null;
        let value = raw.decode().ok().filter(is_itself).filter(|value| !is_deep(value));
        cbor.check(&verdict, value.as_ref());
    }
    let verdict = json.make(arguments);
    if is_json(arguments) {
        let value: Option<Value> = serde_json::from_slice(arguments).ok();
        json.check(&verdict, value.as_ref());
        if let Some(value) = value.filter(|value| !is_deep(value)) {
            let again = cbor.make(&Encoding::Cbor.encode(&value).unwrap());
            assert_eq!(again, verdict, "CBOR and JSON are judged alike: {value}");
        }
    }
}

/// One way of calling a tool.
#[derive(Clone, Copy)]
struct Call {
    tool: usize,
    revision: Revision,
    encoding: Encoding,
}

/// What became of a call.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The tool was called. It checks its arguments itself.
    Called,
    /// It was not. Where the arguments are wrong, as far as they could be read.
    Refused(Vec<String>),
}

impl Call {
    /// Calls the tool on a new connection. There is one answer, and no panic behind it.
    fn make(self, arguments: &[u8]) -> Verdict {
        let encoding = self.encoding;
        let info = ConnectionInfo { encoding, ..ConnectionInfo::new("fuzz") };
        let connection = SERVER.connect(info).unwrap();
        let version = self.revision.name();
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": version, "capabilities": {}}});
        answer(&connection, encoding, &encoding.encode(&initialize).unwrap());
        let answer = answer(&connection, encoding, &self.frame(arguments));
        Verdict::of(answer)
    }

    /// A request whose arguments are these bytes, good or bad.
    fn frame(self, arguments: &[u8]) -> Vec<u8> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": format!("tool{}", self.tool), "arguments": null}});
        let mut frame = self.encoding.encode(&request).unwrap();
        // Null stands last, and is followed in JSON by the ends of two objects.
        let (null, ends): (_, &[u8]) = match self.encoding {
            Encoding::Json => (b"null}}".len(), b"}}"),
            Encoding::Cbor => (1, b""),
        };
        frame.truncate(frame.len() - null);
        [&frame, arguments, ends].concat()
    }

    /// Compares with what jsonschema thinks of the arguments, as far as they can be decoded.
    fn check(self, verdict: &Verdict, arguments: Option<&Value>) {
        let empty = json!({});
        let good = match arguments {
            Some(Value::Null) => VALIDATORS[self.tool].is_valid(&empty),
            Some(value) => value.is_object() && VALIDATORS[self.tool].is_valid(value),
            // CBOR's undefined means null, and is no value of its own.
            None => return,
        };
        let arguments = arguments.filter(|value| !value.is_null()).unwrap_or(&empty);
        match verdict {
            Verdict::Called => assert!(good, "called with {arguments}"),
            Verdict::Refused(pointers) => {
                assert!(!good, "refused {arguments} because of {pointers:?}");
                let named = !pointers.is_empty() || !arguments.is_object();
                assert!(named, "refused {arguments} without a violation");
                pointers.iter().for_each(|pointer| check_pointer(pointer, arguments));
            }
        }
    }
}

impl Verdict {
    fn of(answer: Answer) -> Self {
        let error = match answer.outcome {
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

/// Hands in one frame, which has exactly one answer.
fn answer(connection: &Connection, encoding: Encoding, frame: &[u8]) -> Answer {
    connection.receive(frame);
    let mut answers = take_answers(connection, encoding);
    assert_eq!(answers.len(), 1, "one request has one answer: {answers:?}");
    answers.remove(0)
}

/// A pointer is well formed, and names a member of something that is there; the member itself
/// may be missing, which may be what is wrong.
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

/// Whether bytes are exactly one well-formed item.
fn is_cbor(bytes: &[u8]) -> bool {
    Incoming::decode(bytes, Encoding::Cbor).map_or_else(|it| it.error.code() != -32700, |_| true)
}

/// One for each schema.
static VALIDATORS: LazyLock<Vec<Arc<Validator>>> = LazyLock::new(|| {
    let compile = |schema| Arc::new(jsonschema::draft202012::new(schema).unwrap());
    schemas::all().iter().map(compile).collect()
});

/// A server with one tool for each schema.
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
