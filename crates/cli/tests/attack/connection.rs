//! Connections to the target over each transport, for arbitrary frames.

use std::net::SocketAddr;

use mcp_flow::Revision;
use mcp_flow_proto::Encoding;
use mcp_flow_testkit::http::{Request, Response};
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::{Peer, lines, sse, websocket};
use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixStream};

use crate::attack::resource_usage::ResourceUsage;
use crate::attack::target::{PROGRAM, Target};
use crate::attack::webtransport;

/// A transport, with the encoding or revision that distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "these are their names")]
pub(crate) enum Transport {
    Stdio,
    Tcp,
    Unix,
    /// Streamable HTTP with a handshake and a session.
    Http,
    /// Streamable HTTP of 2026-07-28: every request is self-contained.
    Stateless,
    Sse,
    WebSocket,
    /// WebTransport with JSON.
    WebTransport,
    /// WebTransport with CBOR, once negotiated.
    WebTransportCbor,
}

impl Transport {
    pub(crate) const ALL: [Self; 9] = [
        Self::Stdio,
        Self::Tcp,
        Self::Unix,
        Self::Http,
        Self::Stateless,
        Self::Sse,
        Self::WebSocket,
        Self::WebTransport,
        Self::WebTransportCbor,
    ];

    /// The transports that require authentication.
    pub(crate) const AUTHENTICATED: [Self; 6] = [
        Self::Http,
        Self::Stateless,
        Self::Sse,
        Self::WebSocket,
        Self::WebTransport,
        Self::WebTransportCbor,
    ];
}

/// A connection over one transport.
pub(crate) struct TestConnection<'a> {
    target: &'a Target,
    transport: Transport,
    token: Option<&'a str>,
    kind: Kind,
    asked: usize,
}

enum Kind {
    Peer(Peer),
    /// A peer of its own stdio process, with the resource usage of that process at the start.
    Process(Peer, Box<Program>, ResourceUsage),
    /// A POST per message, with the session id if there is a session.
    Post(Option<String>),
}

/// The responses to a frame.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// The HTTP status, where each message is a POST.
    pub(crate) status: Option<u16>,
    pub(crate) messages: Vec<Value>,
    /// True once the server has closed the connection.
    pub(crate) is_closed: bool,
}

impl Received {
    /// The code of the first error.
    pub(crate) fn code(&self) -> Option<i64> {
        self.messages.iter().find_map(|message| message["error"]["code"].as_i64())
    }

    /// The name of the first error.
    pub(crate) fn name(&self) -> Option<&str> {
        self.messages.iter().find_map(|message| message["error"]["data"]["name"].as_str())
    }
}

impl<'a> TestConnection<'a> {
    /// Connects with a handshake and the token of a valid client.
    pub(crate) async fn open(target: &'a Target, transport: Transport) -> Self {
        Self::open_as(target, transport, target.token()).await
    }

    /// Connects with a handshake and the given token.
    pub(crate) async fn open_as(
        target: &'a Target,
        transport: Transport,
        token: Option<&'a str>,
    ) -> Self {
        let kind = match transport {
            Transport::Stateless => Kind::Post(None),
            Transport::Http => Kind::Post(Some(start_session(target.address, token).await)),
            Transport::Stdio => {
                let root = target.root();
                let arguments =
                    ["stdio", "--diagnostics", "--ledger", "--store", "memory:", "--root"];
                let arguments = [&arguments[..], &[root.to_str().unwrap()]].concat();
                let (program, mut peer) = Program::start(PROGRAM, &arguments);
                peer.initialize(Revision::V2025_11_25).await;
                // The file watcher is created on first use, and stays.
                let watched = json!({"uri": format!("file://{}/a.txt", root.display())});
                peer.call("resources/subscribe", watched.clone()).await;
                peer.call("resources/unsubscribe", watched).await;
                let before = ResourceUsage::settled(program.id()).await;
                Kind::Process(peer, Box::new(program), before)
            }
            _ => {
                let mut peer = connect(target, transport, token).await;
                peer.initialize(Revision::V2025_11_25).await;
                Kind::Peer(peer)
            }
        };
        Self { target, transport, token, kind, asked: 0 }
    }

    /// Builds a request for this transport.
    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Value {
        if self.transport == Transport::Stateless && params.is_object() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"elicitation": {}});
        }
        json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
    }

    /// Sends a request, and returns its response.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Received {
        self.asked += 1;
        let id = format!("asked {}", self.asked);
        let request = self.request(id.as_str(), method, params).to_string();
        self.call_raw(&request, &id.into()).await
    }

    /// Sends a request text unchanged, and returns the response with its id.
    pub(crate) async fn call_raw(&mut self, request: &str, id: &Value) -> Received {
        let peer = match &mut self.kind {
            Kind::Post(_) => return self.send_frame(request.as_bytes()).await,
            Kind::Peer(peer) | Kind::Process(peer, ..) => peer,
        };
        peer.send(request);
        // Other messages may precede it, such as the response to a ping.
        let is_reply = |message: &Value| message["id"] == *id && message.get("method").is_none();
        let reply = peer.try_find(is_reply).await;
        Received { status: None, is_closed: reply.is_none(), messages: reply.into_iter().collect() }
    }

    /// Sends bytes as one frame, and returns what arrives before the response to a valid request
    /// behind it. Reconnects if the server closed the connection.
    pub(crate) async fn send_frame(&mut self, frame: &[u8]) -> Received {
        let peer = match &mut self.kind {
            Kind::Post(session) => {
                return post(self.target.address, session.as_deref(), self.token, frame).await;
            }
            Kind::Peer(peer) | Kind::Process(peer, ..) => peer,
        };
        peer.send_frame(frame);
        let (messages, goes_on) = peer.try_settle().await;
        if !goes_on {
            *self = Self::open_as(self.target, self.transport, self.token).await;
        }
        Received { status: None, messages, is_closed: !goes_on }
    }

    /// Ends the connection, and checks that its stdio process released its resources.
    pub(crate) async fn finish(self) {
        let Kind::Process(_peer, program, before) = self.kind else { return };
        let after = ResourceUsage::settled(program.id()).await;
        let handles = ResourceUsage::handles(program.id());
        assert!(after.handles <= before.handles, "{before:?} {after:?} {handles:?}");
        assert!(after.memory <= before.memory + 64 * 1024 * 1024, "{before:?} {after:?}");
    }
}

/// Connects a peer without a handshake.
pub(crate) async fn connect(target: &Target, transport: Transport, token: Option<&str>) -> Peer {
    let address = target.address;
    match transport {
        Transport::Tcp => {
            let endpoint: SocketAddr = target.endpoints["tcp"].as_str().unwrap().parse().unwrap();
            let (reader, writer) = TcpStream::connect(endpoint).await.unwrap().into_split();
            lines::connect(reader, writer, ())
        }
        Transport::Unix => {
            let stream = UnixStream::connect(target.socket()).await.unwrap();
            let (reader, writer) = stream.into_split();
            lines::connect(reader, writer, ())
        }
        Transport::Sse => sse::connect_as(address, token, async {}).await,
        Transport::WebSocket => websocket::connect_as(address, token, async {}).await,
        Transport::WebTransport => webtransport::connect(target, token, Encoding::Json).await,
        Transport::WebTransportCbor => webtransport::connect(target, token, Encoding::Cbor).await,
        Transport::Stdio | Transport::Http | Transport::Stateless => {
            panic!("{transport:?} is no connection of the server's")
        }
    }
}

/// Adds the bearer token, if there is one.
pub(crate) fn with_token(token: Option<&str>, request: Request) -> Request {
    match token {
        Some(token) => request.header("authorization", &format!("Bearer {token}")),
        None => request,
    }
}

pub(crate) fn initialize() -> Request {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "by hand", "version": "1"}});
    Request::post(
        "/mcp",
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    )
}

/// Starts an HTTP session, and returns its id.
pub(crate) async fn start_session(address: SocketAddr, token: Option<&str>) -> String {
    let mut answer = with_token(token, initialize()).send(address).await;
    let id = answer.header("mcp-session-id").expect("a session has an id").to_owned();
    answer.json().await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ready = Request::post("/mcp", ready).header("mcp-session-id", &id);
    assert_eq!(with_token(token, ready).send(address).await.status, 202);
    id
}

/// Posts a frame, in a session or as a stateless request with its headers.
async fn post(
    address: SocketAddr,
    session: Option<&str>,
    token: Option<&str>,
    frame: &[u8],
) -> Received {
    let request = with_token(token, Request::post("/mcp", "").body(frame));
    let request = match session {
        Some(id) => {
            request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25")
        }
        None => with_stateless_headers(request, frame),
    };
    read_messages(request.send(address).await).await
}

/// Adds the headers of a stateless request, which repeat members of the body.
pub(crate) fn with_stateless_headers(request: Request, frame: &[u8]) -> Request {
    let message: Value = serde_json::from_slice(frame).unwrap_or_default();
    let encoded = |text: &str| {
        use base64::Engine;
        format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
    };
    let mut request = request.header("mcp-protocol-version", "2026-07-28");
    if let Some(method) = message["method"].as_str() {
        request = request.header("mcp-method", &encoded(method));
    }
    let params = &message["params"];
    match params["name"].as_str().or_else(|| params["uri"].as_str()) {
        Some(name) => request.header("mcp-name", &encoded(name)),
        None => request,
    }
}

/// Reads all messages of a response: one as JSON, those of an event stream, or none.
pub(crate) async fn read_messages(mut response: Response) -> Received {
    let mut received = Received { status: Some(response.status), ..Received::default() };
    match response.header("content-type") {
        Some("text/event-stream") => {
            while let Some(message) = response.message().await {
                received.messages.push(message);
            }
        }
        Some("application/json") => received.messages.push(response.json().await),
        _ => {}
    }
    received
}
