//! Flow files in every form of the wire: elicitation, rounds, tasks, `interaction.*`, and on the
//! command line while no server runs. In each, the server is killed after every question.

use std::path::Path;

use mcp_flow::Revision;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::{Peer, stateless_meta};
use serde_json::{Value, json};

use super::{PROGRAM, folder_with, run};

const ORDER: &str = r#"
tools:
- name: order
  description: Orders something
  input: {type: object, properties: {item: {type: string}}, required: [item]}
  flow:
  - ask: {key: count, type: number, message: "How many {{item}}?", integer: true, min: 1}
  - approve: {message: "Order {{count}} {{item}}?"}
  - call: {tool: note, arguments: {text: "{{count}} {{item}}"}, as: noted}
  - return: {ordered: "{{count}}", noted: "{{noted}}"}
- name: order.task
  description: Orders something as a task
  task: always
  flow:
  - call: {tool: order, arguments: {item: pears}, as: order}
  - return: "{{order}}"
- name: note
  description: Notes something
  internal: true
  input: {type: object, properties: {text: {type: string}}}
  run: {program: echo, args: ["noted {{text}}"]}
"#;

/// Starts the server on the store of a folder.
fn start(folder: &Path) -> (Program, Peer) {
    let store = format!("sqlite:{}", folder.join("journal.db").display());
    let tools = folder.join("tools").display().to_string();
    let words = ["stdio", "--no-examples", "--tools", &tools, "--store", &store];
    Program::start(PROGRAM, &words)
}

/// Params of a request of 2026-07-28 with these capabilities of the client.
fn stateless(mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = stateless_meta();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

#[tokio::test]
async fn flow_files_ask_by_elicitation() {
    let folder = folder_with(ORDER);
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let (_program, mut peer) = start(folder.path());
        peer.initialize_with(revision, json!({"elicitation": {}})).await;
        let call = json!({"name": "order", "arguments": {"item": "apples"}});
        let id = peer.ask("tools/call", call);
        for (message, answer) in [
            ("How many apples?", json!({"count": 0})),
            ("How many apples?", json!({"count": 3})),
            ("Order 3 apples?", json!({"approve": true})),
        ] {
            let asked = peer.find(|message| message["method"] == "elicitation/create").await;
            let said = asked["params"]["message"].as_str().unwrap();
            assert!(said.contains(message), "{asked}");
            let result = json!({"action": "accept", "content": answer});
            peer.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
        }
        let ended = peer.reply_to(id).await;
        let expected = json!({"ordered": 3, "noted": "noted 3 apples"});
        assert_eq!(ended["result"]["structuredContent"], expected, "{ended}");
        // Whether a person says no or closes the form: the call has not done what it was for.
        for (answer, text) in [
            (
                json!({"action": "accept", "content": {"approve": false}}),
                "Not approved: Order 3 apples?",
            ),
            (
                json!({"action": "decline"}),
                "The user declined to answer `approve`, and nothing more was done.",
            ),
        ] {
            let call = json!({"name": "order", "arguments": {"item": "apples", "count": 3}});
            let id = peer.ask("tools/call", call);
            let asked = peer.find(|message| message["method"] == "elicitation/create").await;
            peer.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
            let ended = peer.reply_to(id).await;
            assert_eq!(ended["result"]["isError"], true, "{ended}");
            assert_eq!(ended["result"]["content"][0]["text"], text, "{ended}");
        }
    }
}

/// A call that is lost with its server leaves a session, which a person can answer.
#[tokio::test]
async fn a_lost_elicitation_is_answered_on_the_command_line() {
    let folder = folder_with(ORDER);
    let (mut program, mut peer) = start(folder.path());
    peer.initialize_with(Revision::V2025_11_25, json!({"elicitation": {}})).await;
    peer.ask("tools/call", json!({"name": "order", "arguments": {"item": "apples"}}));
    peer.find(|message| message["method"] == "elicitation/create").await;
    program.kill().await;
    let sessions = |words: &[&str]| {
        let words = [&["sessions"], words, &["--store", "sqlite:journal.db"]].concat();
        run(folder.path(), &words)
    };
    let (listed, problem, code) = sessions(&["list", "--format", "json"]);
    assert_eq!(code, Some(0), "{problem}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed["sessions"][0]["sessionId"].as_str().unwrap_or_else(|| panic!("{listed}"));
    let (text, problem, code) = sessions(&["answer", id, "0"]);
    assert_eq!(code, Some(1), "{text} {problem}");
    let (text, problem, code) = sessions(&["answer", id, "3"]);
    assert_eq!(code, Some(0), "{text} {problem}");
    assert_eq!(text, "Accepted. Next: Order 3 apples?\n");
    // The rest needs the tools of the server, with its secrets and its sandbox.
    let (text, problem, code) = sessions(&["answer", id, "yes"]);
    assert_eq!(code, Some(0), "{text} {problem}");
    assert_eq!(text, "Accepted. The session continues when its server runs.\n");
    let (_program, mut peer) = start(folder.path());
    let state = loop {
        let params = stateless(json!({"sessionId": id}), json!({}));
        let polled = peer.call("interaction.continue", params).await;
        match &polled["result"]["next"]["complete"] {
            Value::Null => assert_eq!(polled["result"]["next"]["pending"], true, "{polled}"),
            complete => break complete.clone(),
        }
    };
    assert_eq!(state["result"]["data"]["noted"], "noted 3 apples", "{state}");
}

#[tokio::test]
async fn flow_files_ask_in_rounds_across_kills() {
    let folder = folder_with(ORDER);
    let call = json!({"name": "order", "arguments": {"item": "apples"}});
    let mut params = call.clone();
    for (message, answer) in [
        ("How many apples?", json!({"count": {"action": "accept", "content": {"count": 3}}})),
        ("Order 3 apples?", json!({"approve": {"action": "accept", "content": {"approve": true}}})),
    ] {
        let (mut program, mut peer) = start(folder.path());
        let params_now = stateless(params, json!({"elicitation": {"form": {}}}));
        let asked = peer.call("tools/call", params_now).await;
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{asked}");
        let request = result["inputRequests"].as_object().unwrap().values().next().unwrap();
        assert_eq!(request["params"]["message"], message, "{asked}");
        params = call.clone();
        params["requestState"] = result["requestState"].clone();
        params["inputResponses"] = answer;
        program.kill().await;
    }
    // The last round is lost with the server as well, and repeated.
    for _ in 0..2 {
        let (mut program, mut peer) = start(folder.path());
        let last = stateless(params.clone(), json!({"elicitation": {"form": {}}}));
        let ended = peer.call("tools/call", last).await;
        let expected = json!({"ordered": 3, "noted": "noted 3 apples"});
        assert_eq!(ended["result"]["structuredContent"], expected, "{ended}");
        program.kill().await;
    }
}

/// The task is a flow that calls another, so its questions are those of the inner one.
#[tokio::test]
async fn flow_files_run_as_tasks_across_kills() {
    let folder = folder_with(ORDER);
    let with_tasks = |params: Value| {
        let extensions = json!({"io.modelcontextprotocol/tasks": {}});
        stateless(params, json!({"elicitation": {"form": {}}, "extensions": extensions}))
    };
    let (mut program, mut peer) = start(folder.path());
    let call = with_tasks(json!({"name": "order.task", "arguments": {}}));
    let created = peer.call("tools/call", call).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let id = created["result"]["taskId"].clone();
    let settled = async |peer: &mut Peer, status: &str| loop {
        let task = peer.call("tasks/get", with_tasks(json!({"taskId": id}))).await;
        if task["result"]["status"] == status {
            break task["result"].clone();
        }
        assert_eq!(task["result"]["status"], "working", "{task}");
    };
    for (message, name, answer) in
        [("How many pears?", "count", json!(2)), ("Order 2 pears?", "approve", json!(true))]
    {
        let task = settled(&mut peer, "input_required").await;
        program.kill().await;
        (program, peer) = start(folder.path());
        assert_eq!(settled(&mut peer, "input_required").await, task);
        let (key, request) = task["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["params"]["message"], message, "{task}");
        let properties = &request["params"]["requestedSchema"]["properties"];
        let field = properties.as_object().unwrap().keys().next().unwrap();
        assert!(field.ends_with(name), "{task}");
        let response = json!({"action": "accept", "content": {field: answer}});
        let update = with_tasks(json!({"taskId": id, "inputResponses": {key: response}}));
        let updated = peer.call("tasks/update", update).await;
        assert_eq!(updated["result"], json!({"resultType": "complete"}), "{updated}");
    }
    let task = settled(&mut peer, "completed").await;
    let expected = json!({"ordered": 2, "noted": "noted 2 pears"});
    assert_eq!(task["result"]["structuredContent"], expected, "{task}");
    program.kill().await;
    let (_program, mut peer) = start(folder.path());
    assert_eq!(settled(&mut peer, "completed").await, task);
}
