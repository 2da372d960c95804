//! Sessions by tasks over Streamable HTTP (`io.modelcontextprotocol/tasks`).

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{CrashClient, EntryPrompt, SessionReply};
use crate::http::{Connection, Request};

/// Client that polls a task and answers its questions by their keys.
#[derive(Debug)]
pub struct TasksClient {
    address: SocketAddr,
}

impl CrashClient for TasksClient {
    async fn connect(addresses: &Value) -> Option<Self> {
        Some(Self { address: super::address(addresses) })
    }

    async fn start(&mut self, flow: &str, params: &Value) -> Option<SessionReply> {
        let params = json!({"name": flow, "arguments": params});
        let task = self.post("tools/call", flow, params).await?;
        assert_eq!(task["resultType"], "task", "{task}");
        self.poll(&task).await
    }

    async fn respond(&mut self, prompt: &EntryPrompt, text: &str) -> Option<SessionReply> {
        let task = &prompt.carried;
        let content = json!({format!("entry_{}", prompt.number): text});
        let key = task["key"].as_str()?;
        let responses = json!({key: {"action": "accept", "content": content}});
        let params = json!({"taskId": task["taskId"], "inputResponses": responses});
        let acknowledged = self.post("tasks/update", task["taskId"].as_str()?, params).await?;
        assert_eq!(acknowledged, json!({"resultType": "complete"}));
        self.poll(task).await
    }

    async fn query(&mut self, prompt: &EntryPrompt) -> Option<SessionReply> {
        self.poll(&prompt.carried).await
    }
}

impl TasksClient {
    /// Polls until the task asks or has ended. It is the one that was created, whatever happened since.
    async fn poll(&self, known: &Value) -> Option<SessionReply> {
        let id = known["taskId"].as_str()?;
        loop {
            let task = self.post("tasks/get", id, json!({"taskId": id})).await?;
            assert_eq!((&task["taskId"], &task["createdAt"]), (&json!(id), &known["createdAt"]));
            match task["status"].as_str() {
                Some("input_required") => {
                    let open = task["inputRequests"].as_object()?;
                    let (key, request) = open.iter().next().expect("a task that waits asks");
                    let carried = json!({"taskId": id, "createdAt": task["createdAt"], "key": key});
                    let prompt = EntryPrompt::read(&request["params"]["message"], carried);
                    let is_same = known["message"] == request["params"]["message"];
                    assert!(!is_same || known["key"] == *key, "{known} is asked again as {key}");
                    return Some(SessionReply::Prompt(prompt));
                }
                Some("completed") => {
                    assert_eq!(task["result"]["isError"], false, "{task}");
                    return Some(SessionReply::Ended(task["result"]["structuredContent"].clone()));
                }
                _ => assert_eq!(task["status"], "working", "{task}"),
            }
        }
    }

    /// Sends a request; `None` if the program is killed before its reply is complete.
    async fn post(&self, method: &str, name: &str, mut params: Value) -> Option<Value> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "survivor", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}},
                "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = Request::post("/mcp", &message)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name);
        let stream = TcpStream::connect(self.address).await.ok()?;
        let mut connection = Connection::over(stream);
        connection.write(&request.bytes()).await;
        let mut response = connection.try_response().await?;
        let reply: Value = match response.header("content-type") {
            Some("text/event-stream") => response.message().await?,
            // An incomplete reply counts as none.
            _ => serde_json::from_slice(&response.bytes().await).ok()?,
        };
        assert!(reply.get("error").is_none(), "{method} is refused: {reply}");
        Some(reply["result"].clone())
    }
}
