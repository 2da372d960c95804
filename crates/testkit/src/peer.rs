//! A scripted client: sends exactly what it is told, and shows exactly what comes back.

use std::time::Duration;

use mcp_flow_proto::Revision;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// One end of a connection, spoken by hand.
///
/// A transport's adapter moves frames between the channels and the wire.
#[derive(Debug)]
pub struct Peer {
    frames: Option<mpsc::UnboundedSender<Vec<u8>>>,
    messages: mpsc::UnboundedReceiver<Value>,
    /// Messages that came while another was waited for.
    kept: Vec<Value>,
    last_id: i64,
    patience: Duration,
}

impl Peer {
    /// A peer that sends frames into one channel and finds messages in the other.
    pub fn new(
        frames: mpsc::UnboundedSender<Vec<u8>>,
        messages: mpsc::UnboundedReceiver<Value>,
    ) -> Self {
        let patience = Duration::from_secs(30);
        Self { frames: Some(frames), messages, kept: Vec::new(), last_id: 0, patience }
    }

    /// Waits this long for a message before the test fails. For tests with a paused clock.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sends bytes as they are.
    pub fn send_frame(&self, frame: impl Into<Vec<u8>>) {
        let frames = self.frames.as_ref().expect("the peer has not closed its end");
        // A server that has ended reads no more; the test will notice by what does not come.
        let _ = frames.send(frame.into());
    }

    /// Sends a JSON text or value.
    pub fn send(&self, message: impl ToString) {
        self.send_frame(message.to_string());
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request under a fresh id and returns the id.
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request under a fresh id and returns the id, under which progress is told too.
    pub fn ask_with_progress(&mut self, method: &str, mut params: Value) -> i64 {
        params["_meta"]["progressToken"] = (self.last_id + 1).into();
        self.ask(method, params)
    }

    /// Sends a request and waits for its response.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.reply_to(id).await
    }

    /// As [`call`](Self::call); None if the server ends the connection instead.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Option<Value> {
        let id = Value::from(self.ask(method, params));
        self.try_find(|message| message.get("method").is_none() && message["id"] == id).await
    }

    /// Calls a tool.
    pub async fn call_tool(&mut self, name: &str, arguments: Value) -> Value {
        self.call("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Does the handshake and returns the server's result.
    pub async fn initialize(&mut self, revision: Revision) -> Value {
        self.initialize_with(revision, json!({})).await
    }

    /// Does the handshake as a client that can do something, and returns the server's result.
    pub async fn initialize_with(&mut self, revision: Revision, capabilities: Value) -> Value {
        let initialized = self.try_initialize(revision, capabilities).await;
        initialized.expect("the server ended the connection")
    }

    /// As [`initialize_with`](Self::initialize_with); None if the server ends the connection.
    pub async fn try_initialize(
        &mut self,
        revision: Revision,
        capabilities: Value,
    ) -> Option<Value> {
        let client = json!({"name": "scripted-peer", "version": "1.0.0"});
        let params = json!({
            "protocolVersion": revision.name(), "capabilities": capabilities, "clientInfo": client,
        });
        let reply = self.try_call("initialize", params).await?;
        self.notify("notifications/initialized", json!({}));
        Some(reply["result"].clone())
    }

    /// The next message, of whatever kind.
    pub async fn next(&mut self) -> Value {
        if !self.kept.is_empty() {
            return self.kept.remove(0);
        }
        self.arriving().await.expect("the server ended the connection")
    }

    /// The response to a request; what else comes meanwhile is kept for later.
    pub async fn reply_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.find(|message| message.get("method").is_none() && message["id"] == id).await
    }

    /// The first message, kept or coming, that is the one wanted.
    pub async fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let found = self.try_find(is_it).await;
        found.unwrap_or_else(|| {
            panic!("the server ended the connection; seen so far: {:?}", self.kept)
        })
    }

    /// As [`find`](Self::find); None if the server ends the connection first.
    pub async fn try_find(&mut self, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        if let Some(index) = self.kept.iter().position(&is_it) {
            return Some(self.kept.remove(index));
        }
        loop {
            let message = self.arriving().await?;
            if is_it(&message) {
                return Some(message);
            }
            self.kept.push(message);
        }
    }

    /// Says that no more frames will come.
    pub fn close(&mut self) {
        self.frames = None;
    }

    /// Everything up to the end of the connection.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut rest = std::mem::take(&mut self.kept);
        while let Some(message) = self.arriving().await {
            rest.push(message);
        }
        rest
    }

    /// Everything that came and was not asked for, after making sure by a ping that all did.
    pub async fn settle(&mut self) -> Vec<Value> {
        self.send(json!({"jsonrpc": "2.0", "id": "settle", "method": "ping"}));
        self.reply_to("settle").await;
        std::mem::take(&mut self.kept)
    }

    /// Everything that came so far while something else was waited for.
    pub fn leftovers(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.kept)
    }

    /// As [`settle`](Self::settle), and whether the connection goes on.
    pub async fn try_settle(&mut self) -> (Vec<Value>, bool) {
        self.last_id += 1;
        let id = Value::from(format!("settle {}", self.last_id));
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let goes_on = self.try_find(|message| message["id"] == id).await.is_some();
        (std::mem::take(&mut self.kept), goes_on)
    }

    async fn arriving(&mut self) -> Option<Value> {
        let waited = tokio::time::timeout(self.patience, self.messages.recv()).await;
        let arrived = waited.unwrap_or_else(|_| {
            panic!("nothing came for {:?}; seen so far: {:?}", self.patience, self.kept)
        });
        arrived.inspect(well_formed)
    }
}

/// INT-008: whatever a server sends is a message of JSON-RPC 2.0, or several.
fn well_formed(message: &Value) {
    if let Value::Array(messages) = message {
        assert!(!messages.is_empty(), "an empty batch came");
        return messages.iter().for_each(well_formed);
    }
    let has = |name: &str| message.get(name).is_some();
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let kinds = [has("method"), has("result"), has("error")];
    assert_eq!(kinds.iter().filter(|kind| **kind).count(), 1, "{message}");
    assert!(has("id") || has("method"), "a response without id came: {message}");
    assert!(!has("method") || message["method"].is_string(), "{message}");
}
