//! A server on a free port, and a low-level client.

pub(crate) mod bulky;

use std::collections::VecDeque;

use mcp_flow_proto::webtransport::{ClientTransport, DatagramChannel};
use mcp_flow_proto::{Encoding, Raw};
use mcp_flow_server::Server;
use mcp_flow_testkit::wait;
use mcp_flow_tls::Tls;
use mcp_flow_webtransport::client::{
    self, ConnectSettings, IncomingStream, TransportClient, TransportEvent, TransportEvents, Trust,
};
use mcp_flow_webtransport::{Bound, DatagramCounts, Options, bind};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) hash: String,
    pub(crate) port: u16,
    pub(crate) datagrams: DatagramCounts,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

pub(crate) fn start(server: &Server) -> Running {
    start_with(server, |bound| bound)
}

pub(crate) fn start_with(server: &Server, change: impl FnOnce(Bound) -> Bound) -> Running {
    let tls = Tls::self_signed(&[]).unwrap();
    let bound = change(bind("127.0.0.1:0".parse().unwrap(), tls).unwrap());
    let (url, hash, port) = (bound.url(), bound.certificate_fingerprint(), bound.address().port());
    let datagrams = bound.datagram_counts();
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let serving = tokio::spawn(async move {
        bound
            .serve(&server, async {
                let _ = stopped.await;
            })
            .await;
    });
    Running { url, hash, port, datagrams, stop, serving }
}

pub(crate) fn options(change: impl FnOnce(&mut Options)) -> impl FnOnce(Bound) -> Bound {
    let mut options = Options::default();
    change(&mut options);
    |bound| bound.options(options)
}

impl Running {
    pub(crate) fn settings(&self) -> ConnectSettings {
        ConnectSettings::new(Trust::fingerprint(&self.hash).unwrap())
    }

    pub(crate) async fn connect(&self) -> Caller {
        self.connect_with(self.settings()).await
    }

    pub(crate) async fn connect_with(&self, settings: ConnectSettings) -> Caller {
        let (client, events) = client::connect(&self.url, settings).await.unwrap();
        Caller::new(client, events)
    }

    /// Stops the server and waits for it.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        within(self.serving).await.unwrap();
    }
}

/// A low-level client that keeps unmatched events.
pub(crate) struct Caller {
    pub(crate) client: TransportClient,
    pub(crate) events: TransportEvents,
    kept: VecDeque<TransportEvent>,
}

impl Caller {
    pub(crate) fn new(client: TransportClient, events: TransportEvents) -> Self {
        Self { client, events, kept: VecDeque::new() }
    }

    /// Performs the handshake and returns the whole response.
    pub(crate) async fn initialize(&mut self, encodings: &[Encoding]) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1.0"},
            "transport": ClientTransport::new(encodings),
        });
        let reply = self.call(1, "initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        reply
    }

    pub(crate) async fn send(&self, message: Value) {
        let encoded = self.client.encoding().encode(&message).unwrap();
        self.client.send(&encoded).await.unwrap();
    }

    pub(crate) async fn ask(&self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub(crate) async fn call(
        &mut self,
        id: impl Into<Value>,
        method: &str,
        params: Value,
    ) -> Value {
        let id = id.into();
        self.ask(id.clone(), method, params).await;
        self.message(|message| message["id"] == id && message.get("method").is_none()).await
    }

    pub(crate) async fn call_tool(&mut self, id: impl Into<Value>, name: &str) -> Value {
        self.call(id, "tools/call", json!({"name": name, "arguments": {}})).await
    }

    /// Returns the first matching message, kept or new.
    pub(crate) async fn message(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        self.find(|event| match event {
            TransportEvent::Message { encoding, bytes } => {
                let message = decode(&bytes);
                match is_it(&message) {
                    true => Ok(message),
                    false => Err(Box::new(TransportEvent::Message { encoding, bytes })),
                }
            }
            event => Err(Box::new(event)),
        })
        .await
    }

    pub(crate) async fn reply_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.message(|message| message["id"] == id && message.get("method").is_none()).await
    }

    pub(crate) async fn notice(&mut self, method: &str) -> Value {
        self.message(|message| message["method"] == method).await["params"].clone()
    }

    pub(crate) async fn stream(&mut self, request: u32, tag: u32) -> IncomingStream {
        self.find(|event| match event {
            TransportEvent::Stream(stream)
                if (stream.header().request, stream.header().tag) == (request, tag) =>
            {
                Ok(stream)
            }
            event => Err(Box::new(event)),
        })
        .await
    }

    pub(crate) async fn datagram(&mut self) -> (DatagramChannel, u32, Vec<u8>) {
        self.find(|event| match event {
            TransportEvent::Datagram { channel, request, payload } => {
                Ok((channel, request, payload.to_vec()))
            }
            event => Err(Box::new(event)),
        })
        .await
    }

    /// Returns all unmatched events, after a ping has made sure that all have arrived.
    pub(crate) async fn settle(&mut self) -> Vec<TransportEvent> {
        self.call("settle", "ping", json!({})).await;
        self.kept.drain(..).collect()
    }

    /// Waits for the end of the session and returns its code and reason.
    pub(crate) async fn end(&mut self) -> String {
        within(async { while self.events.next().await.is_some() {} }).await;
        within(self.client.closed()).await.to_string()
    }

    async fn find<T>(
        &mut self,
        is_it: impl Fn(TransportEvent) -> Result<T, Box<TransportEvent>>,
    ) -> T {
        for _ in 0..self.kept.len() {
            let event = self.kept.pop_front().unwrap();
            match is_it(event) {
                Ok(found) => return found,
                Err(event) => self.kept.push_back(*event),
            }
        }
        loop {
            let waited = tokio::time::timeout(wait::LIMIT, self.events.next()).await;
            let event =
                waited.unwrap_or_else(|_| panic!("no more events came after {:?}", self.kept));
            let event = event.unwrap_or_else(|| panic!("the session ended; {:?}", self.kept));
            match is_it(event) {
                Ok(found) => return found,
                Err(event) => self.kept.push_back(*event),
            }
        }
    }
}

/// Reads a stream to its end.
pub(crate) async fn read(mut stream: IncomingStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(piece) = within(stream.next()).await.unwrap() {
        all.extend_from_slice(&piece);
    }
    all
}

/// Decodes a message in either encoding.
pub(crate) fn decode(message: &[u8]) -> Value {
    match message.first() {
        Some(b'{' | b'[') => serde_json::from_slice(message).unwrap(),
        _ => Raw::Cbor(message).decode().unwrap(),
    }
}

/// Waits for a future that should complete soon. A timeout reports the caller's location.
#[track_caller]
pub(crate) fn within<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = std::panic::Location::caller();
    wait::within(format!("what should happen at {place}"), future)
}
