//! Sessions by `interaction.*` over a WebSocket, with pushed prompts.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::{CrashClient, EntryPrompt, SessionReply};
use crate::peer::Peer;
use crate::websocket;

/// Connection that receives pushed prompts. After a crash it polls.
#[derive(Debug)]
pub struct PushClient {
    peer: Peer,
    /// True if the next prompt will be pushed.
    expects: bool,
}

impl CrashClient for PushClient {
    async fn connect(addresses: &Value) -> Option<Self> {
        let peer =
            websocket::try_connect(super::address(addresses), std::future::pending()).await?;
        Self::over(peer).await
    }

    async fn start(&mut self, flow: &str, params: &Value) -> Option<SessionReply> {
        let start = json!({"toolName": flow, "initialParams": params});
        let result = self.call("interaction.start", start).await?;
        Some(prompt(&result["sessionId"], &result["initialPrompt"]))
    }

    async fn respond(&mut self, prompt: &EntryPrompt, text: &str) -> Option<SessionReply> {
        let response = json!({"value": text, "turnId": prompt.number - 1});
        let params = json!({"sessionId": prompt.carried, "response": response});
        let result = self.call("interaction.respond", params).await?;
        assert_eq!(result["accepted"], true, "{result}");
        self.expects = true;
        Some(SessionReply::Accepted)
    }

    async fn query(&mut self, prompt: &EntryPrompt) -> Option<SessionReply> {
        if std::mem::take(&mut self.expects) { self.sent().await } else { self.poll(prompt).await }
    }
}

impl PushClient {
    /// Performs the handshake over any connection.
    pub async fn over(mut peer: Peer) -> Option<Self> {
        peer.try_initialize(Revision::V2025_11_25, json!({})).await?;
        Some(Self { peer, expects: false })
    }

    /// Waits for the next pushed prompt or completion.
    async fn sent(&mut self) -> Option<SessionReply> {
        loop {
            let request = self.peer.try_find(|message| message.get("method").is_some()).await?;
            let id = &request["id"];
            self.peer.send(json!({"jsonrpc": "2.0", "id": id, "result": {"acknowledged": true}}));
            let params = &request["params"];
            let session = &params["sessionId"];
            match request["method"].as_str() {
                Some("interaction.prompt") => return Some(prompt(session, &params["prompt"])),
                // Without a prompt it reports progress.
                Some("interaction.continue") if params["nextPrompt"].is_object() => {
                    return Some(prompt(session, &params["nextPrompt"]));
                }
                Some("interaction.complete") => return Some(ended(params)),
                _ => {}
            }
        }
    }

    /// Polls for the next prompt or completion.
    async fn poll(&mut self, asked_before: &EntryPrompt) -> Option<SessionReply> {
        let session = &asked_before.carried;
        loop {
            let params = json!({"sessionId": session});
            let next = self.call("interaction.continue", params).await?["next"].take();
            if next["complete"].is_object() {
                return Some(ended(&next["complete"]));
            }
            if next["prompt"].is_object() {
                return Some(prompt(session, &next["prompt"]));
            }
            assert_eq!(next["pending"], true, "{next}");
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Option<Value> {
        let mut reply = self.peer.try_call(method, params).await?;
        assert!(reply.get("error").is_none(), "{method} is refused: {reply}");
        Some(reply["result"].take())
    }
}

fn prompt(session: &Value, prompt: &Value) -> SessionReply {
    SessionReply::Prompt(EntryPrompt::read(&prompt["message"], session.clone()))
}

fn ended(complete: &Value) -> SessionReply {
    assert_eq!(complete["result"]["success"], true, "{complete}");
    SessionReply::Ended(complete["result"]["data"].clone())
}
