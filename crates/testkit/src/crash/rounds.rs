//! Sessions by a flow called in rounds over Streamable HTTP (2026-07-28).

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{CrashClient, EntryPrompt, SessionReply};
use crate::http::{Connection, Request};

/// Client that sends each round in a POST of its own, with the request state.
#[derive(Debug)]
pub struct RoundsClient {
    address: SocketAddr,
}

impl CrashClient for RoundsClient {
    async fn connect(addresses: &Value) -> Option<Self> {
        Some(Self { address: super::address(addresses) })
    }

    async fn start(&mut self, flow: &str, params: &Value) -> Option<SessionReply> {
        self.round(json!({"name": flow, "arguments": params})).await
    }

    async fn respond(&mut self, prompt: &EntryPrompt, text: &str) -> Option<SessionReply> {
        let key = format!("entry_{}", prompt.number);
        let mut params = prompt.carried.clone();
        params["inputResponses"] = json!({&key: {"action": "accept", "content": {&key: text}}});
        self.round(params).await
    }

    async fn query(&mut self, prompt: &EntryPrompt) -> Option<SessionReply> {
        self.round(prompt.carried.clone()).await
    }
}

impl RoundsClient {
    async fn round(&mut self, mut params: Value) -> Option<SessionReply> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "survivor", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let reply = self.post(&message).await?;
        let result = &reply["result"];
        if result["resultType"] == "input_required" {
            let mut prompt = result["inputRequests"].as_object().into_iter().flatten();
            let message = prompt.next().map(|(_, request)| &request["params"]["message"]);
            let carried = json!({"name": params["name"], "arguments": params["arguments"],
                "requestState": result["requestState"]});
            return Some(SessionReply::Prompt(EntryPrompt::read(
                message.unwrap_or(&Value::Null),
                carried,
            )));
        }
        assert_eq!(result["isError"], false, "{reply}");
        Some(SessionReply::Ended(result["structuredContent"].clone()))
    }

    /// Sends a message; `None` if the program is killed before its reply is complete.
    async fn post(&self, message: &Value) -> Option<Value> {
        let request = Request::post("/mcp", message)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", message["params"]["name"].as_str()?);
        let stream = TcpStream::connect(self.address).await.ok()?;
        let mut connection = Connection::over(stream);
        connection.write(&request.bytes()).await;
        let mut response = connection.try_response().await?;
        if response.header("content-type") == Some("text/event-stream") {
            return response.message().await;
        }
        let status = response.status;
        assert_eq!(status, 200, "{}", response.text().await);
        // An incomplete reply counts as none.
        serde_json::from_slice(&response.bytes().await).ok()
    }
}
