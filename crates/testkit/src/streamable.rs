//! Peer over Streamable HTTP: every frame is a POST; responses are merged.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;

use crate::http::{Connection, Request, Response};
use crate::peer::Peer;

/// Connects a peer, in a session if it begins with a handshake. `end` is what to do at the end of
/// input, which this transport cannot signal.
pub fn connect(address: SocketAddr, end: impl Future<Output = ()> + Send + 'static) -> Peer {
    let (frames, incoming) = mpsc::unbounded_channel();
    let (outgoing, messages) = mpsc::unbounded_channel();
    let adapter = Adapter { address, outgoing, session: None, alone: HashMap::new() };
    tokio::spawn(async move {
        adapter.run(incoming).await;
        end.await;
    });
    Peer::new(frames, messages)
}

struct Adapter {
    address: SocketAddr,
    outgoing: UnboundedSender<Value>,
    session: Option<Session>,
    /// Stateless requests, cancelled by closing their connection.
    alone: HashMap<String, AbortHandle>,
}

struct Session {
    id: String,
    version: String,
    /// Ends when the server ends the session.
    listening: UnboundedReceiver<()>,
}

impl Adapter {
    async fn run(mut self, mut incoming: UnboundedReceiver<Vec<u8>>) {
        loop {
            let ended = async {
                match &mut self.session {
                    Some(session) => session.listening.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                frame = incoming.recv() => match frame {
                    Some(frame) => self.post(&frame).await,
                    None => break,
                },
                _ = ended => break,
            }
        }
    }

    async fn post(&mut self, frame: &[u8]) {
        let message: Value = serde_json::from_slice(frame).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let version = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let stands_alone = !version.is_null();
        if stands_alone && method == "notifications/cancelled" {
            let id = message["params"]["requestId"].to_string();
            self.alone.remove(&id).expect("what is cancelled runs").abort();
            return;
        }
        let mut request = Request::post("/mcp", "").body(frame);
        if stands_alone {
            let version = version.as_str().unwrap_or("2026-07-28");
            request = request.header("mcp-protocol-version", version).header("mcp-method", method);
            let params = &message["params"];
            if let Some(name) = mirrored_name(params) {
                request = request.header("mcp-name", name);
            }
        } else if let Some(Session { id, version, .. }) = &self.session {
            request = request.header("mcp-session-id", id).header("mcp-protocol-version", version);
        }
        let mut connection = Connection::open(self.address).await;
        connection.write(&request.bytes()).await;
        let is_reply = message.get("result").is_some() || message.get("error").is_some();
        let is_notification = message.get("id").is_none() && !method.is_empty();
        if method == "initialize" && self.session.is_none() && !stands_alone {
            self.begin(connection.response().await).await;
        } else if is_notification || is_reply {
            // The status may be an error; over a pipe there would be no reply.
            connection.response().await;
        } else {
            let outgoing = self.outgoing.clone();
            let reading =
                tokio::spawn(async move { forward(connection.response().await, &outgoing).await });
            // The response to this shows that everything written before was read.
            Request::new("GET", "/healthz").send(self.address).await.text().await;
            if stands_alone {
                self.alone.insert(message["id"].to_string(), reading.abort_handle());
            }
        }
    }

    /// Stores the session id, and opens the stream for server messages.
    async fn begin(&mut self, mut response: Response) {
        let session = response.header("mcp-session-id").map(str::to_owned);
        let reply = response.json().await;
        if let Some(id) = session {
            let version = reply["result"]["protocolVersion"].as_str().unwrap().to_owned();
            let listen = Request::get("/mcp").header("mcp-session-id", &id);
            let events = listen.send(self.address).await;
            assert_eq!(events.status, 200);
            let (ended, listening) = mpsc::unbounded_channel();
            let outgoing = self.outgoing.clone();
            tokio::spawn(async move {
                forward(events, &outgoing).await;
                drop(ended);
            });
            self.session = Some(Session { id, version, listening });
        }
        let _ = self.outgoing.send(reply);
    }
}

/// Forwards a response: one message, events, or nothing.
async fn forward(mut response: Response, outgoing: &UnboundedSender<Value>) {
    match response.header("content-type") {
        Some("text/event-stream") => {
            while let Some(message) = response.message().await {
                let _ = outgoing.send(message);
            }
        }
        Some(_) => {
            let _ = outgoing.send(response.json().await);
        }
        None => assert_eq!(response.status, 202),
    }
}

/// The member that the header `mcp-name` repeats.
fn mirrored_name(params: &Value) -> Option<&str> {
    ["name", "uri", "taskId"].iter().find_map(|member| params[*member].as_str())
}
