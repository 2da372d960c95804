//! Calls that continue as tasks (`io.modelcontextprotocol/tasks`).

use mcp_flow_testkit::{Peer, stateless_meta};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

use super::Connect;

/// A call returns a task at once; it is polled until it has the result of the call, and answers to
/// `tasks/*` have no other members than they should.
pub(crate) async fn a_long_call_continues_as_a_task(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut peer = connect(fixture.server.clone()).await;
    let declared = peer.call("server/discover", json!({"_meta": stateless_meta()})).await;
    let extensions = &declared["result"]["capabilities"]["extensions"];
    assert_eq!(extensions["io.modelcontextprotocol/tasks"], json!({}), "{declared}");
    let created = call(&mut peer, "job").await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    for member in ["requestState", "result", "error", "inputRequests", "task"] {
        assert_eq!(created.get(member), None, "{created}");
    }
    let (id, created_at) = (&created["taskId"], &created["createdAt"]);
    fixture.gate.until_waiting(1).await;
    let working = get(&mut peer, id).await;
    assert_eq!(
        (&working["resultType"], &working["status"]),
        (&json!("complete"), &json!("working"))
    );
    assert_eq!((&working["taskId"], &working["createdAt"]), (id, created_at));
    fixture.gate.release_one();
    let done = until(&mut peer, id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    assert_eq!((&done["createdAt"], done["ttlMs"].is_u64()), (created_at, true), "{done}");
    // Cancelling what has ended is acknowledged and changes nothing.
    assert_eq!(
        request(&mut peer, "tasks/cancel", id).await["result"],
        json!({"resultType": "complete"})
    );
    assert_eq!(get(&mut peer, id).await, done);
    for removed in ["tasks/result", "tasks/list"] {
        assert_eq!(request(&mut peer, removed, id).await["error"]["code"], -32601);
    }
}

/// A task ends as its call would have: with a result, an error of the protocol, or cancelled.
pub(crate) async fn tasks_end_in_every_way(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut peer = connect(fixture.server.clone()).await;
    let broken = call(&mut peer, "broken_job").await["taskId"].clone();
    let failed = until(&mut peer, &broken, "failed").await;
    assert_eq!(
        (&failed["error"]["code"], failed.get("result")),
        (&json!(-32603), None),
        "{failed}"
    );
    assert!(!failed.to_string().contains("secret"), "{failed}");
    let job = call(&mut peer, "job").await["taskId"].clone();
    fixture.gate.until_waiting(1).await;
    let acknowledged = request(&mut peer, "tasks/cancel", &job).await;
    assert_eq!(acknowledged["result"], json!({"resultType": "complete"}));
    let cancelled = until(&mut peer, &job, "cancelled").await;
    assert_eq!((cancelled.get("result"), cancelled.get("error")), (None, None), "{cancelled}");
    fixture.gate.until_waiting(0).await;
    // A declined question ends the call with a result, as in rounds.
    let pair = call(&mut peer, "pair").await["taskId"].clone();
    let asking = get(&mut peer, &pair).await;
    let declined = json!({key(&asking, "left"): {"action": "decline"}});
    update(&mut peer, &pair, &declined).await;
    let declined = until(&mut peer, &pair, "completed").await;
    assert_eq!(declined["result"]["isError"], true, "{declined}");
}

/// Several questions are open at once. Each is answered by its key, which is never used again; other
/// keys are ignored.
pub(crate) async fn questions_of_a_task_are_answered_by_key(connect: &Connect) {
    let mut peer = connect(Fixture::interactive().server).await;
    let created = call(&mut peer, "pair").await;
    let id = &created["taskId"];
    let asking = until(&mut peer, id, "input_required").await;
    let (left, right) = (key(&asking, "left"), key(&asking, "right"));
    assert_eq!(asking["inputRequests"].as_object().unwrap().len(), 2, "{asking}");
    let request = &asking["inputRequests"][&left];
    assert_eq!(
        (&request["method"], &request["params"]["message"]),
        (&json!("elicitation/create"), &json!("Left?"))
    );
    for ignored in
        [json!({}), json!({"unknown": {"x": 1}}), json!({"left#9.9": accept("left", "Ada")})]
    {
        update(&mut peer, id, &ignored).await;
        assert_eq!(get(&mut peer, id).await["inputRequests"], asking["inputRequests"]);
    }
    // A malformed answer changes nothing, not even by the valid one beside it.
    let malformed = json!({&left: accept("left", "Ada"), &right: {"action": "perhaps"}});
    let params = json!({"taskId": id, "inputResponses": malformed, "_meta": meta()});
    let refused = peer.call("tasks/update", params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(get(&mut peer, id).await["inputRequests"], asking["inputRequests"]);
    // An invalid answer asks again under another key.
    update(&mut peer, id, &json!({&left: accept("left", "A")})).await;
    let again = get(&mut peer, id).await;
    let other = key(&again, "left");
    assert_ne!(other, left);
    update(&mut peer, id, &json!({&left: accept("left", "Ada")})).await;
    assert_eq!(get(&mut peer, id).await["inputRequests"], again["inputRequests"]);
    // The second is answered first, and no longer asked.
    update(&mut peer, id, &json!({&right: accept("right", 7)})).await;
    let partial = get(&mut peer, id).await;
    assert_eq!(partial["status"], "input_required");
    let keys: Vec<_> = partial["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, [&other]);
    update(&mut peer, id, &json!({&other: accept("left", "Ada"), &right: accept("right", 8)}))
        .await;
    let last = until(&mut peer, id, "input_required").await;
    let sure = key(&last, "sure");
    update(&mut peer, id, &json!({sure: accept("sure", true)})).await;
    let done = until(&mut peer, id, "completed").await;
    let expected = json!({"pair": {"left": "Ada", "right": 7}, "sure": true});
    assert_eq!(done["result"]["structuredContent"], expected, "{done}");
}

/// `subscriptions/listen` announces each change of status with the whole task, and no progress.
pub(crate) async fn changes_of_tasks_are_announced(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut peer = connect(fixture.server.clone()).await;
    let pair = call(&mut peer, "pair").await["taskId"].clone();
    let job = call(&mut peer, "job").await["taskId"].clone();
    fixture.gate.until_waiting(1).await;
    let wanted = json!({"taskIds": [pair, job, pair, "session_unknown"]});
    let listening =
        peer.ask("subscriptions/listen", json!({"_meta": meta(), "notifications": wanted}));
    let subscription = json!({"io.modelcontextprotocol/subscriptionId": listening});
    let begun = peer.next().await;
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    let mut ids = vec![pair.clone(), job.clone()];
    ids.sort_by_key(ToString::to_string);
    assert_eq!(begun["params"], json!({"_meta": subscription, "notifications": {"taskIds": ids}}));
    let announced = async |id: &Value, status: &str, peer: &mut Peer| {
        let found = peer
            .find(|message| {
                message["method"] == "notifications/tasks" && message["params"]["taskId"] == *id
            })
            .await;
        let mut task = found["params"].clone();
        assert_eq!(task.as_object_mut().unwrap().remove("_meta"), Some(subscription.clone()));
        assert_eq!(task["status"], status, "{task}");
        let mut read = get(peer, id).await;
        read.as_object_mut().unwrap().remove("resultType");
        assert_eq!(task, read);
        task
    };
    // What a client may not know yet is announced at once.
    let asking = announced(&pair, "input_required", &mut peer).await;
    fixture.gate.release_one();
    announced(&job, "completed", &mut peer).await;
    let answers = json!({key(&asking, "left"): accept("left", "Ada"), key(&asking, "right"): accept("right", 7)});
    update(&mut peer, &pair, &answers).await;
    request(&mut peer, "tasks/cancel", &pair).await;
    let last = loop {
        let changed = peer.find(|message| message["method"] == "notifications/tasks").await;
        assert_eq!(changed["params"]["taskId"], pair, "{changed}");
        if changed["params"]["status"] != "input_required"
            && changed["params"]["status"] != "working"
        {
            break changed;
        }
    };
    assert_eq!(last["params"]["status"], "cancelled", "{last}");
}

/// Without the capability in the request itself calls are not answered by tasks, and whatever needs
/// them is refused.
pub(crate) async fn tasks_need_the_capability_of_each_request(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut peer = connect(fixture.server.clone()).await;
    let id = call(&mut peer, "job").await["taskId"].clone();
    fixture.gate.until_waiting(1).await;
    let plain = stateless_meta();
    let listen = json!({"_meta": plain, "notifications": {"taskIds": []}});
    let needs = json!({"_meta": plain, "name": "needs_tasks", "arguments": {"name": "Ada"}});
    let one = json!({"_meta": plain, "taskId": id, "inputResponses": {}});
    for (method, params) in [
        ("tasks/get", one.clone()),
        ("tasks/update", one.clone()),
        ("tasks/cancel", one),
        ("subscriptions/listen", listen),
        ("tools/call", needs),
    ] {
        let refused = peer.call(method, params).await;
        assert_eq!(refused["error"]["code"], -32021, "{method}: {refused}");
        let required = &refused["error"]["data"]["requiredCapabilities"];
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(*required, tasks, "{method}: {refused}");
    }
    assert_eq!(get(&mut peer, &id).await["status"], "working");
    fixture.gate.release_one();
    until(&mut peer, &id, "completed").await;
    let waiting = peer.ask("tools/call", json!({"_meta": plain, "name": "job"}));
    fixture.gate.until_waiting(1).await;
    fixture.gate.release_one();
    let plainly = peer.reply_to(waiting).await;
    assert_eq!(plainly["result"]["resultType"], "complete", "{plainly}");
    assert_eq!(plainly["result"]["content"][0]["text"], "done");
    // A call that may become a task and ends at once is answered at once.
    let params = json!({"_meta": meta(), "name": "simple", "arguments": {"name": "Ada"}});
    let quick = peer.call("tools/call", params).await;
    assert_eq!(quick["result"]["resultType"], "complete", "{quick}");
}

/// `_meta` of a client with tasks and forms.
fn meta() -> Value {
    let mut meta = stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}}});
    meta
}

async fn call(peer: &mut Peer, tool: &str) -> Value {
    let params = json!({"_meta": meta(), "name": tool, "arguments": {}});
    let reply = peer.call("tools/call", params).await;
    assert_eq!(reply["result"]["resultType"], "task", "{reply}");
    reply["result"].clone()
}

async fn request(peer: &mut Peer, method: &str, id: &Value) -> Value {
    peer.call(method, json!({"_meta": meta(), "taskId": id})).await
}

async fn get(peer: &mut Peer, id: &Value) -> Value {
    let reply = request(peer, "tasks/get", id).await;
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    reply["result"].clone()
}

/// Polls until a task has this status.
async fn until(peer: &mut Peer, id: &Value, status: &str) -> Value {
    for _ in 0..6_000 {
        let task = get(peer, id).await;
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the task never was {status}");
}

async fn update(peer: &mut Peer, id: &Value, responses: &Value) {
    let params = json!({"_meta": meta(), "taskId": id, "inputResponses": responses});
    let reply = peer.call("tasks/update", params).await;
    assert_eq!(reply["result"], json!({"resultType": "complete"}), "{reply}");
}

/// Returns the key under which a question is open.
fn key(task: &Value, name: &str) -> String {
    let open = task["inputRequests"].as_object().expect("the task asks");
    let is_it = |key: &&String| key.starts_with(&format!("{name}#"));
    open.keys().find(is_it).expect("the question is open").clone()
}

fn accept(name: &str, value: impl Into<Value>) -> Value {
    json!({"action": "accept", "content": {name: value.into()}})
}
