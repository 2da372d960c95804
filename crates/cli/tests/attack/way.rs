//! The ways in: one connection over each transport, on which anything can be said.

use std::net::SocketAddr;

use mcp_flow::Revision;
use mcp_flow_proto::Encoding;
use mcp_flow_testkit::http::{Request, Response};
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::{Peer, lines, sse, websocket};
use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixStream};

use crate::attack::health::Health;
use crate::attack::target::{PROGRAM, Target};
use crate::attack::webtransport;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "these are their names")]
pub(crate) enum Transport {
    Stdio,
    Tcp,
    Unix,
    /// Streamable HTTP with a handshake and a session.
    Http,
    /// Streamable HTTP of 2026-07-28: every request stands alone.
    Alone,
    Sse,
    WebSocket,
    /// WebTransport, in JSON.
    Flow,
    /// WebTransport, in CBOR as soon as that is agreed on.
    FlowCbor,
}

impl Transport {
    pub(crate) const EVERY: [Self; 9] = [
        Self::Stdio,
        Self::Tcp,
        Self::Unix,
        Self::Http,
        Self::Alone,
        Self::Sse,
        Self::WebSocket,
        Self::Flow,
        Self::FlowCbor,
    ];

    /// Those where it is asked who calls.
    pub(crate) const ASKING: [Self; 6] =
        [Self::Http, Self::Alone, Self::Sse, Self::WebSocket, Self::Flow, Self::FlowCbor];
}

/// One connection.
pub(crate) struct Way<'a> {
    target: &'a Target,
    transport: Transport,
    token: Option<&'a str>,
    kind: Kind,
    asked: usize,
}

enum Kind {
    Peer(Peer),
    /// A peer of a process of its own, and what that held at the start.
    Process(Peer, Box<Program>, Health),
    /// Every message is a request; those of a session say which.
    Post(Option<String>),
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The status of the request, where each message is one.
    pub(crate) status: Option<u16>,
    pub(crate) messages: Vec<Value>,
    /// Whether the connection was closed.
    pub(crate) is_closed: bool,
}

impl Heard {
    /// The code of the first error.
    pub(crate) fn code(&self) -> Option<i64> {
        self.messages.iter().find_map(|message| message["error"]["code"].as_i64())
    }

    /// The name of the first error.
    pub(crate) fn name(&self) -> Option<&str> {
        self.messages.iter().find_map(|message| message["error"]["data"]["name"].as_str())
    }
}

impl<'a> Way<'a> {
    /// Opens one as a good client does, handshake and all.
    pub(crate) async fn open(target: &'a Target, transport: Transport) -> Self {
        Self::open_as(target, transport, target.token()).await
    }

    /// The same with a token that says who is calling.
    pub(crate) async fn open_as(
        target: &'a Target,
        transport: Transport,
        token: Option<&'a str>,
    ) -> Self {
        let kind = match transport {
            Transport::Alone => Kind::Post(None),
            Transport::Http => Kind::Post(Some(begin(target.address, token).await)),
            Transport::Stdio => {
                let root = target.root();
                let arguments =
                    ["stdio", "--diagnostics", "--ledger", "--store", "memory:", "--root"];
                let arguments = [&arguments[..], &[root.to_str().unwrap()]].concat();
                let (program, mut peer) = Program::start(PROGRAM, &arguments);
                peer.initialize(Revision::V2025_11_25).await;
                // What watches files is made on first use, and stays.
                let watched = json!({"uri": format!("file://{}/a.txt", root.display())});
                peer.call("resources/subscribe", watched.clone()).await;
                peer.call("resources/unsubscribe", watched).await;
                let before = Health::settled(program.id()).await;
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

    /// A request as it is written here.
    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Value {
        if self.transport == Transport::Alone && params.is_object() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"elicitation": {}});
        }
        json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
    }

    /// Asks for something, and says what came back.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Heard {
        self.asked += 1;
        let id = format!("asked {}", self.asked);
        let request = self.request(id.as_str(), method, params).to_string();
        self.ask_written(&request, &id.into()).await
    }

    /// Sends a request as it is written, and says what came back under its id.
    pub(crate) async fn ask_written(&mut self, request: &str, id: &Value) -> Heard {
        let peer = match &mut self.kind {
            Kind::Post(_) => return self.say(request.as_bytes()).await,
            Kind::Peer(peer) | Kind::Process(peer, ..) => peer,
        };
        peer.send(request);
        // Others may overtake it, the answer to a ping as well.
        let is_reply = |message: &Value| message["id"] == *id && message.get("method").is_none();
        let reply = peer.try_find(is_reply).await;
        Heard { status: None, is_closed: reply.is_none(), messages: reply.into_iter().collect() }
    }

    /// Sends bytes as one frame, and says what came back before the answer to a good request behind
    /// it. A connection that is closed is opened again.
    pub(crate) async fn say(&mut self, frame: &[u8]) -> Heard {
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
        Heard { status: None, messages, is_closed: !goes_on }
    }

    /// Ends it; a process of its own holds no more than at the start.
    pub(crate) async fn finish(self) {
        let Kind::Process(_peer, program, before) = self.kind else { return };
        let after = Health::settled(program.id()).await;
        let handles = Health::handles(program.id());
        assert!(after.handles <= before.handles, "{before:?} {after:?} {handles:?}");
        assert!(after.memory <= before.memory + 64 * 1024 * 1024, "{before:?} {after:?}");
    }
}

/// A peer that has not said anything yet.
pub(crate) async fn connect(target: &Target, transport: Transport, token: Option<&str>) -> Peer {
    let address = target.address;
    match transport {
        Transport::Tcp => {
            let place: SocketAddr = target.places["tcp"].as_str().unwrap().parse().unwrap();
            let (reader, writer) = TcpStream::connect(place).await.unwrap().into_split();
            lines::connect(reader, writer, ())
        }
        Transport::Unix => {
            let stream = UnixStream::connect(target.socket()).await.unwrap();
            let (reader, writer) = stream.into_split();
            lines::connect(reader, writer, ())
        }
        Transport::Sse => sse::connect_as(address, token, async {}).await,
        Transport::WebSocket => websocket::connect_as(address, token, async {}).await,
        Transport::Flow => webtransport::connect(target, token, Encoding::Json).await,
        Transport::FlowCbor => webtransport::connect(target, token, Encoding::Cbor).await,
        Transport::Stdio | Transport::Http | Transport::Alone => {
            panic!("{transport:?} is no connection of the server's")
        }
    }
}

/// With the token, if there is one.
pub(crate) fn by(token: Option<&str>, request: Request) -> Request {
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

/// Begins a session, and gives its id.
pub(crate) async fn begin(address: SocketAddr, token: Option<&str>) -> String {
    let mut answer = by(token, initialize()).send(address).await;
    let id = answer.header("mcp-session-id").expect("a session has an id").to_owned();
    answer.json().await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ready = Request::post("/mcp", ready).header("mcp-session-id", &id);
    assert_eq!(by(token, ready).send(address).await.status, 202);
    id
}

/// Posts a frame, in a session or standing alone with the headers that go with it.
async fn post(
    address: SocketAddr,
    session: Option<&str>,
    token: Option<&str>,
    frame: &[u8],
) -> Heard {
    let request = by(token, Request::post("/mcp", "").body(frame));
    let request = match session {
        Some(id) => {
            request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25")
        }
        None => mirrored(request, frame),
    };
    heard(request.send(address).await).await
}

/// What the headers of a request that stands alone repeat.
pub(crate) fn mirrored(request: Request, frame: &[u8]) -> Request {
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

/// Everything an answer holds: one message, events, or nothing.
pub(crate) async fn heard(mut response: Response) -> Heard {
    let mut heard = Heard { status: Some(response.status), ..Heard::default() };
    match response.header("content-type") {
        Some("text/event-stream") => {
            while let Some(message) = response.message().await {
                heard.messages.push(message);
            }
        }
        Some("application/json") => heard.messages.push(response.json().await),
        _ => {}
    }
    heard
}
