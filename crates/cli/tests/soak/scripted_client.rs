//! Scripted client that sees every message: each request has exactly one reply, with the expected
//! result.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use mcp_flow::Revision;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::{Peer, lines, sse, streamable, websocket};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::soak::assignment::{Assignment, Transport};
use crate::soak::client::StopSignal;
use crate::soak::counts::Counts;
use crate::soak::server::{IDLE, PROGRAM};
use crate::support::control_stream;

pub(crate) async fn run(assignment: &Assignment, stop: StopSignal) {
    let mut random = fastrand::Rng::with_seed(assignment.seed);
    let (mut peer, _program) = connect(assignment).await;
    let stateless = assignment.kind.transport == Transport::Stateless;
    if !stateless {
        peer.initialize(Revision::V2025_11_25).await;
    }
    let mut client = ScriptedClient { peer, stateless, last: u64::from(assignment.number) << 24 };
    let mut counts = Counts::default();
    while !stop.is_set() {
        client.burst(&mut random, &mut counts).await;
        counts.report();
    }
}

async fn connect(assignment: &Assignment) -> (Peer, Option<Program>) {
    let endpoints = &assignment.endpoints;
    let port = |name: &str| -> SocketAddr {
        let endpoint = endpoints[name].as_str().unwrap();
        endpoint.split('/').nth(2).unwrap_or(endpoint).parse().unwrap()
    };
    let end = std::future::pending();
    let peer = match assignment.kind.transport {
        Transport::Stdio => {
            let arguments = ["stdio", "--diagnostics", "--store", "memory:"];
            let (program, peer) = Program::start(PROGRAM, &arguments);
            return (peer, Some(program));
        }
        Transport::Tcp => {
            let (reader, writer) = TcpStream::connect(port("tcp")).await.unwrap().into_split();
            lines::connect(reader, writer, ())
        }
        Transport::Stateless | Transport::Session => streamable::connect(port("mcp"), end),
        Transport::Legacy => sse::connect(port("sse"), end).await,
        Transport::WebSocket => websocket::connect(port("websocket"), end).await,
        Transport::WebTransport => {
            let mut settings = control_stream::settings(endpoints);
            settings.idle_timeout = IDLE;
            // Without datagrams, progress is sent on the control stream, where this client reads
            // it.
            settings.datagrams = false;
            control_stream::peer(endpoints, settings).await.unwrap()
        }
    };
    (peer, None)
}

struct ScriptedClient {
    peer: Peer,
    /// True if every request carries its revision.
    stateless: bool,
    /// The last value used; each is used once.
    last: u64,
}

/// The expected reply to a request.
#[derive(Debug)]
enum Expected {
    /// A result with this text.
    Text(String),
    /// An error that it was cancelled.
    Cancelled,
}

impl ScriptedClient {
    /// Sends concurrent requests, cancels some, and checks the replies.
    async fn burst(&mut self, random: &mut fastrand::Rng, counts: &mut Counts) {
        let (mut expected, mut slow) = (HashMap::new(), Vec::new());
        for _ in 0..random.usize(1..=24) {
            let (id, reply) = match random.u32(..12) {
                0 => {
                    slow.push(self.sleep_long());
                    continue;
                }
                1 => {
                    let time = random.u32(1..30);
                    let text = format!("slept {time} ms");
                    (self.call("sleep", json!({"ms": time})), Expected::Text(text))
                }
                2 => {
                    self.last += 1;
                    let text = format!("{}, ", self.last).repeat(random.usize(1..20_000));
                    (self.call("echo", json!({"text": text})), Expected::Text(text))
                }
                _ => {
                    self.last += 1;
                    let (a, b) = (self.last, random.u64(..1000));
                    let sum = Expected::Text((a + b).to_string());
                    (self.call("calculator.add", json!({"a": a, "b": b})), sum)
                }
            };
            expected.insert(id, reply);
        }
        for id in slow {
            // A cancellation on another connection may overtake its request until that has started.
            self.peer.find(|message| message["params"]["progressToken"] == id).await;
            if self.cancel(id) {
                expected.insert(id, Expected::Cancelled);
            }
            counts.cancelled += 1;
        }
        // This request is answered after the others were, so that duplicate replies are seen.
        let barrier = self.ask("tools/list", json!({}));
        while !expected.is_empty() {
            let waited = |message: &Value| message["id"].as_i64().filter(|id| *id != barrier);
            let reply = self.peer.find(|message| is_reply(message) && waited(message).is_some());
            let reply = timeout(LIMIT, reply).await;
            let reply = reply.unwrap_or_else(|_| panic!("no reply within {LIMIT:?}: {expected:?}"));
            let id = waited(&reply).unwrap();
            let Some(right) = expected.remove(&id) else {
                panic!("{id} was answered twice, or was not asked: {reply}")
            };
            check(&right, &reply);
            counts.replies += 1;
        }
        let listed = self.peer.reply_to(barrier).await;
        assert!(listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 5));
        counts.replies += 1;
        let doubled: Vec<_> = self.peer.leftovers().into_iter().filter(is_reply).collect();
        assert!(doubled.is_empty(), "answered twice: {doubled:?}");
    }

    /// Calls a tool that runs longer than any client, and waits for its first progress.
    fn sleep_long(&mut self) -> i64 {
        let mut params = json!({"name": "sleep", "arguments": {"ms": LONG.as_millis()}});
        params["_meta"] = if self.stateless { meta() } else { json!({}) };
        self.peer.ask_with_progress("tools/call", params)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> i64 {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn ask(&mut self, method: &str, mut params: Value) -> i64 {
        if self.stateless {
            params["_meta"] = meta();
        }
        self.peer.ask(method, params)
    }

    /// Cancels a request. Returns whether a reply follows: not where cancelling means closing the
    /// stream.
    fn cancel(&mut self, id: i64) -> bool {
        if self.stateless {
            let params = json!({"requestId": id, "_meta": meta()});
            self.peer.notify("notifications/cancelled", params);
            return false;
        }
        self.peer.notify("$/cancel", json!({"requestId": id}));
        true
    }
}

fn check(expected: &Expected, reply: &Value) {
    match expected {
        Expected::Text(text) => {
            let content = &reply["result"]["content"][0]["text"];
            assert!(content == text.as_str(), "{text:.100} is answered {reply:.300}");
        }
        Expected::Cancelled => assert_eq!(reply["error"]["data"]["name"], "CANCELLED", "{reply}"),
    }
}

fn is_reply(message: &Value) -> bool {
    message.get("method").is_none()
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": Revision::V2026_07_28.name(),
        "io.modelcontextprotocol/clientInfo": {"name": "counted", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// The time after which a reply counts as lost.
const LIMIT: Duration = Duration::from_secs(25);

/// Longer than any client lives.
const LONG: Duration = Duration::from_secs(300);
