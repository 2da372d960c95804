//! Tasks: their ids, their lifetime, and what becomes of them when the process ends.
//! The scenarios of `testkit-scenarios` check the methods over every transport.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::{Interaction, OfferedFlow, TaskMode};
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_server::{ConnectionInfo, Permissions, Principal, Server};
use mcp_flow_session::question::{integer, text};
use mcp_flow_session::{MemoryStore, Store};
use mcp_flow_testkit::{Peer, stateless_meta};
use mcp_flow_testkit_fixture::{Fixture, memory};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::sessions::ManualClock;

/// Foreign, unknown, expired, forbidden, malformed and missing ids lead to one and the same error.
#[tokio::test]
async fn ids_that_name_no_task_cannot_be_told_apart() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let hand = clock.clone();
    let permissions = Permissions::everything();
    let granted = permissions.clone();
    let fixture = Fixture::interactive_as(
        move |flows| flows.engine(|engine| engine.clock(hand)),
        move |server| server.permissions(granted),
    );
    let (mut ada, mut eve) = (connect(&fixture.server, "ada"), connect(&fixture.server, "eve"));
    let pair = call(&mut ada, "pair").await["taskId"].clone();
    let unknown = json!("session_00000000000000000000000000000000");
    let expected = tasks(&mut ada, "tasks/get", &unknown).await["error"].clone();
    assert_eq!(expected["code"], -32602);
    let bad = ["", "x", "session_", "session_zz", "\u{0}", "Session_0", "../../etc/passwd"];
    let long = "a".repeat(100_000);
    let mut ids: Vec<Value> = bad.iter().map(|id| json!(id)).collect();
    ids.extend([json!(long), json!(7), json!(null), json!(["a"]), json!({"id": 1}), json!(true)]);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in &ids {
            assert_eq!(tasks(&mut ada, method, id).await["error"], expected, "{method} {id}");
        }
        assert_eq!(tasks(&mut eve, method, &pair).await["error"], expected, "{method}");
        let missing = json!({"_meta": meta(), "inputResponses": {}});
        assert_eq!(ada.call(method, missing).await["error"], expected, "{method} without an id");
    }
    permissions.replace(&Permissions::new(vec![AccessRule {
        principals: Names::all(),
        tools: Names::all(),
        ..AccessRule::default()
    }]));
    assert_eq!(tasks(&mut ada, "tasks/get", &pair).await["error"], expected, "forbidden");
    permissions.replace(&Permissions::everything());
    let asking = get(&mut ada, &pair).await;
    assert_eq!(asking["status"], "input_required", "nobody has changed the task");
    tasks(&mut ada, "tasks/cancel", &pair).await;
    let ttl = get(&mut ada, &pair).await["ttlMs"].as_u64().unwrap();
    clock.0.store(1_000_000 + ttl, Ordering::Relaxed);
    assert_eq!(tasks(&mut ada, "tasks/get", &pair).await["error"], expected, "expired");
}

/// A task can be read until its TTL is over, even if nobody does for long; an unanswered one expires
/// with a result.
#[tokio::test]
async fn tasks_are_kept_until_their_ttl() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let hand = clock.clone();
    let fixture = Fixture::interactive_with(move |flows| flows.engine(|engine| engine.clock(hand)));
    let mut peer = connect(&fixture.server, "ada");
    let created = call(&mut peer, "job").await;
    assert_eq!(created["createdAt"], "1970-01-01T00:16:40.000Z");
    let job = created["taskId"].clone();
    fixture.gate.until_waiting(1).await;
    clock.forward(60_000);
    fixture.gate.release_one();
    let done = until(&mut peer, &job, |task| task["status"] == "completed").await;
    let ttl = done["ttlMs"].as_u64().unwrap();
    assert!(ttl >= 60_000 + 3_600_000, "a result is kept for an hour: {ttl}");
    assert_eq!(done["lastUpdatedAt"], "1970-01-01T00:17:40.000Z");
    clock.0.store(1_000_000 + ttl - 1, Ordering::Relaxed);
    assert_eq!(get(&mut peer, &job).await, done);
    clock.forward(1);
    assert_eq!(tasks(&mut peer, "tasks/get", &job).await["error"]["code"], -32602);

    let asking = call(&mut peer, "pair").await;
    clock.forward(asking["ttlMs"].as_u64().unwrap());
    let expired = get(&mut peer, &asking["taskId"]).await;
    assert_eq!(
        (&expired["status"], &expired["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
}

/// A subscriber who may no longer use the flow of a task is not notified of it any more.
#[tokio::test]
async fn notifications_end_with_the_permission() {
    let permissions = Permissions::everything();
    let granted = permissions.clone();
    let fixture = Fixture::interactive_as(|flows| flows, move |server| server.permissions(granted));
    let mut peer = connect(&fixture.server, "ada");
    let principal = Principal::named("ada").scoped(["jobs"]);
    let info = ConnectionInfo { principal, ..ConnectionInfo::new("memory") };
    let mut other = memory::connect_with(&fixture.server, info);
    let job = call(&mut peer, "job").await["taskId"].clone();
    fixture.gate.until_waiting(1).await;
    let wanted = json!({"_meta": meta(), "notifications": {"taskIds": [job]}});
    peer.ask("subscriptions/listen", wanted);
    let begun = peer.next().await;
    assert_eq!(begun["params"]["notifications"]["taskIds"], json!([job]), "{begun}");
    permissions.replace(&Permissions::new(vec![AccessRule {
        scopes: vec!["jobs".to_owned()],
        tools: Names::all(),
        ..AccessRule::default()
    }]));
    fixture.gate.release_one();
    until(&mut other, &job, |task| task["status"] == "completed").await;
    let messages = peer.settle().await;
    assert!(messages.is_empty(), "{messages:?}");
}

/// A call of an automatic task is answered if the flow asks or ends soon, and continues as a task in
/// whichever round it works for longer.
#[tokio::test(start_paused = true)]
async fn automatic_tasks_begin_when_the_flow_works_for_long() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture.server, "ada").timeout(Duration::from_secs(3600));
    let thinking = call(&mut peer, "thinks").await;
    assert_eq!(thinking["status"], "working");
    fixture.gate.release_one();
    let asking =
        until(&mut peer, &thinking["taskId"], |task| task["status"] == "input_required").await;
    update(&mut peer, &asking, "name", &json!("Ada")).await;
    let done = until(&mut peer, &thinking["taskId"], |task| task["status"] == "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada", "{done}");

    let first = peer.call("tools/call", json!({"_meta": meta(), "name": "works"})).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let accepted = json!({"first": {"action": "accept", "content": {"first": "one"}}});
    let params = json!({"_meta": meta(), "name": "works", "inputResponses": accepted,
        "requestState": first["result"]["requestState"]});
    let second = peer.call("tools/call", params).await;
    assert_eq!(second["result"]["resultType"], "task", "{second}");
    assert_eq!(second["result"]["statusMessage"], "half way (1 of 2)", "{second}");
    assert_eq!(second["result"].get("requestState"), None);
}

/// A client with tasks and no elicitation answers the questions of the task, whenever they come.
#[tokio::test]
async fn tasks_ask_clients_without_elicitation() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture.server, "ada");
    let mut meta = stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let reply = peer.call("tools/call", json!({"_meta": meta, "name": "wizard"})).await;
    let asking = get(&mut peer, &reply["result"]["taskId"]).await;
    assert_eq!(asking["status"], "input_required", "{reply}");
    update(&mut peer, &asking, "name", &json!("Ada")).await;
    let asking = get(&mut peer, &asking["taskId"]).await;
    update(&mut peer, &asking, "email", &json!("ada@example.com")).await;
    let done = get(&mut peer, &asking["taskId"]).await;
    let expected = json!({"name": "Ada", "email": "ada@example.com"});
    assert_eq!(done["result"]["structuredContent"], expected, "{done}");
}

/// A flow that never becomes a task is answered by its call, though the client supports tasks.
#[tokio::test(start_paused = true)]
async fn flows_without_tasks_answer_their_call() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture.server, "ada").timeout(Duration::from_secs(3600));
    let waiting = peer.ask("tools/call", json!({"_meta": meta(), "name": "plodding"}));
    fixture.gate.until_waiting(1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    fixture.gate.release_one();
    let reply = peer.reply_to(waiting).await;
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    assert_eq!(reply["result"]["content"][0]["text"], "done", "{reply}");
    let without = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut meta = stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = without;
    let params = json!({"_meta": meta, "name": "private"});
    let refused = peer.call("tools/call", params).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

/// A cancel that races with the end of the work leaves either, and is acknowledged.
#[tokio::test]
async fn a_cancel_races_with_completion() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture.server, "ada");
    for round in 0..50 {
        let job = call(&mut peer, "job").await["taskId"].clone();
        fixture.gate.until_waiting(1).await;
        let cancel = peer.ask("tasks/cancel", json!({"_meta": meta(), "taskId": job}));
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        fixture.gate.release_all();
        assert_eq!(peer.reply_to(cancel).await["result"], json!({"resultType": "complete"}));
        let ended = until(&mut peer, &job, |task| {
            task["status"] == "completed" || task["status"] == "cancelled"
        });
        let ended = ended.await;
        fixture.gate.until_waiting(0).await;
        tasks(&mut peer, "tasks/cancel", &job).await;
        assert_eq!(get(&mut peer, &job).await, ended);
    }
}

/// A task is cancelled whatever reason its client gives, also the one of a declined question.
#[tokio::test]
async fn no_reason_makes_a_cancelled_task_completed() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture.server, "ada");
    let id = call(&mut peer, "pair").await["taskId"].clone();
    let reason = "The user declined to answer `left`";
    let params = json!({"_meta": meta(), "sessionId": id, "reason": reason});
    let reply = peer.call("interaction.cancel", params).await;
    assert_eq!(reply["result"]["cancelled"], true, "{reply}");
    let ended = get(&mut peer, &id).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert_eq!(ended["statusMessage"], format!("Cancelled: {reason}"));
}

/// Concurrent answers to one question count once, and none is lost or refused.
#[tokio::test]
async fn concurrent_answers_count_once() {
    for _ in 0..20 {
        let fixture = Fixture::interactive();
        let mut peer = connect(&fixture.server, "ada");
        let id = call(&mut peer, "pair").await["taskId"].clone();
        let asking = get(&mut peer, &id).await;
        let mut asked = Vec::new();
        for number in 1..=8 {
            let responses = json!({
                key(&asking, "left"): accept("left", json!(format!("Ada {number}"))),
                key(&asking, "right"): accept("right", json!(number)),
            });
            let params = json!({"_meta": meta(), "taskId": id, "inputResponses": responses});
            asked.push(peer.ask("tasks/update", params));
        }
        for id in asked {
            assert_eq!(peer.reply_to(id).await["result"], json!({"resultType": "complete"}));
        }
        let last = get(&mut peer, &id).await;
        update(&mut peer, &last, "sure", &json!(false)).await;
        let done = get(&mut peer, &id).await;
        assert_eq!(done["status"], "completed", "{done}");
    }
}

/// Sessions that clients hold are no tasks, and a server without interaction has none.
#[tokio::test]
async fn servers_without_stored_sessions_have_no_tasks() {
    let keys = mcp_flow_seal::KeyRing::new(mcp_flow_seal::Key::from_bytes([7; 32]));
    for fixture in [
        Fixture::interactive_with(|flows| flows.client_held(keys, None)),
        Fixture::interactive_with(mcp_flow_interaction::InteractionBuilder::disabled),
    ] {
        let mut peer = connect(&fixture.server, "ada");
        let declared = peer.call("server/discover", json!({"_meta": meta()})).await;
        let extensions = &declared["result"]["capabilities"]["extensions"];
        assert_eq!(extensions.get("io.modelcontextprotocol/tasks"), None, "{declared}");
        assert_eq!(tasks(&mut peer, "tasks/get", &json!("x")).await["error"]["code"], -32601);
        let params = json!({"_meta": meta(), "name": "needs_tasks", "arguments": {"name": "Ada"}});
        let called = peer.call("tools/call", params).await;
        assert_eq!(called["result"]["isError"], false, "{called}");
    }
}

/// The process ends after every event of a task; the next one gives the same task, and goes on.
#[test]
fn a_task_is_the_same_after_every_event() {
    let store = Arc::new(MemoryStore::new());
    let permits = Arc::new(Semaphore::new(0));
    let answer = |name: &'static str, value: Value| Action::Answer(name, value);
    let actions = [
        Action::Work,
        answer("right", json!(12)),
        answer("right", json!(7)),
        answer("left", json!("Ada")),
        Action::Work,
        answer("last", json!("x")),
        Action::Work,
    ];
    let mut known: Option<Value> = None;
    let mut statuses = Vec::new();
    for action in [None].into_iter().chain(actions.into_iter().map(Some)) {
        // Dropping the runtime stops everything at once, wherever it is.
        let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = saga_server(&store, &permits);
        known = Some(process.block_on(async {
            let mut peer = connect(&server, "ada");
            let Some(before) = &known else {
                let created = call(&mut peer, "saga").await;
                let id = &created["taskId"];
                return until(&mut peer, id, |task| task["statusMessage"] == "1 of 3").await;
            };
            let id = &before["taskId"];
            // A working flow has to reach the same place again.
            let resumed = until(&mut peer, id, |task| task == before).await;
            match action {
                None => return resumed,
                Some(Action::Work) => permits.add_permits(1),
                Some(Action::Answer(name, value)) => {
                    update(&mut peer, &resumed, name, &value).await;
                }
            }
            until(&mut peer, id, |task| task != before && !is_between(task)).await
        }));
        statuses.push(known.as_ref().unwrap()["status"].as_str().unwrap().to_owned());
        process.shutdown_background();
    }
    let waits = "input_required";
    assert_eq!(
        statuses,
        ["working", waits, waits, waits, "working", waits, "working", "completed"]
    );
    let done = known.unwrap();
    assert_eq!(
        done["result"]["structuredContent"],
        json!({"left": "Ada", "right": 7, "last": "x"})
    );
    let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let again = process.block_on(async {
        let mut peer = connect(&saga_server(&store, &permits), "ada");
        get(&mut peer, &done["taskId"]).await
    });
    assert_eq!(again, done);
}

enum Action {
    /// Lets one step finish.
    Work,
    Answer(&'static str, Value),
}

/// Returns whether the flow has finished a step and not yet reported what it does next.
fn is_between(task: &Value) -> bool {
    task["status"] == "working" && task.get("statusMessage").is_none()
}

fn saga_server(store: &Arc<MemoryStore>, permits: &Arc<Semaphore>) -> Server {
    let permits = permits.clone();
    let saga = move |flow: Flow, _: Map<String, Value>| saga(flow, permits.clone());
    let flows = OfferedFlow::new("saga", saga).task(TaskMode::Always);
    let store: Arc<dyn Store> = store.clone();
    let interaction = Interaction::builder().flows(flows).store(store).build();
    let server = Server::builder("saga", "1.0.0");
    interaction.add_to(server).build().unwrap()
}

async fn saga(flow: Flow, permits: Arc<Semaphore>) -> FlowResult<Value> {
    let work = async |number: f64| {
        flow.progress(number, 3.0, None::<String>);
        let permits = permits.clone();
        let work = flow.step("work", || async move {
            permits.acquire_owned().await.map_err(|error| error.to_string())?.forget();
            Ok::<_, String>(())
        });
        work.await
    };
    work(1.0).await?;
    let (left, right) = tokio::join!(
        flow.ask("left", text("Left?")),
        flow.ask("right", integer("Right?").range(1..=9))
    );
    let (left, right) = (left?, right?);
    work(2.0).await?;
    let last = flow.ask("last", text("Last?")).await?;
    work(3.0).await?;
    Ok(json!({"left": left, "right": right, "last": last}))
}

fn connect(server: &Server, name: &str) -> Peer {
    let info =
        ConnectionInfo { principal: Principal::named(name), ..ConnectionInfo::new("memory") };
    memory::connect_with(server, info)
}

fn meta() -> Value {
    let mut meta = stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}}});
    meta
}

async fn call(peer: &mut Peer, tool: &str) -> Value {
    let reply = peer.call("tools/call", json!({"_meta": meta(), "name": tool})).await;
    assert_eq!(reply["result"]["resultType"], "task", "{reply}");
    reply["result"].clone()
}

async fn tasks(peer: &mut Peer, method: &str, id: &Value) -> Value {
    peer.call(method, json!({"_meta": meta(), "taskId": id, "inputResponses": {}})).await
}

async fn get(peer: &mut Peer, id: &Value) -> Value {
    let reply = tasks(peer, "tasks/get", id).await;
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    reply["result"].clone()
}

async fn until(peer: &mut Peer, id: &Value, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut task = get(peer, id).await;
    for _ in 0..6_000 {
        if is_it(&task) {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        task = get(peer, id).await;
    }
    panic!("the task stays {task}");
}

async fn update(peer: &mut Peer, task: &Value, name: &str, value: &Value) {
    let responses = json!({key(task, name): accept(name, value.clone())});
    let params = json!({"_meta": meta(), "taskId": task["taskId"], "inputResponses": responses});
    let reply = peer.call("tasks/update", params).await;
    assert_eq!(reply["result"], json!({"resultType": "complete"}), "{reply}");
}

fn key(task: &Value, name: &str) -> String {
    let open = task["inputRequests"].as_object().unwrap_or_else(|| panic!("{task} asks nothing"));
    let is_it = |key: &&String| key.starts_with(&format!("{name}#"));
    open.keys().find(is_it).unwrap_or_else(|| panic!("{task} does not ask {name}")).clone()
}

fn accept(name: &str, value: Value) -> Value {
    json!({"action": "accept", "content": {name: value}})
}
