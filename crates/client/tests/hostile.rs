//! Servers that are dead, hang, send garbage or are malicious: each leads to a clear error, in
//! bounded time, and never to a panic.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::host::{Asker, Host};
use mcp_flow_client::interaction::{PromptAnswer, Question};
use mcp_flow_client::{Change, Client, Error, ErrorKind, Event, Revision, Speak, Watched};
use mcp_flow_testkit::wait::within;
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
        let builder =
            Client::builder().with(|options| options.speak = Speak::Only(Revision::V2025_11_25));
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
            Client::builder().with(|options| options.request_limit = Duration::from_secs(1));
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
        let builder = Client::builder().with(|options| options.most_pages = 20);
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

/// MCP-034, MCP-093, INT-089: a lost connection is reopened with the handshake; idempotent requests
/// are retried, others fail.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_reopened() {
    let script = Script::new(|message, peer: &Scripted| {
        let first = peer.connection() == 1;
        match message["method"].as_str() {
            Some("tools/list" | "tools/call") if first => peer.hang_up(),
            Some("tools/list") => peer.send(result(message, json!({"tools": []}))),
            Some("tools/call") => peer.send(result(message, json!({"content": []}))),
            _ => handshake(message, peer),
        }
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut events = client.events();
    assert!(client.tools().all().await.unwrap().is_empty(), "a list is asked for again");
    assert!(matches!(events.next().await, Some(Event::Disconnected { .. })));
    assert!(matches!(events.next().await, Some(Event::Connected { again: true, .. })));
    assert_eq!(script.connections(), 2);

    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("tools/call") if peer.connection() == 1 => peer.hang_up(),
        Some("tools/call") => peer.send(result(message, json!({"content": []}))),
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let error = client.call_tool("buy", json!({})).await.unwrap_err();
    assert!(matches!(&error, Error::Lost { method, .. } if method == "tools/call"), "{error}");
    client.call_tool("buy", json!({})).await.unwrap();
    let bought =
        script.received().iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(bought, 2, "the lost one was not repeated");

    let client = Client::builder()
        .connect(
            Script::new(|message, peer: &Scripted| match message["method"].as_str() {
                Some("tools/call") if peer.connection() == 1 => peer.hang_up(),
                Some("tools/call") => peer.send(result(message, json!({"content": []}))),
                _ => handshake(message, peer),
            })
            .connector(),
        )
        .await
        .unwrap();
    client.call_tool("look", json!({})).repeatable().await.unwrap();
}

/// MCP-069: delays grow, and after the last attempt the error has the cause.
#[tokio::test(start_paused = true)]
async fn reconnecting_stops_after_the_last_attempt() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("ping") => peer.hang_up(),
        _ => handshake(message, peer),
    });
    let builder = Client::builder().with(|options| options.backoff.attempts = 4);
    let builder = builder.with(|options| options.speak = Speak::Only(Revision::V2025_11_25));
    let client = builder.connect(script.connector()).await.unwrap();
    let mut events = client.events();
    script.refuse_connections();
    let error = client.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert!(error.to_string().starts_with("cannot connect to scripted"), "{error}");
    let mut delays = Vec::new();
    while let Some(Some(event)) = futures_util::FutureExt::now_or_never(events.next()) {
        if let Event::Retrying { delay, .. } = event {
            delays.push(delay);
        }
    }
    assert_eq!(delays.len(), 3);
    assert!(delays.windows(2).all(|pair| pair[1] > pair[0]), "{delays:?}");
}

/// MCP-070: two missed pings close the connection.
#[tokio::test(start_paused = true)]
async fn a_server_that_misses_pings_is_lost() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("ping") if peer.connection() == 1 => {}
        Some("ping") => peer.send(result(message, json!({}))),
        _ => handshake(message, peer),
    });
    let builder = Client::builder().with(|options| options.health = Some(Default::default()));
    let client = builder.connect(script.connector()).await.unwrap();
    let mut events = client.events();
    let Some(Event::Disconnected { reason }) = events.next().await else { panic!("it is lost") };
    assert_eq!(reason, "the server missed 2 pings");
    client.ping().await.unwrap();
    assert_eq!(script.connections(), 2);
}

/// A subscription survives a reconnection and reports it.
#[tokio::test(start_paused = true)]
async fn a_subscription_is_renewed_after_a_reconnection() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("resources/subscribe") => {
            peer.send(result(message, json!({})));
            let updated = "notifications/resources/updated";
            peer.send(json!({"jsonrpc": "2.0", "method": updated, "params": {"uri": "x:/a"}}));
        }
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let mut changes = client.listen(Watched::new().resource("x:/a")).await.unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap(), Change::Resource("x:/a".to_owned()));
    script.hang_up();
    let mut seen = vec![changes.next().await.unwrap().unwrap()];
    seen.push(changes.next().await.unwrap().unwrap());
    assert!(seen.contains(&Change::Reconnected), "{seen:?}");
    drop(changes);
    script.until(|message| message["method"] == "resources/unsubscribe").await;
}

/// Any error that 2026-07-28 does not define, and a lost connection, lead to `initialize`.
#[tokio::test(start_paused = true)]
async fn the_revision_of_a_server_is_negotiated() {
    let refuse = |code: i64, data: Value| {
        move |message: &Value, peer: &Scripted| match message["method"].as_str() {
            Some("server/discover") => peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
                "error": {"code": code, "message": "no", "data": data}})),
            _ => handshake(message, peer),
        }
    };
    for code in [-32601, -32602, -32600, 0, -32000] {
        let script = Script::new(refuse(code, Value::Null));
        let client = Client::builder().connect(script.connector()).await.unwrap();
        assert_eq!(client.server().await.unwrap().revision, Revision::V2025_11_25, "{code}");
    }
    let script = Script::new(refuse(-32022, json!({"supported": ["2025-06-18", "1999-01-01"]})));
    Client::builder().connect(script.connector()).await.unwrap();
    let asked = script.until(|message| message["method"] == "initialize").await;
    assert_eq!(asked["params"]["protocolVersion"], "2025-06-18");
    let script = Script::new(refuse(-32022, json!({"supported": ["2099-01-01"]})));
    let error = Client::builder().connect(script.connector()).await.unwrap_err();
    assert!(error.to_string().contains("2099-01-01"), "{error}");
    // A server that rejects the revision lists the ones it supports.
    let script = Script::new(|message, peer: &Scripted| {
        let version = &message["params"]["protocolVersion"];
        if message["method"] != "initialize" || version == "2024-11-05" {
            return handshake(message, peer);
        }
        let data = json!({"supportedVersions": ["2024-11-05"], "requestedVersion": version});
        peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
            "error": {"code": -32000, "message": "Unsupported protocol version", "data": data}}));
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert_eq!(client.server().await.unwrap().revision, Revision::V2024_11_05);
    // A server that exits on `server/discover` gets `initialize` on the next connection.
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("server/discover") => peer.hang_up(),
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert_eq!(
        (client.server().await.unwrap().revision, script.connections()),
        (Revision::V2025_11_25, 2)
    );
    // An unknown version.
    let script = Script::new(|message, peer: &Scripted| {
        peer.send(result(message, json!({"protocolVersion": "1999-01-01", "capabilities": {}})));
    });
    let error = Client::builder().connect(script.connector()).await.unwrap_err();
    assert!(error.to_string().contains("1999-01-01"), "{error}");
}

/// A slow 2026-07-28 server is not mistaken for an older one.
#[tokio::test(start_paused = true)]
async fn a_slow_server_is_not_taken_for_an_older_revision() {
    let script = Script::new(|message, peer: &Scripted| match message["method"].as_str() {
        Some("server/discover") => peer.send_after(
            Duration::from_secs(5),
            result(
                message,
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {}}),
            ),
        ),
        Some("initialize") => {}
        _ => handshake(message, peer),
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    assert_eq!(client.server().await.unwrap().revision, Revision::V2026_07_28);
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
            _: &'a mcp_flow_client::host::Asker,
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

/// A host that answers every prompt with `yes`.
struct Obliging;

impl Host for Obliging {
    fn answer<'a>(&'a self, _: &'a Asker, _: &'a Question) -> BoxFuture<'a, PromptAnswer> {
        Box::pin(async { PromptAnswer::Value(json!("yes")) })
    }
}

/// INT-088: an expired session is restarted once, with a warning event.
#[tokio::test]
async fn an_expired_session_is_restarted_once() {
    for expiring in [1, 2] {
        let starts = AtomicU32::new(0);
        let script = Script::new(move |message, peer| match message["method"].as_str() {
            Some("capabilities") => peer.send(result(message, json!({"interactive": true}))),
            Some("interaction.start") => {
                let session = (starts.fetch_add(1, Ordering::Relaxed) + 1).to_string();
                let prompt = json!({"type": "text", "message": "Well?"});
                peer.send(result(message, json!({"sessionId": session, "initialPrompt": prompt})));
            }
            Some("interaction.respond") if starts.load(Ordering::Relaxed) <= expiring => {
                let data = json!({"name": "SESSION_EXPIRED"});
                peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32002, "message": "Session expired", "data": data}}));
            }
            Some("interaction.respond") => {
                let complete = json!({"result": {"success": true, "data": message["params"]}});
                let next = json!({"complete": complete});
                peer.send(result(message, json!({"accepted": true, "next": next})));
            }
            _ => handshake(message, peer),
        });
        let client = Client::builder().host(Obliging).connect(script.connector()).await.unwrap();
        let mut events = client.events();
        let held = client.converse("any", serde_json::Map::new()).await;
        let started = script.received().into_iter();
        let started = started.filter(|message| message["method"] == "interaction.start").count();
        assert_eq!(started, 2, "it is restarted once");
        let warned = within("a warning", events.next()).await;
        let Some(Event::Warning(told)) = warned else { panic!("no warning") };
        assert!(told.contains("expired"), "{told}");
        match expiring {
            1 => assert_eq!(held.unwrap().data["sessionId"], "2"),
            _ => assert_eq!(held.unwrap_err().server().unwrap().name(), Some("SESSION_EXPIRED")),
        }
    }
}

/// INT-096: a server that rejects every answer leads to an error, though all answers are valid.
#[tokio::test]
async fn endless_rejections_are_errors() {
    let script = Script::new(|message, peer| match message["method"].as_str() {
        Some("capabilities") => peer.send(result(message, json!({"interactive": true}))),
        Some("interaction.start") => peer.send(result(
            message,
            json!({"sessionId": "s", "initialPrompt": {"type": "text", "message": "Well?"}}),
        )),
        Some("interaction.respond") => peer.send(result(
            message,
            json!({"accepted": false, "validation": {"error": "never enough"}}),
        )),
        Some("interaction.cancel") => peer.send(result(message, json!({}))),
        _ => handshake(message, peer),
    });
    let client = Client::builder().host(Obliging).connect(script.connector()).await.unwrap();
    let error = client.converse("any", serde_json::Map::new()).await.unwrap_err();
    assert!(error.to_string().contains("too many invalid answers"), "{error}");
}
