//! `interaction.*` over a WebSocket, with questions the server sends of its own accord.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use super::{Asked, Heard, Talk};
use crate::peer::Peer;
use crate::websocket;

/// A connection that is sent questions. After a crash it asks by itself what is next.
#[derive(Debug)]
pub struct Pushed {
    peer: Peer,
    /// Whether what is next will be sent.
    expects: bool,
}

impl Talk for Pushed {
    async fn connect(places: &Value) -> Option<Self> {
        let peer = websocket::try_connect(super::address(places), std::future::pending()).await?;
        Self::over(peer).await
    }

    async fn begin(&mut self, flow: &str, params: &Value) -> Option<Heard> {
        let start = json!({"toolName": flow, "initialParams": params});
        let result = self.call("interaction.start", start).await?;
        Some(asked(&result["sessionId"], &result["initialPrompt"]))
    }

    async fn answer(&mut self, asked: &Asked, text: &str) -> Option<Heard> {
        let response = json!({"value": text, "turnId": asked.number - 1});
        let params = json!({"sessionId": asked.carried, "response": response});
        let result = self.call("interaction.respond", params).await?;
        assert_eq!(result["accepted"], true, "{result}");
        self.expects = true;
        Some(Heard::Accepted)
    }

    async fn look(&mut self, asked: &Asked) -> Option<Heard> {
        if std::mem::take(&mut self.expects) { self.sent().await } else { self.poll(asked).await }
    }
}

impl Pushed {
    /// Introduces itself over any connection.
    pub async fn over(mut peer: Peer) -> Option<Self> {
        peer.try_initialize(Revision::V2025_11_25, json!({})).await?;
        Some(Self { peer, expects: false })
    }

    /// The next question or the end, as sent.
    async fn sent(&mut self) -> Option<Heard> {
        loop {
            let request = self.peer.try_find(|message| message.get("method").is_some()).await?;
            let id = &request["id"];
            self.peer.send(json!({"jsonrpc": "2.0", "id": id, "result": {"acknowledged": true}}));
            let params = &request["params"];
            let session = &params["sessionId"];
            match request["method"].as_str() {
                Some("interaction.prompt") => return Some(asked(session, &params["prompt"])),
                // Without a question it tells of progress.
                Some("interaction.continue") if params["nextPrompt"].is_object() => {
                    return Some(asked(session, &params["nextPrompt"]));
                }
                Some("interaction.complete") => return Some(ended(params)),
                _ => {}
            }
        }
    }

    /// The next question or the end, as asked for.
    async fn poll(&mut self, asked_before: &Asked) -> Option<Heard> {
        let session = &asked_before.carried;
        loop {
            let params = json!({"sessionId": session});
            let next = self.call("interaction.continue", params).await?["next"].take();
            if next["complete"].is_object() {
                return Some(ended(&next["complete"]));
            }
            if next["prompt"].is_object() {
                return Some(asked(session, &next["prompt"]));
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

fn asked(session: &Value, prompt: &Value) -> Heard {
    Heard::Asked(Asked::read(&prompt["message"], session.clone()))
}

fn ended(complete: &Value) -> Heard {
    assert_eq!(complete["result"]["success"], true, "{complete}");
    Heard::Ended(complete["result"]["data"].clone())
}
