//! Flows called as tools.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::{ready, stateless};
use crate::server::Connect;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::Fixture;

/// C-06, INT-100: clients with elicitation get one form after another, with the rules of each
/// prompt, and again after an invalid answer.
pub(crate) async fn a_flow_prompts_by_elicitation(connect: &Connect) {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let mut peer = connect(Fixture::interactive().server).await;
        peer.initialize_with(revision, json!({"elicitation": {}})).await;
        let id = call(&mut peer, "kinds", json!({"family": "f"}));
        let mut asked = Vec::new();
        for (key, answer) in [
            ("animal", json!("cod")),
            ("count", json!(10)),
            ("count", json!(2)),
            ("price", json!(1.5)),
            ("day", json!("2024-02-29")),
            ("sure", json!(true)),
        ] {
            let request = peer.find(|message| message.get("method").is_some()).await;
            assert_eq!(request["method"], "elicitation/create", "{request}");
            let field = &request["params"]["requestedSchema"]["properties"][key];
            assert!(field.is_object(), "{request}");
            asked.push(field.clone());
            let content = json!({"action": "accept", "content": {key: answer}});
            peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": content}));
        }
        assert_eq!(asked[0]["enum"], json!(["cod", "eel"]));
        assert_eq!((&asked[1]["minimum"], &asked[1]["maximum"]), (&json!(1), &json!(9)));
        assert_eq!((&asked[4]["format"], &asked[5]["type"]), (&json!("date"), &json!("boolean")));
        let reply = peer.reply_to(id).await;
        let value = json!({"value": ["f", "cod", 2, 1.5, "2024-02-29", true]});
        assert_eq!(reply["result"]["structuredContent"], value, "{reply}");

        let id = call(&mut peer, "wizard", json!({}));
        let request = peer.find(|message| message.get("method").is_some()).await;
        let declined = json!({"action": "decline"});
        peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": declined}));
        let reply = peer.reply_to(id).await;
        assert_eq!(reply["result"]["isError"], true);
        assert_eq!(reply["result"]["_meta"]["error"]["data"]["name"], "DECLINED");

        // A missing answer does not select the default.
        let given = json!({"family": "f", "animal": "cod", "count": 2, "price": 1.5,
            "day": "2024-02-29"});
        let id = call(&mut peer, "kinds", given);
        let request = peer.find(|message| message.get("method").is_some()).await;
        peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "zap"}}));
        let reply = peer.reply_to(id).await;
        assert_eq!(reply["result"]["isError"], true, "{reply}");

        let left = peer.call("interaction.list", json!({})).await;
        let sessions = left["result"]["sessions"].as_array().unwrap().clone();
        assert!(sessions.iter().all(|one| one["state"] != "waiting_user"), "{sessions:?}");
    }
}

/// C-06, C-62, INT-128: under 2026-07-28 each round has one prompt, and accepts no answer before
/// it. A repeated answer leads to the same prompt or result; another answer to the same prompt is
/// refused, and so is an altered state.
pub(crate) async fn a_flow_prompts_in_rounds(connect: &Connect) {
    let mut peer = connect(Fixture::interactive().server).await;
    let early = json!({"name": {"action": "accept", "content": {"name": "Eve"}}});
    let first = round(&mut peer, None, early).await["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let asked = &first["inputRequests"]["name"];
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("Enter name"))
    );
    let name = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let second = round(&mut peer, Some(&first), name.clone()).await["result"].clone();
    assert!(second["inputRequests"]["email"].is_object(), "{second}");
    let again = round(&mut peer, Some(&first), name.clone()).await["result"].clone();
    assert_eq!(again["inputRequests"], second["inputRequests"]);
    let other = json!({"name": {"action": "accept", "content": {"name": "Eve"}}});
    let refused = round(&mut peer, Some(&first), other).await;
    assert_eq!(refused["error"]["data"]["name"], "INVALID_STATE_TRANSITION", "{refused}");
    assert_eq!(refused["error"]["code"], -31003);
    let bad = json!({"email": {"action": "accept", "content": {"email": "nobody"}}});
    let third = round(&mut peer, Some(&second), bad.clone()).await["result"].clone();
    let message = third["inputRequests"]["email"]["params"]["message"].as_str().unwrap();
    assert!(message.ends_with("Enter email") && message.len() > "Enter email".len(), "{message}");
    // Repeating it is not another attempt; with the newest state it would be.
    for _ in 0..20 {
        for bad in [bad.clone(), filled("email", json!("nowhere"))] {
            let again = round(&mut peer, Some(&second), bad).await["result"].clone();
            assert_eq!(again["inputRequests"], third["inputRequests"], "{again}");
        }
    }
    // An earlier answer still leads to the same prompt, with a valid state.
    let replayed = round(&mut peer, Some(&first), name).await["result"].clone();
    let email = json!({"email": {"action": "accept", "content": {"email": "ada@example.com"}}});
    for asked in [&third, &third, &second, &replayed] {
        let done = round(&mut peer, Some(asked), email.clone()).await;
        let data = json!({"name": "Ada", "email": "ada@example.com"});
        assert_eq!(done["result"]["structuredContent"], data, "{done}");
    }
    let late = json!({"email": {"action": "accept", "content": {"email": "eve@example.com"}}});
    let refused = round(&mut peer, Some(&third), late).await;
    assert_eq!(refused["error"]["code"], -31003, "{refused}");

    let state = first["requestState"].as_str().unwrap();
    for forged in [&state[1..], &state[..state.len() - 4], "x", ""] {
        let forged = json!({"requestState": forged});
        let reply = round(&mut peer, Some(&forged), Value::Null).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    }
}

/// C-06, C-11: declining answers the open prompt only; earlier answers stand, and a repeated
/// decline leads to the same end.
pub(crate) async fn only_an_open_prompt_can_be_declined(connect: &Connect) {
    let mut peer = connect(Fixture::interactive().server).await;
    let first = round(&mut peer, None, Value::Null).await["result"].clone();
    let second = round(&mut peer, Some(&first), filled("name", json!("Ada"))).await;
    let second = second["result"].clone();
    let late = round(&mut peer, Some(&first), json!({"name": {"action": "decline"}})).await;
    assert_eq!(late["error"]["data"]["name"], "INVALID_STATE_TRANSITION", "{late}");
    let done = round(&mut peer, Some(&second), filled("email", json!("ada@example.com"))).await;
    assert_eq!(done["result"]["structuredContent"]["name"], "Ada", "{done}");
    let late = round(&mut peer, Some(&second), json!({"email": {"action": "cancel"}})).await;
    assert_eq!(late["error"]["data"]["name"], "INVALID_STATE_TRANSITION", "{late}");

    let first = round(&mut peer, None, Value::Null).await["result"].clone();
    for _ in 0..2 {
        let reply = round(&mut peer, Some(&first), json!({"name": {"action": "decline"}})).await;
        let name = &reply["result"]["_meta"]["error"]["data"]["name"];
        assert_eq!(name, "DECLINED", "{reply}");
    }
    let late = round(&mut peer, Some(&first), filled("name", json!("Ada"))).await;
    assert_eq!(late["error"]["data"]["name"], "ALREADY_CANCELLED", "{late}");
}

/// C-06, C-11, C-14: a custom prompt with flat members is a form, and the last answer can be
/// repeated however it was given: as the text of a choice, or by its default.
pub(crate) async fn the_last_answer_can_be_repeated_in_any_form(connect: &Connect) {
    let mut peer = connect(Fixture::interactive().server).await;
    for (answer, size) in [(json!({"size": "2"}), 2), (json!({}), 1), (json!({"size": ""}), 1)] {
        let first = round_of(&mut peer, "places", None, Value::Null).await["result"].clone();
        let form = &first["inputRequests"]["point"]["params"]["requestedSchema"];
        assert_eq!(form["properties"]["x"]["type"], "number", "{first}");
        let point = json!({"point": {"action": "accept", "content": {"x": 1.5, "y": 2.5}}});
        let second = round_of(&mut peer, "places", Some(&first), point.clone()).await;
        let again = round_of(&mut peer, "places", Some(&first), point).await;
        assert_eq!(second["result"]["inputRequests"], again["result"]["inputRequests"]);
        let answer = json!({"size": {"action": "accept", "content": answer}});
        for _ in 0..2 {
            let done = round_of(&mut peer, "places", Some(&second["result"]), answer.clone()).await;
            let data = json!({"point": {"x": 1.5, "y": 2.5}, "size": size});
            assert_eq!(done["result"]["structuredContent"], data, "{done}");
        }
    }
}

/// INT-099, INT-100: clients without elicitation give all answers at once, and are told what is
/// missing and how to give it.
pub(crate) async fn a_flow_accepts_all_answers_upfront(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = ready(connect, revision).await;
        let listed = peer.call("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        let wizard = tools.iter().find(|tool| tool["name"] == "wizard").unwrap();
        let properties = wizard["inputSchema"]["properties"].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), ["name", "email"]);
        // Hosts may refuse arguments without a type.
        assert!(properties.values().all(|key| key["anyOf"].is_array()), "{properties:?}");
        assert_eq!(wizard["inputSchema"].get("required"), None);
        if revision.features().structured_content {
            assert_eq!(wizard["_meta"]["interactive"], true);
        }
        let reply = peer.call_tool("wizard", json!({"name": "Ada"})).await;
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("`email`") && text.contains("Enter email"), "{text}");
        let missing = &reply["result"]["_meta"]["error"]["data"]["missing"];
        assert_eq!((missing.as_array().unwrap().len(), &missing[0]["key"]), (1, &json!("email")));
        // Without any arguments, all possible keys are named at once.
        let reply = peer.call_tool("wizard", json!({})).await;
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("`name`") && text.contains("`email`"), "{text}");
        let data = &reply["result"]["_meta"]["error"]["data"];
        assert_eq!((&data["domain"], &data["name"]), (&json!("mcp"), &json!("INPUT_REQUIRED")));
        let missing = data["missing"].as_array().unwrap();
        let keys: Vec<_> = missing.iter().map(|one| one["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["name", "email"]);
        assert_eq!(missing[0]["prompt"]["message"], "Enter name");
        assert!(missing[1]["schema"].is_object() && data["example"]["email"].is_string());
        let all = json!({"name": "Ada", "email": "ada@example.com"});
        let reply = peer.call_tool("wizard", all.clone()).await;
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), all);
        // C-31: they are arguments, and are validated like those of any tool.
        let reply = peer.call_tool("wizard", json!({"name": "Ada", "email": "x"})).await;
        let error = match revision.features().argument_faults_as_results {
            true => &reply["result"]["_meta"]["error"],
            false => &reply["error"],
        };
        assert_eq!(error["code"], -32602, "{reply}");
        assert_eq!(error["data"]["violations"][0]["pointer"], "/email", "{reply}");
    }
}

/// C-06: under 2026-07-28 a client without elicitation is told which capability and which answers
/// are missing; with all answers given nothing is.
pub(crate) async fn a_round_without_elicitation_needs_all_answers(connect: &Connect) {
    let mut peer = connect(Fixture::interactive().server).await;
    let call = |arguments: Value| json!({"name": "wizard", "arguments": arguments, "_meta": stateless(json!({}))});
    let reply = peer.call("tools/call", call(json!({"name": "Ada"}))).await;
    let error = &reply["error"];
    assert_eq!(error["code"], -32021, "{reply}");
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
    assert_eq!(error["data"]["missing"][0]["key"], "email", "{reply}");
    assert!(error["data"]["details"].as_str().unwrap().contains("`email`"), "{reply}");
    let all = json!({"name": "Ada", "email": "ada@example.com"});
    let reply = peer.call("tools/call", call(all.clone())).await;
    assert_eq!(reply["result"]["structuredContent"], all, "{reply}");
    let listed = peer.call("interaction.list", json!({"_meta": stateless(json!({}))})).await;
    let sessions = listed["result"]["sessions"].as_array().unwrap();
    assert!(sessions.iter().all(|one| one["state"] != "waiting_user"), "{sessions:?}");
}

/// C-44, C-49, INT-085: a server may have flows without interaction. It then declares no validation
/// rules for clients, and enforces them all the same.
pub(crate) async fn interaction_can_be_disabled(connect: &Connect) {
    let fixture = Fixture::interactive_with(mcp_flow_interaction::InteractionBuilder::disabled);
    let mut peer = connect(fixture.server).await;
    peer.initialize(Revision::V2025_11_25).await;
    let declared = peer.call("capabilities", json!({})).await["result"].clone();
    assert_eq!(
        (&declared["interactive"], &declared["features"]["validation"]),
        (&json!(false), &json!(false))
    );
    let reply = peer.call("interaction.start", json!({"toolName": "wizard"})).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["reason"]),
        (&json!(-32007), &json!("disabled"))
    );
    let reply = peer.call_tool("wizard", json!({"name": "Ada", "email": "nowhere"})).await;
    assert_ne!(reply["result"]["isError"], false, "{reply}");
    let reply = peer.call_tool("wizard", json!({"name": "Ada", "email": "a@b"})).await;
    assert_eq!(reply["result"]["isError"], false, "{reply}");
}

/// C-44, INT-100: with interaction disabled no client is prompted, whatever it supports, and no
/// tool declares that it would.
pub(crate) async fn a_server_with_interaction_disabled_prompts_no_client(connect: &Connect) {
    let fixture = Fixture::interactive_with(mcp_flow_interaction::InteractionBuilder::disabled);
    let mut peer = connect(fixture.server).await;
    peer.initialize_with(Revision::V2025_11_25, json!({"elicitation": {"form": {}}})).await;
    let listed = peer.call("tools/list", json!({})).await["result"]["tools"].clone();
    for tool in listed.as_array().unwrap() {
        assert!(tool["_meta"].get("interactive").is_none(), "{tool}");
    }
    let meta = stateless(json!({"elicitation": {"form": {}}}));
    for meta in [json!({}), stateless(json!({})), meta] {
        let params = json!({"name": "wizard", "arguments": {"name": "Ada"}, "_meta": meta});
        // A request to the client would arrive before the response.
        let id = peer.ask("tools/call", params);
        let reply = peer.find(|message| message["id"] == id || message.get("method").is_some());
        let reply = reply.await;
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        assert_eq!(reply["result"]["_meta"]["error"]["data"]["name"], "INPUT_REQUIRED", "{reply}");
    }
}

fn call(peer: &mut Peer, flow: &str, arguments: Value) -> i64 {
    peer.ask("tools/call", json!({"name": flow, "arguments": arguments}))
}

/// A form with one field, filled in.
fn filled(key: &str, value: Value) -> Value {
    json!({key: {"action": "accept", "content": {key: value}}})
}

/// One round of the wizard, continued from an earlier result.
async fn round(peer: &mut Peer, from: Option<&Value>, responses: Value) -> Value {
    round_of(peer, "wizard", from, responses).await
}

async fn round_of(peer: &mut Peer, flow: &str, from: Option<&Value>, responses: Value) -> Value {
    let meta = stateless(json!({"elicitation": {"form": {}}}));
    let mut params = json!({"name": flow, "arguments": {}, "_meta": meta});
    if let Some(from) = from {
        params["requestState"] = from["requestState"].clone();
    }
    if !responses.is_null() {
        params["inputResponses"] = responses;
    }
    peer.call("tools/call", params).await
}
