//! A flow called in rounds over Streamable HTTP (2026-07-28).

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Asked, Heard, Talk};
use crate::http::{Connection, Request};

/// Each turn is a POST of its own, and the client carries the state.
#[derive(Debug)]
pub struct Rounds {
    address: SocketAddr,
}

impl Talk for Rounds {
    async fn connect(places: &Value) -> Option<Self> {
        Some(Self { address: super::address(places) })
    }

    async fn begin(&mut self, flow: &str, params: &Value) -> Option<Heard> {
        self.round(json!({"name": flow, "arguments": params})).await
    }

    async fn answer(&mut self, asked: &Asked, text: &str) -> Option<Heard> {
        let key = format!("entry_{}", asked.number);
        let mut params = asked.carried.clone();
        params["inputResponses"] = json!({&key: {"action": "accept", "content": {&key: text}}});
        self.round(params).await
    }

    async fn look(&mut self, asked: &Asked) -> Option<Heard> {
        self.round(asked.carried.clone()).await
    }
}

impl Rounds {
    async fn round(&mut self, mut params: Value) -> Option<Heard> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "survivor", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let reply = self.post(&message).await?;
        let result = &reply["result"];
        if result["resultType"] == "input_required" {
            let mut asked = result["inputRequests"].as_object().into_iter().flatten();
            let message = asked.next().map(|(_, request)| &request["params"]["message"]);
            let carried = json!({"name": params["name"], "arguments": params["arguments"],
                "requestState": result["requestState"]});
            return Some(Heard::Asked(Asked::read(message.unwrap_or(&Value::Null), carried)));
        }
        assert_eq!(result["isError"], false, "{reply}");
        Some(Heard::Ended(result["structuredContent"].clone()))
    }

    /// Sends a message; None if the program is killed before all of its reply is here.
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
        // Half a reply is none.
        serde_json::from_slice(&response.bytes().await).ok()
    }
}
