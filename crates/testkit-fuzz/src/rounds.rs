//! A call in several rounds is answered once, whatever the client sends back: with its result, with
//! a request for input that can be answered, or with an error.

use std::sync::LazyLock;

use mcp_flow_proto::Encoding;
use mcp_flow_server::{Connection, ConnectionInfo, Server};
use serde_json::{Value, json};

use super::{ServerResponse, take_responses};
use mcp_flow_testkit_fixture::Fixture;

/// Input: a digit, then text. The digit selects what the text is: 0 the input responses alone, 1
/// the input responses beside a valid state, 2 the state.
pub fn run(data: &[u8]) {
    let Some((&digit, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let connection = SERVER.connect(ConnectionInfo::new("fuzz")).unwrap();
    let first = only_response(&connection, "").outcome.expect("the first round asks");
    assert_eq!(first["resultType"], "input_required");
    let beside = match digit & 3 {
        0 => format!(r#","inputResponses":{text}"#),
        1 => format!(r#","requestState":{},"inputResponses":{text}"#, first["requestState"]),
        _ => format!(r#","requestState":{}"#, Value::from(text)),
    };
    match only_response(&connection, &beside).outcome {
        Ok(result) if result["resultType"] == "input_required" => {
            assert!(result["requestState"].is_string(), "{result}");
            let asked = result["inputRequests"].as_object().unwrap();
            assert!(asked.keys().all(|key| first["inputRequests"].get(key).is_some()), "{result}");
        }
        Ok(result) => assert_eq!(result["resultType"], "complete", "{result}"),
        Err(error) => {
            let code = error["code"].as_i64().unwrap();
            assert!([-32700, -32600, -32602].contains(&code), "{beside}: {error}");
        }
    }
}

static SERVER: LazyLock<Server> = LazyLock::new(|| Fixture::new().server);

/// Returns the only response to a call with additional members in its params.
fn only_response(connection: &Connection, beside: &str) -> ServerResponse {
    let mut meta = mcp_flow_testkit::stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"ask_all","_meta":{meta}{beside}}}}}"#
    );
    connection.receive(call.as_bytes());
    connection.advance();
    let mut answers = take_responses(connection, Encoding::Json);
    assert_eq!(answers.len(), 1, "{call}");
    answers.remove(0)
}
