//! Requests from a call to its client: elicitation, sampling, roots.

use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_server::Limits;
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit::{Peer, stateless_meta};
use mcp_flow_testkit_fixture::Fixture;

/// C-06, MCP-005: a tool elicits input in every revision, and receives the outcome.
pub(crate) async fn elicitation_works_in_every_revision(connect: &Connect) {
    for revision in Revision::ALL {
        let mut peer = ready(connect, revision, everything()).await;
        for tool in ["ask_name", "ask_blocking", "ask_in_task"] {
            for (answer, text) in [
                (json!({"action": "accept", "content": {"name": "Al"}}), "Hello, Al!"),
                (
                    json!({"action": "accept", "content": {"name": "Al", "age": 7.0, "x": 1}}),
                    "Hello, Al (7)!",
                ),
                (json!({"action": "decline"}), "Hello, stranger!"),
                (json!({"action": "cancel", "content": {"name": 7}}), "Come back later!"),
            ] {
                let reply =
                    answer_requests(&mut peer, revision, tool, json!({}), |method, params| {
                        assert_eq!(method, "elicitation/create");
                        assert_eq!(params["message"], "Who are you?");
                        assert_eq!(params["requestedSchema"]["required"], json!(["name"]));
                        let mode = (revision >= Revision::V2025_11_25).then(|| json!("form"));
                        assert_eq!(params.get("mode"), mode.as_ref());
                        json!({"result": answer})
                    });
                assert_eq!(text_of(&reply.await), text, "{tool} in {revision}");
            }
        }
        let twice = answer_requests(&mut peer, revision, "ask_twice", json!({}), |_, params| {
            let name = if params["message"] == "Who are you?" { "Al" } else { "Bo" };
            json!({"result": {"action": "accept", "content": {"name": name}}})
        });
        assert_eq!(text_of(&twice.await), "Hello, Al and Bo!", "{revision}");
    }
}

/// PAT-047, PAT-048: a tool samples the client's model in every revision.
pub(crate) async fn sampling_works_in_every_revision(connect: &Connect) {
    for revision in Revision::ALL {
        let mut peer = ready(connect, revision, everything()).await;
        let reply =
            answer_requests(&mut peer, revision, "sample_text", json!({}), |method, params| {
                assert_eq!(method, "sampling/createMessage");
                let content = json!({"type": "text", "text": "What is the capital of France?"});
                assert_eq!(params["messages"], json!([{"role": "user", "content": content}]));
                assert_eq!(params["systemPrompt"], "Be brief.");
                assert_eq!(params["maxTokens"], 100);
                json!({"result": sample("Paris")})
            });
        assert_eq!(text_of(&reply.await), "model-1 says: Paris", "{revision}");
    }
}

/// PAT-009: roots are listed if the client declares them, and must begin with `file://`.
pub(crate) async fn roots_are_listed_in_every_revision(connect: &Connect) {
    for revision in Revision::ALL {
        let mut peer = ready(connect, revision, everything()).await;
        for (uri, text) in [
            ("file:///a", "file:///a file:///b"),
            ("https://a.example", "the uri of root 0 must begin with file://"),
        ] {
            let reply =
                answer_requests(&mut peer, revision, "list_roots", json!({}), |method, _| {
                    assert_eq!(method, "roots/list");
                    json!({"result": {"roots": [{"uri": uri, "name": "A"}, {"uri": "file:///b"}]}})
                });
            let reply = reply.await;
            assert!(text_of(&reply).contains(text), "{revision}: {reply}");
        }
    }
}

/// C-33: declined sampling fails the tool, with a message that says so.
pub(crate) async fn a_declined_request_differs_from_a_failed_one(connect: &Connect) {
    for revision in Revision::ALL {
        let mut peer = ready(connect, revision, everything()).await;
        let reply = answer_requests(
            &mut peer,
            revision,
            "sample_text",
            json!({}),
            |_, _| json!({"error": {"code": -1, "message": "User rejected sampling request"}}),
        );
        let reply = reply.await;
        assert_eq!(reply["result"]["isError"], true, "{revision}: {reply}");
        let reason = match revision.is_stateless() {
            false => "the client refused: User rejected sampling request",
            true => "the client refused: the call was tried again without the answer",
        };
        assert_eq!(text_of(&reply), reason);
    }
}

/// C-06, PAT-009, PAT-047: only declared capabilities are used; a missing one is named, with -32021
/// where the revision has it. A tool that can do without it works.
pub(crate) async fn undeclared_capabilities_are_not_used(connect: &Connect) {
    for revision in Revision::ALL {
        let url_only = json!({"elicitation": {"url": {}}, "sampling": {}});
        for (declared, tool, arguments, missing) in [
            (json!({}), "ask_name", json!({}), json!({"elicitation": {"form": {}}})),
            (json!({}), "sample_text", json!({}), json!({"sampling": {}})),
            (json!({}), "list_roots", json!({}), json!({"roots": {}})),
            (url_only.clone(), "ask_name", json!({}), json!({"elicitation": {"form": {}}})),
            (url_only, "sample_text", json!({"tools": true}), json!({"sampling": {"tools": {}}})),
            (json!({"elicitation": {}}), "ask_url", json!({}), json!({"elicitation": {"url": {}}})),
        ] {
            let mut peer = ready(connect, revision, declared.clone()).await;
            let params = params(revision, &declared, tool, arguments);
            let reply = peer.call("tools/call", params).await;
            if revision.is_stateless() {
                assert_eq!(reply["error"]["code"], -32021, "{reply}");
                assert_eq!(reply["error"]["data"]["requiredCapabilities"], missing);
                continue;
            }
            assert_eq!(reply["result"]["isError"], true, "{reply}");
            let name = missing.as_object().unwrap().keys().next().unwrap();
            assert!(text_of(&reply).contains(name), "{reply}");
        }
        let mut peer = ready(connect, revision, json!({})).await;
        let reply =
            peer.call("tools/call", params(revision, &json!({}), "ask_or_guess", json!({})));
        assert_eq!(text_of(&reply.await), "Hello, whoever!");
    }
}

/// C-06: client results are validated, and an invalid one fails only its call.
pub(crate) async fn client_results_are_validated(connect: &Connect) {
    for revision in Revision::ALL {
        let mut peer = ready(connect, revision, everything()).await;
        for (tool, answer, word) in [
            ("ask_name", json!({}), "action"),
            ("ask_name", json!({"action": "agree"}), "agree"),
            ("ask_name", json!({"action": "accept"}), "name is required"),
            ("ask_name", json!({"action": "accept", "content": {"name": 7}}), "name must be"),
            ("ask_name", json!({"action": "accept", "content": {"name": ""}}), "name"),
            ("ask_name", json!({"action": "accept", "content": [1]}), "content"),
            ("ask_name", json!({"action": "accept", "content": {"name": "a", "age": 1e9}}), "age"),
            ("sample_text", json!({"role": "assistant", "model": "m"}), "content"),
            ("sample_text", json!({"role": "root", "content": {}, "model": "m"}), "root"),
            ("list_roots", json!({"roots": 7}), "sequence"),
            ("list_roots", json!({"roots": [{"name": "x"}]}), "uri"),
        ] {
            let given = answer.clone();
            let reply = answer_requests(
                &mut peer,
                revision,
                tool,
                json!({}),
                |_, _| json!({"result": given}),
            );
            let reply = reply.await;
            assert_eq!(reply["result"]["isError"], true, "{revision}, {answer}: {reply}");
            let text = text_of(&reply);
            assert!(text.contains("cannot be used") && text.contains(word), "{answer}: {text}");
        }
    }
}

/// C-06: URL elicitation gives the URL in the form of each revision.
pub(crate) async fn url_elicitation_works_in_every_revision(connect: &Connect) {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut peer = ready(connect, revision, everything()).await;
        for (action, text) in
            [("accept", "gone there"), ("decline", "stayed here"), ("cancel", "lost")]
        {
            let reply = answer_requests(&mut peer, revision, "ask_url", json!({}), |_, params| {
                assert_eq!((params["mode"].as_str(), params["url"].as_str()), URL_PARAMS);
                assert_eq!(params["elicitationId"].is_string(), !revision.is_stateless());
                json!({"result": {"action": action}})
            });
            assert_eq!(text_of(&reply.await), text);
        }
        for url in ["", "file:///etc/passwd", "javascript:alert(1)", "https://", "https://a b"] {
            let arguments = json!({"url": url});
            let params = params(revision, &everything(), "ask_url", arguments);
            let reply = peer.call("tools/call", params).await;
            assert!(text_of(&reply).contains("is not a URL"), "{reply}");
        }
    }
}

const URL_PARAMS: (Option<&str>, Option<&str>) = (Some("url"), Some("https://a.example/key"));

/// C-06: concurrent questions of a tool reach a stateless client in one round.
pub(crate) async fn concurrent_questions_share_a_round(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let first = call(&mut peer, "ask_all", json!({}), json!({})).await["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    assert_eq!(first["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fixture");
    let asked = first["inputRequests"].as_object().unwrap();
    let keys: Vec<_> = asked.keys().map(String::as_str).collect();
    assert_eq!(keys, ["one", "roots", "text"]);
    assert_eq!(asked["roots"], json!({"method": "roots/list", "params": {}}));
    let answers = json!({
        "one": {"action": "accept", "content": {"one": "b"}},
        "roots": {"roots": []},
        "text": sample("hm"),
    });
    let again = json!({"requestState": first["requestState"], "inputResponses": answers});
    let last = call(&mut peer, "ask_all", json!({}), again).await;
    assert_eq!(text_of(&last), "\"b\" hm 0");
}

/// C-06: missing answers are requested again, additional ones are ignored, and malformed ones are
/// refused.
pub(crate) async fn missing_answers_are_requested_again(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let named = |name: &str| json!({"action": "accept", "content": {"name": name}});
    let mut state = Value::Null;
    // With its key, a wrong one, or none; with and without the state.
    for responses in [json!({}), json!({"nam": named("Al")}), json!({}), Value::Null] {
        let again = json!({"requestState": state, "inputResponses": responses});
        let reply = call(&mut peer, "ask_name", json!({}), again).await["result"].clone();
        assert_eq!(reply["resultType"], "input_required", "{reply}");
        assert!(reply["inputRequests"]["name"].is_object());
        state = reply["requestState"].clone();
    }
    let responses = json!({"name": named("Al"), "other": {"action": "accept"}, "x": {}});
    let again = json!({"requestState": state, "inputResponses": responses});
    let reply = call(&mut peer, "ask_name", json!({}), again).await;
    assert_eq!(text_of(&reply), "Hello, Al!");
    for (member, value) in [
        ("inputResponses", json!([])),
        ("inputResponses", json!({"name": 7})),
        ("inputResponses", json!({"other": null})),
        ("requestState", json!({})),
    ] {
        let reply = call(&mut peer, "ask_name", json!({}), json!({member: value})).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
        let details = reply["error"]["data"]["details"].as_str().unwrap();
        assert!(details.contains(member), "{details}");
    }
    // An answer of an earlier round need not be repeated.
    let first = call(&mut peer, "ask_twice", json!({}), json!({})).await;
    let state = &first["result"]["requestState"];
    let answers = json!({"elicitation": named("Al")});
    let second = json!({"requestState": state, "inputResponses": answers});
    let second = call(&mut peer, "ask_twice", json!({}), second).await["result"].clone();
    let asked = second["inputRequests"].as_object().unwrap();
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["elicitation-2"]);
    let again = json!({"requestState": second["requestState"]});
    let third = call(&mut peer, "ask_twice", json!({}), again).await["result"].clone();
    assert_eq!(third["inputRequests"], second["inputRequests"]);
    let answers = json!({"elicitation-2": named("Bo")});
    let last = json!({"requestState": third["requestState"], "inputResponses": answers});
    let last = call(&mut peer, "ask_twice", json!({}), last).await;
    assert_eq!(text_of(&last), "Hello, Al and Bo!");
}

/// C-62: an answer before its question is ignored, with and without a state.
pub(crate) async fn unrequested_answers_are_ignored(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let named = |name: &str| json!({"action": "accept", "content": {"name": name}});
    for (tool, key, answer) in [
        ("ask_name", "name", named("Al")),
        ("ask_blocking", "name", named("Al")),
        ("sample_text", "sampling", sample("yes")),
        ("list_roots", "roots", json!({"roots": []})),
        ("count_rounds", "round-0", json!({"roots": []})),
    ] {
        let early = json!({"inputResponses": {key: answer}});
        let reply = call(&mut peer, tool, json!({}), early).await;
        assert_eq!(reply["result"]["resultType"], "input_required", "{tool}: {reply}");
    }
    // The first question was asked, the second was not.
    let first = call(&mut peer, "ask_twice", json!({}), json!({})).await["result"].clone();
    let both = json!({"elicitation": named("Al"), "elicitation-2": named("Bo")});
    let again = json!({"requestState": first["requestState"], "inputResponses": both});
    let second = call(&mut peer, "ask_twice", json!({}), again).await["result"].clone();
    let asked = second["inputRequests"].as_object().unwrap();
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["elicitation-2"]);
}

/// C-06, C-43: a state that was altered, has expired or belongs to another request is refused.
pub(crate) async fn a_request_state_is_valid_for_one_request(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let first = call(&mut peer, "ask_name", json!({"a": 1, "b": 2}), json!({})).await;
    let state = first["result"]["requestState"].as_str().unwrap().to_owned();
    let answers = json!({"name": {"action": "accept", "content": {"name": "Al"}}});
    let changed = |position: usize| {
        let mut bytes = state.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    for (tool, arguments, state, word) in [
        (
            "ask_name",
            json!({"b": 2, "a": 1}),
            format!("{state}-TAMPERED"),
            "not issued to this caller",
        ),
        ("ask_name", json!({"b": 2, "a": 1}), changed(3), "not issued to this caller"),
        ("ask_name", json!({"b": 2, "a": 1}), changed(12), "not issued to this caller"),
        (
            "ask_name",
            json!({"b": 2, "a": 1}),
            changed(state.len() / 2),
            "not issued to this caller",
        ),
        ("ask_name", json!({"b": 2, "a": 1}), String::new(), "not issued to this caller"),
        ("ask_name", json!({"a": 1}), state.clone(), "another request"),
        ("ask_twice", json!({"a": 1, "b": 2}), state.clone(), "another request"),
    ] {
        let again = json!({"requestState": state, "inputResponses": answers});
        let reply = call(&mut peer, tool, arguments, again).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
        let details = reply["error"]["data"]["details"].as_str().unwrap();
        assert!(details.contains(word), "{details}");
    }
    let again = json!({"requestState": state, "inputResponses": answers});
    let reply = call(&mut peer, "ask_name", json!({"b": 2, "a": 1}), again).await;
    assert_eq!(text_of(&reply), "Hello, Al!");

    let limits = Limits { request_state_time: Duration::ZERO, ..Limits::default() };
    let mut hasty = connect(Fixture::with_limits(limits).server).await;
    let first = call(&mut hasty, "ask_name", json!({}), json!({})).await;
    let again = json!({"requestState": first["result"]["requestState"]});
    let late = call(&mut hasty, "ask_name", json!({}), again).await;
    assert_eq!(late["error"]["code"], -32602);
    let details = late["error"]["data"]["details"].as_str().unwrap();
    assert!(details.contains("has expired; begin again"), "{details}");

    let limits = Limits { request_state_bytes: 1000, ..Limits::default() };
    let mut small = connect(Fixture::with_limits(limits).server).await;
    let first = call(&mut small, "ask_twice", json!({}), json!({})).await;
    let name = "a".repeat(1000);
    let answers = json!({"elicitation": {"action": "accept", "content": {"name": name}}});
    let again = json!({"requestState": first["result"]["requestState"], "inputResponses": answers});
    let reply = call(&mut small, "ask_twice", json!({}), again).await;
    assert_eq!(reply["error"]["data"]["name"], "PAYLOAD_TOO_LARGE", "{reply}");
}

/// An answer counts only for the question it was given to.
pub(crate) async fn a_changed_question_is_asked_again(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    let first = call(&mut peer, "ask_otherwise", json!({}), json!({})).await;
    let answers = json!({"elicitation": {"action": "accept", "content": {"name": "Al"}}});
    let again = json!({"requestState": first["result"]["requestState"], "inputResponses": answers});
    let reply = call(&mut peer, "ask_otherwise", json!({}), again).await;
    assert_eq!(reply["result"]["isError"], true);
    assert!(text_of(&reply).contains("not the one that was answered"), "{reply}");
}

/// C-06: a handler can carry its own state through the client.
pub(crate) async fn a_handler_can_carry_its_own_state(connect: &Connect) {
    let mut peer = ready(connect, Revision::V2025_11_25, everything()).await;
    let reply = answer_requests(
        &mut peer,
        Revision::V2026_07_28,
        "count_rounds",
        json!({}),
        |_, _| json!({"result": {"roots": []}}),
    );
    assert_eq!(text_of(&reply.await), "the last answer was {\"roots\":[]}");
    let old = peer.call_tool("count_rounds", json!({})).await;
    assert_eq!(old["error"]["code"], -32603, "{old}");
}

/// Connects a client with these capabilities.
async fn ready(connect: &Connect, revision: Revision, capabilities: Value) -> Peer {
    let mut peer = connect(Fixture::new().server).await;
    if !revision.is_stateless() {
        peer.initialize_with(revision, capabilities).await;
    }
    peer
}

/// Calls a tool and answers its requests, in the form of the revision, until there is a result. An
/// error as an answer means no answer to a stateless server.
async fn answer_requests(
    peer: &mut Peer,
    revision: Revision,
    tool: &str,
    arguments: Value,
    answer: impl Fn(&str, &Value) -> Value,
) -> Value {
    let params = params(revision, &everything(), tool, arguments);
    if !revision.is_stateless() {
        let id = peer.ask("tools/call", params);
        loop {
            let message = peer.next().await;
            let Some(method) = message["method"].as_str() else {
                assert_eq!(message["id"], id, "{message}");
                return message;
            };
            let mut response = answer(method, &message["params"]);
            response["jsonrpc"] = json!("2.0");
            response["id"] = message["id"].clone();
            peer.send(response);
        }
    }
    let mut again = params.clone();
    for _ in 0..10 {
        let reply = peer.call("tools/call", again).await;
        let result = &reply["result"];
        if result["resultType"] != "input_required" {
            return reply;
        }
        again = params.clone();
        again["requestState"] = result["requestState"].clone();
        again["inputResponses"] = json!({});
        for (key, request) in result["inputRequests"].as_object().unwrap() {
            let answered = answer(request["method"].as_str().unwrap(), &request["params"]);
            if let Some(result) = answered.get("result") {
                again["inputResponses"][key] = result.clone();
            }
        }
    }
    panic!("{tool} asks without end")
}

/// Makes a stateless call with additional params.
async fn call(peer: &mut Peer, tool: &str, arguments: Value, beside: Value) -> Value {
    let mut params = params(Revision::V2026_07_28, &everything(), tool, arguments);
    for (name, value) in beside.as_object().unwrap() {
        params[name] = value.clone();
    }
    peer.call("tools/call", params).await
}

fn params(revision: Revision, capabilities: &Value, tool: &str, arguments: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments});
    if revision.is_stateless() {
        params["_meta"] = stateless_meta();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    }
    params
}

fn everything() -> Value {
    json!({"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {}})
}

fn sample(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "model-1"})
}

fn text_of(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {reply}"))
}
