//! Scripted client: sends exactly what a test gives it, and returns exactly what arrives.

use std::time::Duration;

use mcp_flow_proto::Revision;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// One end of a connection, driven by a test.
///
/// A transport adapter moves frames between the channels and the wire.
#[derive(Debug)]
pub struct Peer {
    frames: Option<mpsc::UnboundedSender<Vec<u8>>>,
    messages: mpsc::UnboundedReceiver<Value>,
    /// Messages that arrived while waiting for another.
    kept: Vec<Value>,
    last_id: i64,
    timeout: Duration,
}

impl Peer {
    /// Creates a peer from a sender of frames and a receiver of messages.
    pub fn new(
        frames: mpsc::UnboundedSender<Vec<u8>>,
        messages: mpsc::UnboundedReceiver<Value>,
    ) -> Self {
        let timeout = Duration::from_secs(30);
        Self { frames: Some(frames), messages, kept: Vec::new(), last_id: 0, timeout }
    }

    /// Sets how long to wait for a message before the test fails. For tests with a paused clock.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends raw bytes.
    pub fn send_frame(&self, frame: impl Into<Vec<u8>>) {
        let frames = self.frames.as_ref().expect("the peer has not closed its end");
        // A closed connection shows as missing messages.
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

    /// Sends a request with a new id, and returns the id.
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request with a new id, which is its progress token too, and returns the id.
    pub fn ask_with_progress(&mut self, method: &str, mut params: Value) -> i64 {
        params["_meta"]["progressToken"] = (self.last_id + 1).into();
        self.ask(method, params)
    }

    /// Sends a request and waits for its response.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.reply_to(id).await
    }

    /// Like [`call`](Self::call); `None` if the server ends the connection.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Option<Value> {
        let id = Value::from(self.ask(method, params));
        self.try_find(|message| message.get("method").is_none() && message["id"] == id).await
    }

    /// Calls a tool.
    pub async fn call_tool(&mut self, name: &str, arguments: Value) -> Value {
        self.call("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Performs the handshake and returns the server's result.
    pub async fn initialize(&mut self, revision: Revision) -> Value {
        self.initialize_with(revision, json!({})).await
    }

    /// Performs the handshake with client capabilities and returns the server's result.
    pub async fn initialize_with(&mut self, revision: Revision, capabilities: Value) -> Value {
        let initialized = self.try_initialize(revision, capabilities).await;
        initialized.expect("the server ended the connection")
    }

    /// Like [`initialize_with`](Self::initialize_with); `None` if the server ends the connection.
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

    /// Returns the next message of any kind.
    pub async fn next(&mut self) -> Value {
        if !self.kept.is_empty() {
            return self.kept.remove(0);
        }
        self.arriving().await.expect("the server ended the connection")
    }

    /// Returns the response to a request; other messages are kept.
    pub async fn reply_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.find(|message| message.get("method").is_none() && message["id"] == id).await
    }

    /// Returns the first matching message, kept or arriving.
    pub async fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let found = self.try_find(is_it).await;
        found.unwrap_or_else(|| {
            panic!("the server ended the connection; seen so far: {:?}", self.kept)
        })
    }

    /// Like [`find`](Self::find); `None` if the server ends the connection first.
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

    /// Closes the sending half.
    pub fn close(&mut self) {
        self.frames = None;
    }

    /// Returns all messages up to the end of the connection.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut rest = std::mem::take(&mut self.kept);
        while let Some(message) = self.arriving().await {
            rest.push(message);
        }
        rest
    }

    /// Returns all messages that were not waited for, after a ping shows that none is outstanding.
    pub async fn settle(&mut self) -> Vec<Value> {
        self.send(json!({"jsonrpc": "2.0", "id": "settle", "method": "ping"}));
        self.reply_to("settle").await;
        std::mem::take(&mut self.kept)
    }

    /// Returns the messages kept so far.
    pub fn leftovers(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.kept)
    }

    /// Like [`settle`](Self::settle), and whether the connection is still open.
    pub async fn try_settle(&mut self) -> (Vec<Value>, bool) {
        self.last_id += 1;
        let id = Value::from(format!("settle {}", self.last_id));
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let goes_on = self.try_find(|message| message["id"] == id).await.is_some();
        (std::mem::take(&mut self.kept), goes_on)
    }

    async fn arriving(&mut self) -> Option<Value> {
        let waited = tokio::time::timeout(self.timeout, self.messages.recv()).await;
        let arrived = waited.unwrap_or_else(|_| {
            panic!("nothing came for {:?}; seen so far: {:?}", self.timeout, self.kept)
        });
        arrived.inspect(well_formed)
    }
}

/// INT-008: a server sends only JSON-RPC 2.0 messages or batches.
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

/// Returns the `_meta` of a stateless request, without client capabilities.
pub fn stateless_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "scripted-peer", "version": "1.0.0"},
    })
}
