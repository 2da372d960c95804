use std::sync::Arc;

use serde_json::{Value, json};

use super::{Player, ReplayOptions};
use crate::format::Cassette;
use crate::tape::Tape;

fn player(messages: &[(&str, serde_json::Value)]) -> Player {
    let mut text = "{\"cassette\":1}\n".to_owned();
    for (from, message) in messages {
        text += &format!("{}\n", json!({"from": from, "message": message}));
    }
    let cassette = Cassette::parse(text.as_bytes()).unwrap();
    Player::new(Arc::new(Tape::new(&cassette, &[])), ReplayOptions::default())
}

#[test]
fn nothing_is_kept_of_messages_that_were_not_recorded() {
    let mut player = player(&[]);
    for number in 0..100 {
        let params = json!({"n": number});
        let request = json!({"id": number, "method": "tools/call", "params": params});
        let notification = json!({"method": "notifications/x", "params": params});
        for message in [request, notification] {
            player.receive(message.to_string().as_bytes());
        }
    }
    assert!(player.used.is_empty() && player.runs.is_empty(), "{player:?}");
}

/// Requests of a batch are answered together, unless something comes before a response.
#[test]
fn batches_are_answered() {
    let call =
        |id: u64, name: &str| json!({"id": id, "method": "tools/call", "params": {"name": name}});
    let mut player = player(&[
        ("client", json!([call(1, "a"), call(2, "b")])),
        ("server", json!([{"id": 2, "result": "b"}, {"id": 1, "result": "a"}])),
        ("client", call(3, "c")),
        ("server", json!({"method": "notifications/message", "params": {}})),
        ("server", json!({"id": 3, "result": "c"})),
    ]);
    let ping = json!({"id": 9, "method": "ping"});
    let done = json!({"method": "notifications/initialized"});
    let error = json!({"code": -32600, "message": "Invalid Request"});
    let refused = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let answer = |id: u64, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    for (sent, received) in [
        (
            json!([call(7, "a"), done, ping]),
            vec![json!([answer(7, json!("a")), answer(9, json!({}))])],
        ),
        (json!([call(5, "b")]), vec![json!([answer(5, json!("b"))])]),
        (json!([call(6, "c"), ping]), vec![log, answer(6, json!("c")), answer(9, json!({}))]),
        (json!([done]), vec![]),
        (json!([]), vec![refused.clone()]),
        (json!([[7, "ping"]]), vec![json!([refused])]),
    ] {
        let replies = player.receive(sent.to_string().as_bytes()).replies;
        let messages: Vec<_> = replies.into_iter().map(|reply| reply.message).collect();
        assert_eq!(messages, received, "{sent}");
    }
}

/// A secret that was said before is masked in the recording, wherever it is repeated.
#[test]
fn masked_parts_of_params_are_matched() {
    let call = |id: u64, text: &str| {
        let params = json!({"name": "echo", "arguments": {"text": text}, "_meta": {"x": id}});
        json!({"id": id, "method": "tools/call", "params": params})
    };
    let answer = |id: u64| json!({"id": id, "result": {"answer": id}});
    let mut player = player(&[
        ("client", call(1, "I am [masked].")),
        ("server", answer(1)),
        ("client", call(2, "I am [masked].")),
        ("server", answer(2)),
    ]);
    let mut ask = |text: &str| {
        let received = player.receive(call(9, text).to_string().as_bytes());
        received.replies[0].message["result"]["answer"].clone()
    };
    assert_eq!(
        [ask("I am Ada."), ask("I am Eve."), ask("You are Ada.")],
        [json!(1), json!(2), json!(null)]
    );
}

/// The answer to a secret question is masked in the recording, and not by its client.
#[test]
fn masked_answers_are_matched() {
    let respond = |value: &str| {
        let response = json!({"value": value, "turnId": 0});
        json!({"id": 1, "method": "interaction.respond",
            "params": {"sessionId": "s", "response": response}})
    };
    let answer = json!({"id": 1, "result": {"accepted": true}});
    let mut player = player(&[("client", respond("[masked]")), ("server", answer)]);
    let received = player.receive(respond("hunter2").to_string().as_bytes());
    assert_eq!(received.replies[0].message["result"]["accepted"], true);
}

/// Requests that ask for the same are one request: client clocks and absent arguments do not matter.
#[test]
fn what_says_nothing_about_a_request_is_ignored() {
    let respond = |value: &str, timestamp: u64| {
        let response = json!({"value": value, "timestamp": timestamp, "turnId": 0});
        json!({"id": 1, "method": "interaction.respond",
            "params": {"sessionId": "s", "response": response}})
    };
    let call = |method: &str, params: Value| json!({"id": 1, "method": method, "params": params});
    let mut player = player(&[
        ("client", respond("Ada", 1)),
        ("server", json!({"id": 1, "result": 1})),
        ("client", respond("[masked]", 2)),
        ("server", json!({"id": 1, "result": 2})),
        ("client", call("tools/call", json!({"name": "a"}))),
        ("server", json!({"id": 1, "result": 3})),
        ("client", call("prompts/get", json!({"name": "b", "arguments": {}}))),
        ("server", json!({"id": 1, "result": 4})),
        ("client", json!({"id": 1, "method": "tools/list"})),
        ("server", json!({"id": 1, "result": 5})),
    ]);
    for (request, answer) in [
        (respond("Ada", 7), json!(1)),
        (respond("Eve", 8), json!(2)),
        (call("tools/call", json!({"name": "a", "arguments": {}})), json!(3)),
        (call("tools/call", json!({"name": "a", "arguments": {"x": {}}})), Value::Null),
        (call("prompts/get", json!({"name": "b"})), json!(4)),
        (call("prompts/get", json!({"name": "b", "arguments": null})), json!(4)),
        (call("tools/list", json!(null)), json!(5)),
    ] {
        let received = player.receive(request.to_string().as_bytes());
        assert_eq!(received.replies[0].message["result"], answer, "{request}");
    }
}

/// Clients that begin with a handshake get one that says what a modern server was discovered to be.
#[test]
fn a_discovery_answers_handshakes() {
    let discovered = json!({"resultType": "complete", "ttlMs": 1, "instructions": "ask",
        "supportedVersions": ["2026-07-28", "2025-06-18", "2025-03-26"],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}});
    let initialize = |version: &str| json!({"id": 1, "method": "initialize", "params": {"protocolVersion": version}});
    let mut modern = player(&[
        ("client", json!({"id": 0, "method": "server/discover", "params": {}})),
        ("server", json!({"id": 0, "result": discovered})),
    ]);
    for (version, answered) in
        [("2025-03-26", "2025-03-26"), ("2025-11-25", "2025-06-18"), ("2026-07-28", "2025-06-18")]
    {
        let replies = modern.receive(initialize(version).to_string().as_bytes()).replies;
        let expected = json!({"protocolVersion": answered, "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}, "instructions": "ask"});
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": expected});
        assert!(replies.len() == 1 && replies[0].is_response);
        assert_eq!(replies[0].message, message);
    }
    // A server without a handshake has none to give.
    let only = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    let mut strict = player(&[
        ("client", json!({"id": 0, "method": "server/discover", "params": {}})),
        ("server", json!({"id": 0, "result": only})),
    ]);
    let replies = strict.receive(initialize("2025-06-18").to_string().as_bytes()).replies;
    assert_eq!(replies[0].message["error"]["data"]["name"], "NOT_RECORDED");
}
