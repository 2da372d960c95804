//! MCP sessions of older revisions on several real nodes: forwarded to the node that has them, and
//! adopted when it was killed or drains.

use std::net::SocketAddr;
use std::path::Path;

use mcp_flow_testkit::cluster::ClusterNode;
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::postgres::PostgresServer;
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};

use super::PROGRAM;

/// On one SQLite file.
#[tokio::test]
async fn sessions_move_between_processes_that_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    sessions_move(folder.path(), "sqlite:journal.db").await;
}

/// On one PostgreSQL server.
#[tokio::test]
async fn sessions_move_between_nodes_that_share_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let url = PostgresServer::shared().create_database();
    sessions_move(folder.path(), &url).await;
}

async fn sessions_move(folder: &Path, store: &str) {
    let start = async || ClusterNode::start(Path::new(PROGRAM), folder, store).await;
    let (mut first, mut second) = (start().await, start().await);
    let session = open(first.address()).await;
    for node in [&first, &second] {
        assert_eq!(echo(node.address(), &session).await, "hello");
    }
    // A call of the first node through the second, and one of the first node alone.
    let mut relayed = send(second.address(), &session, sleep(7)).await;
    let mut direct = send(first.address(), &session, sleep(8)).await;
    let resumed = direct.raw_event().await.unwrap().id.unwrap();
    for stream in [&mut relayed, &mut direct] {
        let progress = within("progress", stream.message()).await.unwrap();
        assert_eq!(progress["method"], "notifications/progress");
    }
    first.kill().await;
    let error = loop {
        let message = within("a reply in place of the dead node's", relayed.message()).await;
        let message = message.expect("the call is answered");
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!((&error["id"], &error["error"]["data"]["reason"]), (&json!(7), &json!("node")));
    // The second node adopts the session, with its open call.
    assert_eq!(echo(second.address(), &session).await, "hello");
    let resume = Request::get("/mcp").header("mcp-session-id", &session);
    let resume = resume.header("last-event-id", &resumed);
    let error = within("a stream", resume.send(second.address())).await.message().await.unwrap();
    assert_eq!((&error["id"], &error["error"]["data"]["reason"]), (&json!(8), &json!("node")));
    // A node that drains leaves the session to the others.
    let third = start().await;
    assert_eq!(echo(third.address(), &session).await, "hello");
    second.terminate().await;
    assert_eq!(echo(third.address(), &session).await, "hello");
    let forged = message(&session, call(1, "echo", json!({"text": "x"})));
    let forged = forged.header("mcp-flow-node", &"A".repeat(200));
    assert_eq!(within("a refusal", forged.send(third.address())).await.status, 403);
    let end = Request::new("DELETE", "/mcp").header("mcp-session-id", &session);
    assert_eq!(within("the end", end.send(third.address())).await.status, 204);
    let gone = send(third.address(), &session, call(1, "echo", json!({"text": "x"}))).await;
    assert_eq!(gone.status, 404);
}

/// Opens a session of 2025-11-25.
async fn open(address: SocketAddr) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    }});
    let opened = within("a session", Request::post("/mcp", hello).send(address)).await;
    let session = opened.header("mcp-session-id").expect("a session has an id").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(address, &session, ready).await.status, 202);
    session
}

async fn echo(address: SocketAddr, session: &str) -> String {
    let call = call(1, "echo", json!({"text": "hello"}));
    let answered = async {
        loop {
            let mut reply = send(address, session, call.clone()).await;
            // A node that was not scheduled for a second does not rely on its lease.
            if reply.status != 503 || reply.header("retry-after").is_none() {
                return reply.json().await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let reply = within("a node to answer", answered).await;
    let text = reply["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{reply}")).to_owned()
}

/// A call that reports progress, and takes longer than the test.
fn sleep(id: u64) -> Value {
    let mut call = call(id, "sleep", json!({"ms": 600_000}));
    call["params"]["_meta"] = json!({"progressToken": id});
    call
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

fn message(session: &str, message: Value) -> Request {
    Request::post("/mcp", message).header("mcp-session-id", session)
}

async fn send(address: SocketAddr, session: &str, what: Value) -> mcp_flow_testkit::http::Response {
    within("a response", message(session, what).send(address)).await
}
