//! A scripted server over in-memory pipes.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

type Act = dyn Fn(&Value, &Scripted) + Send + Sync;

/// The server's reaction to each message, and the messages received.
#[derive(Clone)]
pub(crate) struct Script {
    act: Arc<Act>,
    shared: Arc<ClientInner>,
}

#[derive(Default)]
struct ClientInner {
    received: Mutex<Vec<Value>>,
    arrived: Notify,
    connections: Mutex<u32>,
    refusing: Mutex<bool>,
    current: Mutex<Option<Scripted>>,
}

/// The server's end of one connection.
#[derive(Clone)]
pub(crate) struct Scripted {
    lines: mpsc::UnboundedSender<Said>,
    number: u32,
}

enum Said {
    Text(String),
    HangUp,
}

impl Scripted {
    pub(crate) fn send(&self, message: Value) {
        self.send_text(&format!("{message}\n"));
    }

    pub(crate) fn send_text(&self, text: &str) {
        let _ = self.lines.send(Said::Text(text.to_owned()));
    }

    pub(crate) fn send_after(&self, delay: Duration, message: Value) {
        let peer = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            peer.send(message);
        });
    }

    pub(crate) fn hang_up(&self) {
        let _ = self.lines.send(Said::HangUp);
    }

    pub(crate) fn connection(&self) -> u32 {
        self.number
    }
}

/// Accepts `initialize` and rejects `server/discover`.
pub(crate) fn handshake(message: &Value, peer: &Scripted) {
    match message["method"].as_str() {
        Some("initialize") => peer.send(result(
            message,
            json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {},
                "serverInfo": {"name": "scripted", "version": "1"}}),
        )),
        Some("server/discover") => peer.send(json!({"jsonrpc": "2.0", "id": message["id"],
            "error": {"code": -32601, "message": "Method not found"}})),
        _ => {}
    }
}

pub(crate) fn result(message: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

impl Script {
    pub(crate) fn new(act: impl Fn(&Value, &Scripted) + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act), shared: Arc::default() }
    }

    pub(crate) fn connector(&self) -> Reconnecting {
        Reconnecting { script: self.clone(), again: true }
    }

    /// A connector that does not reconnect.
    pub(crate) fn once(&self) -> Reconnecting {
        Reconnecting { script: self.clone(), again: false }
    }

    pub(crate) fn received(&self) -> Vec<Value> {
        self.shared.received.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> u32 {
        *self.shared.connections.lock().unwrap()
    }

    pub(crate) fn refuse_connections(&self) {
        *self.shared.refusing.lock().unwrap() = true;
    }

    pub(crate) fn send(&self, message: Value) {
        self.shared.current.lock().unwrap().as_ref().unwrap().send(message);
    }

    pub(crate) fn hang_up(&self) {
        self.shared.current.lock().unwrap().as_ref().unwrap().hang_up();
    }

    /// Waits for the first message that matches.
    pub(crate) async fn until(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let arrived = self.shared.arrived.notified();
                if let Some(message) = self.received().into_iter().find(&is_it) {
                    return message;
                }
                arrived.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(600), found).await;
        waited.unwrap_or_else(|_| panic!("no such message; received: {:?}", self.received()))
    }
}

pub(crate) struct Reconnecting {
    script: Script,
    again: bool,
}

impl Connector for Reconnecting {
    fn target(&self) -> &str {
        "scripted"
    }

    fn reconnects(&self) -> bool {
        self.again
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let Script { act, shared } = self.script.clone();
            if *shared.refusing.lock().unwrap() {
                let what = "connection refused".to_owned();
                return Err(TransportError::Unreachable { what, source: None });
            }
            let number = {
                let mut connections = shared.connections.lock().unwrap();
                *connections += 1;
                *connections
            };
            let (lines, mut said) = mpsc::unbounded_channel();
            let peer = Scripted { lines, number };
            *shared.current.lock().unwrap() = Some(peer.clone());
            // A real line transport, so that its limits apply.
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(async move {
                use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
                let (reader, mut writer) = tokio::io::split(theirs);
                let mut incoming = tokio::io::BufReader::new(reader).lines();
                loop {
                    tokio::select! {
                        line = incoming.next_line() => {
                            let Ok(Some(line)) = line else { break };
                            let message: Value = serde_json::from_str(&line).unwrap();
                            shared.received.lock().unwrap().push(message.clone());
                            act(&message, &peer);
                            shared.arrived.notify_waiters();
                        }
                        said = said.recv() => match said {
                            Some(Said::Text(text)) => drop(writer.write_all(text.as_bytes()).await),
                            Some(Said::HangUp) | None => break,
                        },
                    }
                }
            });
            let (reader, writer) = tokio::io::split(ours);
            let attached = mcp_flow_stdio::client::attach(reader, writer);
            attached.connect(inbox).await
        })
    }
}
