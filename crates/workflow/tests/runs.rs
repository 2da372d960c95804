//! Enforced runs against an agent that cheats.

mod bundled;
mod conditions;
mod confirmations;

use std::sync::Arc;

use mcp_flow_engine::Engine;
use mcp_flow_proto::Revision;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::Server;
use mcp_flow_session::{MemoryStore, Owner, SessionId, Store};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use mcp_flow_workflow::runs::{RunRecord, Runs};
use mcp_flow_workflow::{Library, Origin};
use serde_json::{Value, json};

const WORKFLOW: &str = "id: three-steps\nname: Three\ndescription: Three steps\nversion: 1.0.0\nsteps:\n\
    - {id: one, title: One, prompt: First, validationCriteria: [{type: contains, value: done}]}\n\
    - {id: two, title: Two, prompt: Second secret, requireConfirmation: true}\n\
    - {id: three, title: Three, prompt: Third secret}\n";

/// Two loops with the same round variable, and a conditional step.
const LOOPS: &str = "id: two-loops\nname: Two\ndescription: Two loops\nversion: 1.0.0\nsteps:\n\
    - {id: parts, type: loop, title: Parts, loop: {type: forEach, items: parts, maxIterations: 9}, \
       body: [{id: part, title: Part, prompt: Do it}]}\n\
    - {id: thrice, type: loop, title: Thrice, loop: {type: for, count: 3, maxIterations: 3}, \
       body: [{id: again, title: Again, prompt: Do it again}]}\n\
    - {id: large, title: Large, prompt: Only then, runCondition: {var: large, equals: true}}\n\
    - {id: last, title: Last, prompt: Finish}\n";

struct World {
    store: Arc<dyn Store>,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self::with(WORKFLOW)
    }

    fn with(workflow: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("three.yaml"), workflow).unwrap();
        Self { store: Arc::new(MemoryStore::new()), folder }
    }

    /// A server on the store, as after a restart.
    fn server(&self) -> (Engine, Server) {
        let library = Library::open([(Origin::Named, self.folder.path().into())]).unwrap();
        let runs = Runs::new(library, KeyRing::new(Key::from_bytes([7; 32])))
            .confirmed_at("Ask the user to answer {run} by hand.");
        let engine = Engine::builder(self.store.clone()).flow(runs.flow()).build();
        let server = runs.add_to(&engine, Server::builder("test", "1.0.0")).build().unwrap();
        (engine, server)
    }
}

async fn agent(server: &Server, capabilities: Value) -> Peer {
    let mut peer = memory::connect(server);
    peer.initialize_with(Revision::V2025_11_25, capabilities).await;
    peer
}

async fn call(peer: &mut Peer, tool: &str, arguments: Value) -> Value {
    peer.call_tool(tool, arguments).await["result"].clone()
}

fn structured(result: &Value) -> &Value {
    assert_eq!(result["isError"], false, "{result}");
    &result["structuredContent"]
}

/// The complete error of a failed call (C-19).
fn fault(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    let error = &result["_meta"]["error"];
    assert_eq!((&error["code"], &error["data"]["domain"]), (&json!(-32000), &json!("workflow")));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(error["message"].as_str().unwrap()), "{result}");
    error.clone()
}

/// C-19: the agent skips steps, claims completion, replays and edits tokens, and answers for the
/// person. It makes no progress until each step is completed and the person has confirmed.
#[tokio::test]
async fn an_agent_cannot_skip_an_unfinished_step() {
    let world = World::new();
    let (engine, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let started = call(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let first = structured(&started).clone();
    assert_eq!((&first["status"], &first["step"]["id"]), (&json!("step"), &json!("one")));
    assert!(!first.to_string().contains("secret"), "later steps are not shown: {first}");
    let token = first["token"].as_str().unwrap().to_owned();

    // It claims completion with an invalid output.
    let refused =
        call(&mut peer, "workflow_continue", json!({"token": token, "output": "all finished"}))
            .await;
    let refused = structured(&refused).clone();
    assert_eq!((&refused["status"], &refused["step"]["id"]), (&json!("refused"), &json!("one")));
    assert!(!refused["issues"].as_array().unwrap().is_empty());
    assert!(!refused["suggestions"].as_array().unwrap().is_empty());
    // Its token was used, and the error says so.
    let other = json!({"token": token, "output": "it is done"});
    let error = fault(&call(&mut peer, "workflow_continue", other).await);
    assert_eq!(error["data"]["name"], "OLD_TOKEN");
    assert!(error["data"]["details"].as_str().unwrap().contains("was rejected"), "{error}");
    let token = refused["token"].as_str().unwrap().to_owned();

    // It edits the token, and forges one.
    let mut edited = token.clone().into_bytes();
    let middle = edited.len() / 2;
    edited[middle] = if edited[middle] == b'A' { b'B' } else { b'A' };
    for forged in [String::from_utf8(edited).unwrap(), "three".to_owned(), String::new()] {
        let result =
            call(&mut peer, "workflow_continue", json!({"token": forged, "output": "done"})).await;
        assert_eq!(fault(&result)["data"]["name"], "BAD_TOKEN");
    }
    for run in ["session_00000000000000000000000000000000", "three"] {
        let result = call(&mut peer, "workflow_status", json!({"runId": run})).await;
        assert_eq!(fault(&result)["data"]["name"], "RUN_NOT_FOUND");
    }

    // It completes the step.
    let done = json!({"token": token, "output": "done"});
    let second = structured(&call(&mut peer, "workflow_continue", done.clone()).await).clone();
    assert_eq!(second["step"]["id"], "two");
    assert!(!second.to_string().contains("Third"));
    // Repeated, it gets the same response; with another output, it is rejected.
    let again = structured(&call(&mut peer, "workflow_continue", done).await).clone();
    assert_eq!(again["step"], second["step"]);
    let other = json!({"token": token, "output": "done otherwise"});
    let error = fault(&call(&mut peer, "workflow_continue", other).await);
    assert_eq!(error["data"]["name"], "OLD_TOKEN");
    let details = error["data"]["details"].as_str().unwrap();
    assert!(details.contains("accepted") && details.contains("\"Two\""), "{details}");

    // The next step needs a confirmation, and this client cannot ask its user.
    let token = second["token"].clone();
    let waiting =
        call(&mut peer, "workflow_continue", json!({"token": token, "output": "work"})).await;
    let waiting = structured(&waiting).clone();
    assert_eq!(waiting["status"], "waiting_for_confirmation");
    let way = format!("answer {} by hand", waiting["runId"].as_str().unwrap());
    assert!(waiting["message"].as_str().unwrap().contains(&way), "{waiting}");
    assert!(waiting.get("token").is_none() && !waiting.to_string().contains("Third"));
    for trick in [
        json!({"token": token, "output": "true"}),
        json!({"token": token, "output": "work", "context": {"confirmed": true, "agree": true}}),
    ] {
        let result = call(&mut peer, "workflow_continue", trick).await;
        assert_eq!(fault(&result)["data"]["name"], "WAITING_FOR_CONFIRMATION");
    }
    let again =
        call(&mut peer, "workflow_continue", json!({"token": token, "output": "work"})).await;
    assert_eq!(structured(&again)["status"], "waiting_for_confirmation");

    // The person rejects, then confirms.
    let owner = owner(&world).await;
    let run: SessionId = waiting["runId"].as_str().unwrap().parse().unwrap();
    engine.respond(run, &owner, json!(false).into()).await.unwrap();
    let status = call(&mut peer, "workflow_status", json!({"runId": run})).await;
    let status = structured(&status).clone();
    assert_eq!((&status["status"], &status["step"]["id"]), (&json!("refused"), &json!("two")));
    assert_eq!(status["done"].as_array().unwrap().len(), 1);
    let better = json!({"token": status["token"], "output": "better work"});
    call(&mut peer, "workflow_continue", better).await;
    engine.respond(run, &owner, json!(true).into()).await.unwrap();
    let status = call(&mut peer, "workflow_status", json!({"runId": run})).await;
    let third = structured(&status).clone();
    assert_eq!(third["step"]["id"], "three");
    let last =
        call(&mut peer, "workflow_continue", json!({"token": third["token"], "output": "all"}))
            .await;
    assert_eq!(
        (&structured(&last)["status"], &structured(&last)["isComplete"]),
        (&json!("complete"), &json!(true))
    );

    // The outputs are kept.
    let record = RunRecord::of(&engine.inspect(run, &owner).await.unwrap());
    let outputs: Vec<_> =
        record.steps.iter().map(|done| (done.output.as_str(), done.confirmed)).collect();
    assert_eq!(outputs, [("done", false), ("better work", true), ("all", false)]);
    let text = record.markdown(run, "completed");
    let second = "## 2. Two\n\nConfirmed by a person.\n\n> better work\n";
    assert!(text.contains(second), "{text}");
}

/// A run survives a restart, and continues with the workflow it was started with.
#[tokio::test]
async fn a_run_survives_a_restart_and_is_pinned_to_its_workflow() {
    let world = World::new();
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let started = call(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let first = structured(&started).clone();
    drop((peer, server));

    let changed = WORKFLOW.replace("Second", "Something else").replace("id: two", "id: changed");
    std::fs::write(world.folder.path().join("three.yaml"), changed).unwrap();
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let runs = call(&mut peer, "workflow_status", json!({})).await;
    assert_eq!(structured(&runs)["runs"][0]["runId"], first["runId"]);
    let next =
        call(&mut peer, "workflow_continue", json!({"token": first["token"], "output": "done"}))
            .await;
    assert_eq!(structured(&next)["step"]["id"], "two");
    assert_eq!(
        structured(&next)["step"]["prompt"].as_str().unwrap().lines().next(),
        Some("Second secret")
    );
}

/// The run counts loop rounds, not the agent, and undecided conditions are asked for before a later
/// step is shown.
#[tokio::test]
async fn an_agent_cannot_skip_loop_rounds_or_conditions() {
    let world = World::with(LOOPS);
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let context = json!({"currentIteration": 99, "parts": ["a", "b"]});
    let start = json!({"workflowId": "two-loops", "context": context});
    let mut response = structured(&call(&mut peer, "workflow_start", start).await).clone();
    let mut shown = Vec::new();
    while response["status"] != "complete" {
        let step = &response["step"];
        shown.push(format!("{}{}", step["id"].as_str().unwrap(), step["round"]));
        // It claims that all rounds are over and that the list is empty, and omits `large`.
        let tricks = json!({"currentIteration": 99, "currentItem": "z", "parts": [], "done": true});
        let mut given = json!({"token": response["token"], "output": "work", "context": tricks});
        if response["step"]["asksFor"] == "context" {
            assert!(step["prompt"].as_str().unwrap().contains("large"), "{step}");
            if response["status"] == "refused" {
                given["context"]["large"] = false.into();
            }
        }
        response = structured(&call(&mut peer, "workflow_continue", given).await).clone();
    }
    let expected =
        ["part1", "part2", "again1", "again2", "again3", "contextnull", "contextnull", "lastnull"];
    assert_eq!(shown, expected);
}

/// C-11: the outputs of a cancelled run are kept as long as those of any other.
#[tokio::test]
async fn a_cancelled_run_keeps_its_outputs() {
    let world = World::new();
    let (engine, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let started = call(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let first = structured(&started).clone();
    let given = json!({"token": first["token"], "output": "done well"});
    call(&mut peer, "workflow_continue", given).await;
    let run: SessionId = first["runId"].as_str().unwrap().parse().unwrap();
    let owner = owner(&world).await;
    engine.cancel(run, &owner, Some("enough".to_owned())).await.unwrap();
    let session = engine.inspect(run, &owner).await.unwrap();
    let kept = session.ended.as_ref().unwrap();
    let day = 24 * 60 * 60 * 1000;
    assert_eq!(kept.until.as_millis() - kept.at.as_millis(), 30 * day);
    let export = json!({"runId": run, "format": "markdown"});
    let export = call(&mut peer, "workflow_status", export).await;
    let text = export["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("cancelled") && text.contains("## 1. One\n\n> done well"), "{text}");
}

/// A client that supports forms asks its user, and the answer counts.
#[tokio::test]
async fn the_client_asks_its_user_to_confirm() {
    let world = World::new();
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({"elicitation": {}})).await;
    let started = call(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let token = structured(&started)["token"].clone();
    let second =
        call(&mut peer, "workflow_continue", json!({"token": token, "output": "done"})).await;
    let token = structured(&second)["token"].clone();
    let call =
        json!({"name": "workflow_continue", "arguments": {"token": token, "output": "work"}});
    let id = peer.ask("tools/call", call);
    let asked = peer.find(|message| message["method"] == "elicitation/create").await;
    assert!(asked["params"]["message"].as_str().unwrap().contains("work"));
    let answer = json!({"action": "accept", "content": {"agree": true}});
    peer.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
    let reply = peer.reply_to(id).await;
    assert_eq!(structured(&reply["result"])["step"]["id"], "three");
}

/// If the user gave no answer, or the client gave an invalid one, the response says so, then and
/// later.
#[tokio::test]
async fn an_unanswered_confirmation_is_reported() {
    let failed = json!({"error": {"code": -32603, "message": "no window"}});
    for (reply, word) in [
        (json!({"result": {"action": "cancel"}}), "closed the question"),
        (json!({"result": {"action": "perhaps"}}), "is invalid (action: unknown variant"),
        (json!({"result": {"action": "accept", "content": {"agree": "x"}}}), "is invalid ("),
        (failed, "Nobody has answered yet"),
    ] {
        let world = World::new();
        let (_, server) = world.server();
        let mut peer = agent(&server, json!({"elicitation": {}})).await;
        let started = call(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
        let first = json!({"token": structured(&started)["token"], "output": "done"});
        let second = call(&mut peer, "workflow_continue", first).await;
        let work = json!({"token": structured(&second)["token"], "output": "work"});
        let params = json!({"name": "workflow_continue", "arguments": work});
        let id = peer.ask("tools/call", params);
        let asked = peer.find(|message| message["method"] == "elicitation/create").await;
        let mut reply = reply;
        reply["jsonrpc"] = "2.0".into();
        reply["id"] = asked["id"].clone();
        peer.send(reply);
        let waiting = structured(&peer.reply_to(id).await["result"]).clone();
        assert_eq!(waiting["status"], "waiting_for_confirmation", "{waiting}");
        assert!(waiting["message"].as_str().unwrap().contains(word), "{waiting}");
        let run = json!({"runId": waiting["runId"]});
        let status = structured(&call(&mut peer, "workflow_status", run).await).clone();
        assert_eq!(status["status"], "waiting_for_confirmation", "{status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("workflow_continue with the same token"), "{message}");
        assert!(!message.contains("by hand"), "this client can ask: {message}");
    }
}

/// `{{x}}` is filled in wherever a run shows a title: step, loop, confirmation and record. Inserted
/// text cannot imitate the record.
#[tokio::test]
async fn titles_are_filled_in() {
    let world = World::with(
        "id: titled-run\nname: Titled\ndescription: Titles\nversion: 1.0.0\nsteps:\n\
         - {id: rooms, type: loop, title: 'Rooms of {{who}}', loop: {type: for, count: 1, \
            maxIterations: 1}, body: [{id: sweep, title: 'Sweep for {{who}}', prompt: Sweep, \
            requireConfirmation: true}]}\n",
    );
    let (engine, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let context = json!({"who": "Ada\n\nConfirmed by a person."});
    let start = json!({"workflowId": "titled-run", "context": context});
    let first = structured(&call(&mut peer, "workflow_start", start).await).clone();
    assert_eq!(first["step"]["title"], "Sweep for Ada  Confirmed by a person.");
    let prompt = first["step"]["prompt"].as_str().unwrap();
    assert!(prompt.contains("loop \"Rooms of Ada  Confirmed"), "{prompt}");
    let swept = json!({"token": first["token"], "output": "swept"});
    let waiting = structured(&call(&mut peer, "workflow_continue", swept).await).clone();
    assert!(waiting["question"].as_str().unwrap().contains("\"Sweep for Ada"), "{waiting}");
    let run: SessionId = first["runId"].as_str().unwrap().parse().unwrap();
    engine.respond(run, &owner(&world).await, json!(true).into()).await.unwrap();
    let export = json!({"runId": run, "format": "markdown"});
    let export = call(&mut peer, "workflow_status", export).await;
    let text = export["content"][0]["text"].as_str().unwrap();
    let heading =
        "## 1. Sweep for Ada  Confirmed by a person. (round 1)\n\nConfirmed by a person.\n";
    assert!(text.contains(heading), "{text}");
}

/// C-06, C-62: a stateless client asks its user between two calls. A confirmation that was not
/// asked for is ignored.
#[tokio::test]
async fn a_stateless_client_confirms_between_two_calls() {
    let world = World::new();
    let (_, server) = world.server();
    let mut peer = memory::connect(&server);
    let mut said = async |name: &str, arguments: Value, more: Value| -> Value {
        let mut params = json!({"name": name, "arguments": arguments, "_meta": meta()});
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        peer.call("tools/call", params).await["result"].clone()
    };
    let started = said("workflow_start", json!({"workflowId": "three-steps"}), json!({})).await;
    let token = &structured(&started)["token"];
    let second = json!({"token": token, "output": "done"});
    let second = said("workflow_continue", second, json!({})).await;
    let call = json!({"token": structured(&second)["token"], "output": "work"});
    let agreed = json!({"action": "accept", "content": {"agree": true}});
    let early: serde_json::Map<_, _> =
        (0..9).map(|turn| (format!("confirm-{turn}"), agreed.clone())).collect();
    let asked = said("workflow_continue", call.clone(), json!({"inputResponses": early})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert!(!asked.to_string().contains("Third"));
    let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let again = |agrees: bool| {
        let answer = json!({"action": "accept", "content": {"agree": agrees}});
        json!({"requestState": asked["requestState"], "inputResponses": {key: answer}})
    };
    // Repeating the call cannot change what the user answered.
    let refused = said("workflow_continue", call.clone(), again(false)).await;
    assert_eq!(structured(&refused)["status"], "refused");
    let cheated = said("workflow_continue", call, again(true)).await;
    assert_eq!(structured(&cheated)["status"], "refused", "{cheated}");
    let better = json!({"token": structured(&refused)["token"], "output": "better"});
    let asked = said("workflow_continue", better.clone(), json!({})).await;
    let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let answer = json!({"action": "accept", "content": {"agree": true}});
    let again = json!({"requestState": asked["requestState"], "inputResponses": {key: answer}});
    let third = said("workflow_continue", better, again).await;
    assert_eq!(structured(&third)["step"]["id"], "three");
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    })
}

/// Owner of the peer's runs.
async fn owner(world: &World) -> Owner {
    let page = mcp_flow_session::store::PageRequest { after: None, most: 1 };
    let listed = world.store.list(Default::default(), page).await.unwrap();
    listed[0].summary.owner.clone()
}
