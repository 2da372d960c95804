//! Calls that continue as tasks on servers that fail now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mcp_flow_client::{Client, Error, ErrorKind};
use serde_json::{Value, json};

use crate::support::{Script, Scripted, result};

/// A stateless server whose call becomes the task `t`; `poll` reacts to each `tasks/get`.
fn server(poll: impl Fn(&Value, &Scripted, u32) + Send + Sync + 'static) -> Script {
    let polls = AtomicU32::new(0);
    Script::new(move |message, peer: &Scripted| match message["method"].as_str() {
        Some("server/discover") => peer.send(result(
            message,
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "resultType": "complete", "serverInfo": {"name": "s", "version": "1"}}),
        )),
        Some("tools/list") => {
            peer.send(result(message, json!({"resultType": "complete", "tools": []})));
        }
        Some("tools/call") => {
            let created = json!({"resultType": "task"});
            peer.send(result(message, task("working", created)));
        }
        Some("tasks/get") => poll(message, peer, polls.fetch_add(1, Ordering::Relaxed)),
        Some("tasks/cancel") => peer.send(result(message, json!({"resultType": "complete"}))),
        _ => {}
    })
}

fn task(status: &str, more: Value) -> Value {
    let mut task = json!({"resultType": "complete", "taskId": "t", "status": status, "ttlMs": null,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z"});
    task.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    task
}

fn error(message: &Value, code: i64, data: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"],
        "error": {"code": code, "message": "no", "data": data}})
}

fn cancels(script: &Script) -> usize {
    script.received().iter().filter(|message| message["method"] == "tasks/cancel").count()
}

/// The result of a task is not lost to a lost connection, a timeout, or a server that is busy.
#[tokio::test(start_paused = true)]
async fn failures_that_pass_do_not_end_the_call() {
    let script = server(|message, peer, poll| match poll {
        0 => peer.send(error(message, -32603, Value::Null)),
        1 => peer.send(error(message, -32000, json!({"name": "RATE_LIMITED", "retryAfterMs": 5}))),
        2 => peer.send(error(message, -32000, json!({"name": "OVERLOADED"}))),
        // No response at all.
        3 => {}
        4 => peer.hang_up(),
        _ => {
            let ended = json!({"result": {"content": [{"type": "text", "text": "done"}]}});
            peer.send(result(message, task("completed", ended)));
        }
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let outcome = client.call_tool("slow", json!({})).await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert_eq!((script.connections(), cancels(&script)), (2, 0));
}

/// A call that cannot be followed any longer leaves its task alone, and names it.
#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_followed_goes_on() {
    let failing = server(|message, peer, _| peer.send(error(message, -32603, Value::Null)));
    let forgetful = server(|message, peer, _| peer.send(error(message, -32602, Value::Null)));
    let endless = server(|message, peer, _| peer.send(result(message, task("working", json!({})))));
    for (script, kind) in [
        (failing, ErrorKind::Protocol),
        (forgetful, ErrorKind::Protocol),
        (endless, ErrorKind::Timeout),
    ] {
        let client = Client::builder().connect(script.connector()).await.unwrap();
        let failed = client.call_tool("slow", json!({})).await.unwrap_err();
        assert!(matches!(&failed, Error::Unfollowed { task, .. } if task == "t"), "{failed:?}");
        assert!(failed.to_string().contains("task t"), "{failed}");
        assert_eq!(failed.kind(), kind);
        client.ping().await.unwrap();
        assert_eq!(cancels(&script), 0);
    }
}

/// Whoever goes away does not want the result: the task is cancelled.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_cancels_its_task() {
    let polled = Arc::new(tokio::sync::Notify::new());
    let seen = polled.clone();
    let script = server(move |message, peer, _| {
        peer.send(result(message, task("working", json!({}))));
        seen.notify_one();
    });
    let client = Client::builder().connect(script.connector()).await.unwrap();
    let call = client.call_tool("slow", json!({})).into_future();
    tokio::select! {
        _ = call => panic!("the task has not ended"),
        () = polled.notified() => {}
    }
    client.ping().await.unwrap();
    assert_eq!(cancels(&script), 1);
}
