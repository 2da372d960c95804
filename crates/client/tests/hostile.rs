//! Servers that are dead, hang, send garbage or are malicious: each leads to a clear error, in
//! bounded time, and never to a panic.

use std::time::Duration;

use mcp_flow_client::{Client, Error, ErrorKind, Revision, RevisionPolicy};
use serde_json::{Value, json};

use crate::support::{Script, Scripted, handshake, result};

/// MCP-035: a server that never responds leads to a timeout.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_a_timeout() {
    let script = Script::new(|_, _| {});
    let error = Client::builder().connect(script.connector()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { limit, .. } if limit == Duration::from_secs(30)));
    assert!(error.to_string().contains("scripted"), "{error}");
    // It may have been slow, so `initialize` was tried as well.
    let asked: Vec<_> = script.received().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(asked, ["server/discover", "initialize"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_later_is_a_timeout() {
    let script = Script::new(handshake);
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let error = client.call_tool("x", json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.to_string(), "no response to tools/call within 60 s");
    script.until(|message| message["method"] == "notifications/cancelled").await;
}

#[tokio::test(start_paused = true)]
async fn invalid_messages_are_quoted_in_the_error() {
    for garbage in [
        "Server started on port 8080\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\n",
        "[[[[[[[[[[[[[\n",
        "\u{0}\u{1b}[31m\n",
        "{}\n",
        "{\"jsonrpc\":\"1.0\",\"id\":2,\"result\":{}}\n",
    ] {
        let script = Script::new(move |_, peer: &Scripted| peer.send_text(garbage));
        let builder = Client::builder()
            .with(|options| options.revision = RevisionPolicy::Only(Revision::V2025_11_25));
        let error = builder.connect(script.connector()).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{garbage:?}: {error}");
    }
    // After the handshake, the error quotes the invalid message.
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("tools/list") => peer.send_text("Segmentation fault\u{1b}[0m\n"),
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let error = client.tools().all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let told = error.to_string();
    assert!(told.contains("Segmentation fault") && !told.contains('\u{1b}'), "{told}");
}

#[tokio::test]
async fn a_flood_of_invalid_messages_closes_the_connection() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("tools/list") => peer.send_text(&"nonsense\n".repeat(2000)),
        _ => handshake(message, peer),
    });
    let builder = Client::builder().with(|options| options.backoff.attempts = 1);
    let client = builder.connect(script.once()).await.unwrap();
    let error = client.tools().all().await.unwrap_err();
    assert!(error.to_string().contains("invalid messages"), "{error}");
}

#[tokio::test]
async fn an_oversized_message_closes_the_connection() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("tools/list") => peer.send_text(&"x".repeat(100_000)),
        _ => handshake(message, peer),
    });
    let builder = Client::builder().with(|options| options.frame_limit = 50_000);
    let client = builder.connect(script.once()).await.unwrap();
    let error = client.tools().all().await.unwrap_err();
    assert!(matches!(&error, Error::Protocol(what) if what.contains("50000")), "{error}");
}

#[tokio::test]
async fn malformed_results_are_errors_and_tolerable_ones_are_read() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for (answer, good) in [
        (format!(r#"{{"tools":{deep}}}"#), false),
        ("7".to_owned(), false),
        ("null".to_owned(), false),
        (r#"{"tools":{}}"#.to_owned(), false),
        (r#"{"tools":[7,null,{"name":"a","inputSchema":{}},{"title":"x"}]}"#.to_owned(), true),
        (r#"{"tools":[],"nextCursor":7}"#.to_owned(), true),
    ] {
        let text = answer.clone();
        let script =
            Script::new(move |message, peer: &Scripted| match message["method"].as_str() {
                Some("tools/list") => peer.send_text(&format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{text}}}\n",
                    message["id"]
                )),
                _ => handshake(message, peer),
            });
        let builder =
            Client::builder().with(|options| options.request_timeout = Duration::from_secs(1));
        let client = builder.connect(script.connector()).await.unwrap();
        let listed = client.tools().all().await;
        assert_eq!(listed.is_ok(), good, "{answer:.60} {listed:?}");
    }
}

#[tokio::test]
async fn endless_pages_and_repeated_cursors_are_errors() {
    for (circular, word) in [(false, "more than 20 pages"), (true, "same cursor twice")] {
        let script =
            Script::new(move |message, peer: &Scripted| match message["method"].as_str() {
                Some("tools/list") => {
                    let next = match circular {
                        true => "same".to_owned(),
                        false => format!("{}", message["id"]),
                    };
                    let tool = json!({"name": "a", "inputSchema": {}});
                    peer.send(result(message, json!({"tools": [tool], "nextCursor": next})));
                }
                _ => handshake(message, peer),
            });
        let builder = Client::builder().with(|options| options.max_pages = 20);
        let client = builder.connect(script.connector()).await.unwrap();
        let error = client.tools().all().await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// MCP-039: requests from the server are answered: ping with `{}`, unknown methods and undeclared
/// capabilities with -32601.
#[tokio::test]
async fn requests_of_the_server_are_answered() {
    let script = Script::new(handshake);
    let _client = Client::builder().connect(script.connector()).await.unwrap();
    let asked = [
        ("ping", json!({}), Ok(json!({}))),
        ("no/such", json!({}), Err(-32601)),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1}), Err(-32601)),
        ("elicitation/create", json!({"message": "?"}), Err(-32601)),
        ("roots/list", json!({}), Err(-32601)),
        // INT-033: a forged session.
        (
            "interaction.prompt",
            json!({"sessionId": "x", "prompt": {"type": "text", "message": "?"}}),
            Err(-32001),
        ),
    ];
    for (number, (method, params, expected)) in asked.into_iter().enumerate() {
        let id = format!("s{number}");
        script.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = script.until(|message| message["id"] == id.as_str()).await;
        match expected {
            Ok(result) => assert_eq!(answer["result"], result, "{method}"),
            Err(code) => assert_eq!(answer["error"]["code"], code, "{method}: {answer}"),
        }
    }
}

/// MCP-038: unsolicited and duplicate responses are ignored.
#[tokio::test]
async fn unsolicited_responses_are_ignored() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("tools/call") => {
            for id in
                [json!(9999), json!("x"), Value::Null, message["id"].clone(), message["id"].clone()]
            {
                peer.send(json!({"jsonrpc": "2.0", "id": id, "result":
                    {"content": [{"type": "text", "text": id.to_string()}, {"type": "hologram", "x": 1}]}}));
            }
        }
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    for _ in 0..3 {
        let outcome = client.call_tool("x", json!({})).await.unwrap();
        assert_eq!(outcome.content.len(), 2, "unknown content is kept");
        assert_ne!(outcome.text(), "9999");
    }
}

/// Endless and invalid `input_required` results fail the request.
#[tokio::test(start_paused = true)]
async fn endless_input_rounds_are_errors() {
    for (input, word) in [
        (json!({"requestState": "again"}), "asked for input"),
        (json!({"inputRequests": {"a": {"method": "tools/call", "params": {}}}}), "invalid input"),
        (
            json!({"inputRequests": {"a": {"method": "elicitation/create", "params": {}}}}),
            "invalid input",
        ),
        (json!({}), "inputRequests or requestState"),
        (json!({"requestState": 7}), "must be a string"),
    ] {
        let script =
            Script::new(move |message, peer: &Scripted| match message["method"].as_str() {
                Some("server/discover") => peer.send(result(
                    message,
                    json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
                )),
                Some("tools/call") => {
                    let mut input = input.clone();
                    input["resultType"] = "input_required".into();
                    peer.send(result(message, input));
                }
                _ => handshake(message, peer),
            });
        let client = Client::builder().connect(script.connector()).await.unwrap();
        let error = client.call_tool("x", json!({})).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        let odd = client.request("tools/call", json!({"name": "x"})).await.unwrap_err();
        assert_eq!(odd.kind(), ErrorKind::Protocol);
    }
}

/// The number of concurrent requests from a server is limited.
#[tokio::test]
async fn a_flood_of_server_requests_is_rejected() {
    struct Slow;
    impl mcp_flow_client::Host for Slow {
        fn capabilities(&self) -> mcp_flow_client::model::ClientCapabilities {
            mcp_flow_client::model::ClientCapabilities {
                roots: Some(Default::default()),
                ..Default::default()
            }
        }
        fn roots<'a>(
            &'a self,
            _: &'a mcp_flow_client::host::ServerIdentity,
        ) -> futures_util::future::BoxFuture<'a, Vec<mcp_flow_client::model::Root>> {
            Box::pin(std::future::pending())
        }
    }
    let script = Script::new(handshake);
    let _client = Client::builder().host(Slow).connect(script.connector()).await.unwrap();
    for number in 0..40 {
        script.send(json!({"jsonrpc": "2.0", "id": format!("q{number}"), "method": "roots/list"}));
    }
    let refused = script.until(|message| message["id"] == "q39").await;
    assert_eq!(refused["error"]["data"]["name"], "RATE_LIMITED");
    script.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q0"}}));
    script.send(json!({"jsonrpc": "2.0", "id": "again", "method": "roots/list"}));
    script.send(json!({"jsonrpc": "2.0", "id": "full", "method": "roots/list"}));
    let refused = script.until(|message| message["id"] == "full").await;
    assert_eq!(refused["error"]["data"]["name"], "RATE_LIMITED");
    let taken = script.received().iter().any(|message| message["id"] == "again");
    assert!(!taken, "cancelling one made room for another");
}
