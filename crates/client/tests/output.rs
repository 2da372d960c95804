//! Validation of structured content against the output schemas that the server lists.

use mcp_flow_client::{Client, Error, ErrorKind};
use serde_json::{Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// A server with one tool that has an output schema, changed after the first listing if wanted.
fn server(output: Value, schemas: [Value; 2]) -> Script {
    Script::new(move |message, peer: &Scripted| match message["method"].as_str() {
        Some("initialize") => peer.send(result(
            message,
            json!({"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "scripted", "version": "1"}}),
        )),
        Some("tools/list") => {
            let is_first = message["id"].as_i64() <= Some(3);
            let schema = &schemas[usize::from(!is_first)];
            peer.send(result(
                message,
                json!({"tools": [{"name": "a", "inputSchema": {"type": "object"},
                    "outputSchema": schema}]}),
            ));
        }
        Some("tools/call") => peer.send(result(message, output.clone())),
        _ => handshake(message, peer),
    })
}

fn count(script: &Script, method: &str) -> usize {
    script.received().iter().filter(|message| message["method"] == method).count()
}

fn number() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

/// The tools are listed once, not before every call.
#[tokio::test]
async fn valid_output_is_returned_and_tools_are_listed_once() {
    let script =
        server(json!({"content": [], "structuredContent": {"n": 1}}), [number(), number()]);
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let calls = (0..5).map(|_| client.call_tool("a", json!({})).into_future());
    for outcome in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.unwrap().structured, Some(json!({"n": 1})));
    }
    let unlisted = client.call_tool("b", json!({})).await;
    assert!(unlisted.is_ok(), "a tool that is not listed has no schema");
    assert_eq!((count(&script, "tools/list"), count(&script, "tools/call")), (1, 6));
}

#[tokio::test]
async fn invalid_output_is_an_error_that_names_tool_and_path() {
    for (output, expected) in [
        (json!({"structuredContent": {"n": "one"}}), "/n: "),
        (json!({"content": [{"type": "text", "text": "1"}]}), "structuredContent is missing"),
    ] {
        let script = server(output.clone(), [number(), number()]);
        let client = Client::builder().connect(script.connector()).await.unwrap();
        for error in [
            client.call_tool("a", json!({})).await.unwrap_err(),
            client.call_tool("a", json!({})).raw().await.unwrap_err(),
        ] {
            let text = error.to_string();
            let Error::InvalidOutput { tool, reason } = &error else { panic!("{error}") };
            assert!(tool == "a" && reason.contains(expected), "{text}");
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
        let client = Client::builder().with(|options| options.validate_output = false);
        let client = client.connect(script.connector()).await.unwrap();
        assert_eq!(client.call_tool("a", json!({})).raw().await.unwrap(), output);
    }
}

#[tokio::test]
async fn failed_tools_need_no_structured_content() {
    let script = server(json!({"content": [], "isError": true}), [number(), number()]);
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert!(client.call_tool("a", json!({})).await.unwrap().is_error);
}

/// The tools are listed again before a result is rejected.
#[tokio::test]
async fn a_schema_that_has_changed_since_is_not_held_against_the_result() {
    let script =
        server(json!({"structuredContent": "text"}), [number(), json!({"type": "string"})]);
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let outcome = client.call_tool("a", json!({})).await.unwrap();
    assert_eq!(outcome.structured, Some(json!("text")));
    assert_eq!(count(&script, "tools/list"), 2);
}
