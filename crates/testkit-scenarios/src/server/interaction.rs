//! Sessions by `interaction.*`, `capabilities`, and flows called as tools.

mod timing;
mod tools;

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;

pub(crate) use timing::*;
pub(crate) use tools::*;

/// C-10, INT-091 to INT-098, INT-001: the capability is declared identically in three places, and
/// not at all when disabled.
pub(crate) async fn the_interaction_capability_is_declared_consistently(connect: &Connect) {
    let mut peer = connect(Fixture::interactive().server).await;
    let early = peer.call("capabilities", Value::Null).await["result"].clone();
    assert_eq!(early["interactive"], true);
    assert_eq!(early["version"], "0.1.0");
    let features = json!({"statefulSessions": true, "progressTracking": true, "validation": true,
        "multiplePromptTypes": true, "sessionPersistence": false});
    assert_eq!(early["features"], features);
    let initialized = peer.initialize(Revision::V2025_06_18).await;
    assert_eq!(initialized["capabilities"]["experimental"]["interaction"], early);
    assert_eq!(initialized["capabilities"].get("extensions"), None);
    assert_eq!(peer.call("capabilities", json!({})).await["result"], early);
    let discovered = peer.call("server/discover", json!({"_meta": stateless(json!({}))})).await;
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!(capabilities["extensions"]["io.mcp-flow/interaction"], early);
    assert_eq!(capabilities.get("experimental"), None);
}

/// INT-075, INT-002, INT-009, INT-016 to INT-026, INT-039, INT-047 to INT-049, C-05: start,
/// respond, complete, in every revision with server requests.
pub(crate) async fn a_simple_session_takes_three_requests(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = ready(connect, revision).await;
        let params = json!({"toolName": "simple", "initialParams": {"x": 1}, "timeout": 1e300,
            "context": {"place": "there"}, "_meta": {"progressToken": 7}});
        let started = peer.call("interaction.start", params).await["result"].clone();
        assert_eq!(started["state"], "idle");
        assert_eq!(started["_meta"]["effectiveState"], "waiting_user");
        assert_eq!(started["_meta"]["timeout"], 24 * 60 * 60 * 1000);
        let prompt = &started["initialPrompt"];
        assert_eq!(
            (&prompt["type"], &prompt["message"]),
            (&json!("text"), &json!("Who is there?"))
        );
        assert_eq!(prompt["validation"], json!({"required": true, "min": 2, "max": 50}));
        let id = &started["sessionId"];
        let name = id.as_str().unwrap();
        assert!(name.starts_with("session_") && name.len() >= "session_".len() + 32, "{name}");
        let replied = respond(&mut peer, id, json!("Ada")).await;
        assert_eq!(replied["result"], json!({"accepted": true, "validation": {"valid": true}}));
        let complete = pushed(&mut peer, "interaction.complete").await;
        assert_eq!(complete["sessionId"], *id);
        let data = json!({"name": "Ada", "params": {"x": 1}});
        assert_eq!(complete["result"], json!({"success": true, "data": data}));
        assert!(complete["summary"].is_string());
        assert_eq!(state(&mut peer, id).await["state"], "completed");
        assert!(peer.settle().await.is_empty(), "nothing was said but what is shown here");
    }
}

/// INT-004 to INT-006, INT-076 to INT-078, INT-028 to INT-031, INT-040: the wizard of the document
/// with its retry; every reply precedes the messages it leads to.
pub(crate) async fn a_wizard_prompts_in_sequence(connect: &Connect) {
    let mut peer = ready(connect, Revision::V2025_11_25).await;
    // Four replies in each, all of which lead to a message.
    for _ in 0..1000 / 4 {
        let id = peer.ask("interaction.start", json!({"toolName": "wizard"}));
        let started = peer.next().await;
        assert_eq!(started["id"], id, "the reply comes first: {started}");
        assert_eq!(started["result"].get("initialPrompt"), None);
        let session = started["result"]["sessionId"].clone();
        let asked = pushed(&mut peer, "interaction.prompt").await;
        assert_eq!(asked["prompt"]["message"], "Enter name");
        assert_eq!(asked["progress"], json!({"current": 1, "total": 2, "message": "Step 1 of 2"}));
        for (answer, accepted, next) in [
            ("John", true, "interaction.prompt"),
            ("invalid-email", false, "interaction.prompt"),
            ("john@example.com", true, "interaction.complete"),
        ] {
            let params = json!({"sessionId": session, "response": {"value": answer}});
            let id = peer.ask("interaction.respond", params);
            let replied = peer.next().await;
            assert_eq!(replied["id"], id, "the reply comes first: {replied}");
            assert_eq!(replied["result"]["accepted"], accepted);
            let params = pushed(&mut peer, next).await;
            if !accepted {
                let validation = &replied["result"]["validation"];
                assert_eq!(params["prompt"]["metadata"]["error"], validation["error"]);
                assert_eq!(params["prompt"]["message"], "Enter email");
                assert!(validation["suggestion"].is_string());
            }
        }
    }
}

/// INT-027, INT-043 to INT-046, INT-062 to INT-065, C-09: work is reported, and a prompt after work
/// is sent by another method than one that follows directly.
pub(crate) async fn work_between_prompts_is_reported(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut peer = ready_for(connect, &fixture, Revision::V2025_11_25).await;
    let started = start(&mut peer, "thinks", json!({})).await;
    assert_eq!(started.get("initialPrompt"), None);
    assert_eq!(state(&mut peer, &started["sessionId"]).await["state"], "active");
    fixture.gate.release_one();
    assert_eq!(pushed(&mut peer, "interaction.prompt").await["prompt"]["message"], "Enter name");

    let id = start(&mut peer, "works", json!({})).await["sessionId"].clone();
    respond(&mut peer, &id, json!("one")).await;
    fixture.gate.until_waiting(1).await;
    assert_eq!(state(&mut peer, &id).await["state"], "processing");
    let early = respond(&mut peer, &id, json!("two")).await;
    assert_eq!(early["error"]["code"], -32003, "{early}");
    assert_eq!(early["error"]["data"]["from"], "processing");
    fixture.gate.release_one();
    let mut asked = pushed(&mut peer, "interaction.continue").await;
    if asked.get("nextPrompt").is_none() {
        // Progress may be reported before, or not at all if it is quick.
        assert_eq!(asked["progress"]["message"], "half way");
        asked = pushed(&mut peer, "interaction.continue").await;
    }
    assert_eq!(asked["nextPrompt"]["message"], "Second?");
    assert_eq!(state(&mut peer, &id).await["currentPrompt"], asked["nextPrompt"]);
    respond(&mut peer, &id, json!("two")).await;
    let complete = pushed(&mut peer, "interaction.complete").await;
    assert_eq!(complete["result"]["data"], json!({"first": "one", "second": "two"}));
}

/// C-06, C-09, INT-010: clients that prefer or need polling are never sent a request.
pub(crate) async fn a_polling_client_gets_everything_in_results(connect: &Connect) {
    for revision in Revision::ALL {
        let fixture = Fixture::interactive();
        let mut peer = connect(fixture.server.clone()).await;
        let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
        let mut meta = json!({});
        if revision.is_stateless() {
            meta = stateless(json!({}));
        } else {
            peer.initialize_with(revision, inline).await;
        }
        let params = json!({"toolName": "works", "_meta": meta});
        let started = peer.call("interaction.start", params).await["result"].clone();
        assert_eq!(started["next"]["prompt"], started["initialPrompt"]);
        let id = &started["sessionId"];
        let answer = |value| json!({"sessionId": id, "response": {"value": value}, "_meta": meta});
        let replied = peer.call("interaction.respond", answer("one")).await["result"].clone();
        assert_eq!(replied["accepted"], true);
        assert_eq!(replied["next"]["pending"], true);
        fixture.gate.until_waiting(1).await;
        let poll = json!({"sessionId": id, "_meta": meta});
        let polled = peer.call("interaction.continue", poll.clone()).await["result"].clone();
        assert_eq!(
            (&polled["state"], &polled["next"]["pending"]),
            (&json!("processing"), &json!(true))
        );
        fixture.gate.release_one();
        let done = async {
            loop {
                let polled = peer.call("interaction.continue", poll.clone()).await;
                if polled["result"]["next"]["pending"] != true {
                    return polled["result"].clone();
                }
            }
        };
        let polled = within("the work to be done", done).await;
        assert_eq!(polled["next"]["prompt"]["message"], "Second?");
        let replied = peer.call("interaction.respond", answer("two")).await["result"].clone();
        let complete = &replied["next"]["complete"];
        assert_eq!(complete["result"]["data"], json!({"first": "one", "second": "two"}));
        if !revision.is_stateless() {
            assert!(peer.settle().await.is_empty(), "{revision}");
        }
    }
}

/// INT-014, INT-032, INT-036 to INT-038, INT-051, INT-052, INT-056 to INT-061, INT-101, INT-114,
/// C-11: state and data of a session, while it runs and after its end.
pub(crate) async fn the_state_of_a_session_is_reported(connect: &Connect) {
    let mut peer = ready(connect, Revision::V2025_11_25).await;
    let started = start(&mut peer, "kinds", json!({})).await;
    let families = json!([{"value": "p", "label": "Pet"}, {"value": "f", "label": "Fish"}]);
    assert_eq!(started["initialPrompt"]["choices"], families);
    let id = started["sessionId"].clone();
    let other = start(&mut peer, "kinds", json!({})).await["sessionId"].clone();
    let answered = json!({"value": "p", "timestamp": 1_704_067_200_000_u64,
        "metadata": {"source": "cli"}});
    let params = json!({"sessionId": id, "response": answered});
    peer.call("interaction.respond", params).await;
    let choices = |asked: Value| asked["prompt"]["choices"][0]["value"].clone();
    assert_eq!(choices(pushed(&mut peer, "interaction.prompt").await), "dog");
    // A label is for display, and not a valid answer.
    let by_label = respond(&mut peer, &other, json!("Fish")).await;
    assert_eq!(by_label["result"]["accepted"], false);
    pushed(&mut peer, "interaction.prompt").await;
    respond(&mut peer, &other, json!("f")).await;
    assert_eq!(choices(pushed(&mut peer, "interaction.prompt").await), "cod");
    let reported = state(&mut peer, &id).await;
    assert_eq!(reported, state(&mut peer, &id).await);
    assert_eq!((&reported["state"], &reported["sessionId"]), (&json!("waiting_user"), &id));
    assert_eq!(reported["metadata"]["toolName"], "kinds");
    let times =
        ["createdAt", "lastActivityAt"].map(|name| reported["metadata"][name].as_u64().unwrap());
    assert!(times[0] <= times[1]);
    let turn = &reported["history"][0];
    assert_eq!((&turn["turnId"], &turn["response"]), (&json!(0), &answered));
    assert_eq!(turn["prompt"]["message"], "Which?");
    assert!(turn["timestamp"].is_u64());
    assert_eq!(reported["accumulatedData"], json!({"family": "p"}));
    assert_eq!(reported["currentPrompt"]["message"], "Which of them?");
    let why = json!({"sessionId": id, "reason": "enough"});
    assert_eq!(peer.call("interaction.cancel", why).await["result"], json!({"cancelled": true}));
    let left = state(&mut peer, &id).await;
    assert_eq!((&left["state"], &left["history"]), (&json!("cancelled"), &json!([])));
    assert_eq!((&left["accumulatedData"], &left["currentPrompt"]), (&json!({}), &Value::Null));
    assert_eq!(left["metadata"]["reason"], "enough");
    let listed = peer.call("interaction.list", json!({})).await;
    let listed = listed["result"]["sessions"].as_array().unwrap().clone();
    assert!(listed.iter().any(|one| one["sessionId"] == other && one["toolName"] == "kinds"));
}

/// INT-018, INT-041, INT-050 to INT-053, INT-054, INT-067 to INT-069, INT-079 to INT-086, C-01,
/// C-08, C-42, C-44: each error has its code, its name and its session.
pub(crate) async fn invalid_session_operations_have_their_own_errors(connect: &Connect) {
    let mut peer = ready(connect, Revision::V2025_11_25).await;
    for unknown in ["session_abc123", "", "x", "session_00000000000000000000000000000abc"] {
        for method in ["respond", "continue", "complete", "cancel", "getState"] {
            let params = json!({"sessionId": unknown, "response": {"value": 1}});
            let reply = peer.call(&format!("interaction.{method}"), params).await;
            refused(&reply, -32001, "SESSION_NOT_FOUND", unknown);
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("Session not found") && message.ends_with(unknown));
        }
    }
    let reply = peer.call("interaction.start", json!({"toolName": "nobody"})).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["toolName"]),
        (&json!(-32602), &json!("nobody"))
    );
    let reply = peer.call("interaction.start", json!({"toolName": "math.add"})).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["reason"]),
        (&json!(-32007), &json!("tool"))
    );
    let wrong = json!({"toolName": "wizard", "initialParams": {"name": "A", "email": "x"}});
    let reply = peer.call("interaction.start", wrong).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["field"]),
        (&json!(-32004), &json!("email"))
    );
    // Initial params are validated at once by the argument schema.
    let wrong = json!({"toolName": "kinds", "initialParams": {"count": "many", "day": null}});
    let reply = peer.call("interaction.start", wrong).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["field"]),
        (&json!(-32004), &json!("count"))
    );

    let id = start(&mut peer, "simple", json!({})).await["sessionId"].clone();
    let name = id.as_str().unwrap().to_owned();
    let by_id = json!({"sessionId": id});
    let reply = peer.call("interaction.complete", by_id.clone()).await;
    refused(&reply, -32003, "INVALID_STATE_TRANSITION", &name);
    assert_eq!(reply["error"]["data"]["to"], "completed");
    respond(&mut peer, &id, json!("Ada")).await;
    pushed(&mut peer, "interaction.complete").await;
    refused(
        &respond(&mut peer, &id, json!("Eve")).await,
        -32003,
        "INVALID_STATE_TRANSITION",
        &name,
    );
    let reply = peer.call("interaction.cancel", by_id).await;
    refused(&reply, -32003, "INVALID_STATE_TRANSITION", &name);

    let id = start(&mut peer, "simple", json!({})).await["sessionId"].clone();
    let name = id.as_str().unwrap().to_owned();
    let by_id = json!({"sessionId": id});
    let cancelled = peer.call("interaction.cancel", by_id.clone()).await;
    assert_eq!(cancelled["result"], json!({"cancelled": true}), "without a reason");
    for method in ["interaction.cancel", "interaction.complete", "interaction.continue"] {
        refused(&peer.call(method, by_id.clone()).await, -32006, "ALREADY_CANCELLED", &name);
    }
    refused(&respond(&mut peer, &id, json!("Ada")).await, -32006, "ALREADY_CANCELLED", &name);

    for (flow, ending, success) in
        [("fails", "error", false), ("panics", "error", false), ("declines", "completed", false)]
    {
        let id = start(&mut peer, flow, json!({})).await["sessionId"].clone();
        respond(&mut peer, &id, json!(true)).await;
        let complete = pushed(&mut peer, "interaction.complete").await;
        assert_eq!(complete["result"]["success"], success);
        assert!(!complete.to_string().contains("secret"), "{complete}");
        assert_eq!(state(&mut peer, &id).await["state"], ending);
        let name = id.as_str().unwrap();
        let again = respond(&mut peer, &id, json!(false)).await;
        refused(&again, -32003, "INVALID_STATE_TRANSITION", name);
    }

    // The client completes the session early, and gets no completion message.
    let id = start(&mut peer, "wizard", json!({})).await["sessionId"].clone();
    pushed(&mut peer, "interaction.prompt").await;
    respond(&mut peer, &id, json!("Ada")).await;
    pushed(&mut peer, "interaction.prompt").await;
    let reply = peer.call("interaction.complete", json!({"sessionId": id})).await;
    assert_eq!(reply["result"], json!({"success": true, "finalResult": {"name": "Ada"}}));
    assert!(peer.settle().await.is_empty());

    let meta = stateless(json!({}));
    let params = json!({"sessionId": "session_x", "_meta": meta});
    let reply = peer.call("interaction.getState", params).await;
    refused(&reply, -31001, "SESSION_NOT_FOUND", "session_x");
    assert_eq!(reply["error"]["data"]["legacyCode"], -32001);
}

/// INT-007, INT-011, INT-017, INT-023, INT-042: a malformed request is refused with the name of the
/// field, and changes nothing.
pub(crate) async fn malformed_requests_name_their_field(connect: &Connect) {
    let mut peer = ready(connect, Revision::V2025_11_25).await;
    let id = start(&mut peer, "simple", json!({})).await["sessionId"].clone();
    for (method, params, field) in [
        ("start", json!({}), "toolName"),
        ("start", json!({"toolName": 7}), "toolName"),
        ("start", json!({"toolName": "simple", "initialParams": []}), "initialParams"),
        ("start", json!({"toolName": "simple", "context": "x"}), "context"),
        ("start", json!({"toolName": "simple", "timeout": 0}), "timeout"),
        ("start", json!({"toolName": "simple", "timeout": -1}), "timeout"),
        ("start", json!({"toolName": "simple", "timeout": "5"}), "timeout"),
        ("start", json!({"toolName": "simple", "timeout": 1.5}), "timeout"),
        ("respond", json!({"sessionId": 7, "response": {"value": 1}}), "sessionId"),
        ("respond", json!({"response": {"value": 1}}), "sessionId"),
        ("respond", json!({"sessionId": id}), "response"),
        ("respond", json!({"sessionId": id, "response": "x"}), "response"),
        ("respond", json!({"sessionId": id, "response": {}}), "response.value"),
        (
            "respond",
            json!({"sessionId": id, "response": {"value": 1, "timestamp": "x"}}),
            "response.timestamp",
        ),
        (
            "respond",
            json!({"sessionId": id, "response": {"value": 1, "metadata": 1}}),
            "response.metadata",
        ),
        ("cancel", json!({"sessionId": id, "reason": 7}), "reason"),
        ("complete", json!({"sessionId": id, "result": 7}), "result"),
        ("getState", json!({}), "sessionId"),
        ("continue", json!({"sessionId": null}), "sessionId"),
        ("continue", json!({"sessionId": id, "nextPrompt": "x"}), "nextPrompt"),
        ("continue", json!({"sessionId": id, "progress": 1}), "progress"),
        ("list", json!({"cursor": "x"}), "cursor"),
    ] {
        let reply = peer.call(&format!("interaction.{method}"), params.clone()).await;
        assert_eq!(reply["error"]["code"], -32602, "{method} {params}: {reply}");
        assert_eq!(reply["error"]["data"]["field"], field, "{method} {params}: {reply}");
    }
    let reply = peer.call("interaction.getState", json!([1])).await;
    assert_eq!(reply["error"]["code"], -32602);
    assert_eq!(state(&mut peer, &id).await["state"], "waiting_user");
}

/// INT-104 to INT-106, INT-036, INT-120, C-49: invalid answers have no effect, and the prompt stays
/// open. The server enforces the validation rules of the prompt.
pub(crate) async fn hostile_answers_are_rejected(connect: &Connect) {
    let mut peer = ready(connect, Revision::V2025_11_25).await;
    let declared = peer.call("capabilities", json!({})).await;
    assert_eq!(declared["result"]["features"]["validation"], true);
    let started = start(&mut peer, "simple", json!({})).await;
    assert_eq!(started["initialPrompt"]["validation"]["min"], 2);
    let id = started["sessionId"].clone();
    let mut nested = json!(1);
    for _ in 0..100 {
        nested = json!([nested]);
    }
    for answer in [
        json!(""),
        Value::Null,
        json!(7),
        json!(true),
        json!({"value": "x"}),
        json!(["x"]),
        nested,
        json!("a".repeat(1024 * 1024)),
        json!("x\u{0}y"),
    ] {
        let replied = respond(&mut peer, &id, answer).await;
        assert_eq!(replied["result"]["accepted"], false, "{replied}");
        let reported = replied["result"]["validation"]["error"].as_str().unwrap();
        assert!(reported.len() < 500 && !reported.contains("65536"), "{reported}");
        pushed(&mut peer, "interaction.prompt").await;
    }
    let last = respond(&mut peer, &id, json!("x")).await;
    refused(&last, -32004, "VALIDATION_FAILED", id.as_str().unwrap());
    assert_eq!(state(&mut peer, &id).await["state"], "error");
}

/// C-53, MCP-094: the owner of a session can continue it on another connection.
pub(crate) async fn a_session_outlives_its_connection(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut first = ready_for(connect, &fixture, Revision::V2025_11_25).await;
    let id = start(&mut first, "simple", json!({})).await["sessionId"].clone();
    drop(first);
    let mut second = ready_for(connect, &fixture, Revision::V2025_06_18).await;
    assert_eq!(state(&mut second, &id).await["state"], "waiting_user");
    respond(&mut second, &id, json!("Ada")).await;
    let complete = pushed(&mut second, "interaction.complete").await;
    assert_eq!(complete["result"]["data"]["name"], "Ada");
}

/// Connects a client of this revision to flows.
async fn ready(connect: &Connect, revision: Revision) -> Peer {
    ready_for(connect, &Fixture::interactive(), revision).await
}

async fn ready_for(connect: &Connect, fixture: &Fixture, revision: Revision) -> Peer {
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(revision).await;
    peer
}

async fn start(peer: &mut Peer, flow: &str, params: Value) -> Value {
    let params = json!({"toolName": flow, "initialParams": params});
    let reply = peer.call("interaction.start", params).await;
    assert!(reply.get("result").is_some(), "{reply}");
    reply["result"].clone()
}

async fn respond(peer: &mut Peer, id: &Value, value: Value) -> Value {
    let params = json!({"sessionId": id, "response": {"value": value}});
    peer.call("interaction.respond", params).await
}

/// INT-012: the state of a session is one of seven.
async fn state(peer: &mut Peer, id: &Value) -> Value {
    let reported =
        peer.call("interaction.getState", json!({"sessionId": id})).await["result"].clone();
    let waiting = ["idle", "active", "waiting_user", "processing"];
    let over = ["completed", "cancelled", "error"];
    let state = reported["state"].as_str().unwrap_or_default();
    assert!(waiting.contains(&state) || over.contains(&state), "{reported}");
    reported
}

/// Waits for the next server request, and answers it as expected.
async fn pushed(peer: &mut Peer, method: &str) -> Value {
    let request = peer.find(|message| message.get("method").is_some()).await;
    assert_eq!(request["method"], method, "{request}");
    let result = match method {
        "interaction.complete" => {
            json!({"success": true, "finalResult": request["params"]["result"]["data"]})
        }
        _ => json!({"acknowledged": true}),
    };
    peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    request["params"].clone()
}

fn refused(reply: &Value, code: i64, name: &str, session: &str) {
    let error = &reply["error"];
    assert_eq!(error["code"], code, "{reply}");
    assert_eq!(error["data"]["domain"], "interaction", "{reply}");
    assert_eq!(error["data"]["name"], name, "{reply}");
    assert_eq!(error["data"]["sessionId"], session, "{reply}");
}

fn stateless(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "scripted-peer", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}
