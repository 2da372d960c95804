//! A client that sees every message: each request has exactly one reply, and it is the right one.

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
use crate::soak::client::Leave;
use crate::soak::server::{IDLE, PROGRAM};
use crate::soak::tally::Tally;
use crate::support::control_stream;

pub(crate) async fn run(assignment: &Assignment, leave: Leave) {
    let mut random = fastrand::Rng::with_seed(assignment.seed);
    let (mut peer, _program) = connect(assignment).await;
    let stateless = assignment.kind.transport == Transport::Stateless;
    if !stateless {
        peer.initialize(Revision::V2025_11_25).await;
    }
    let mut client = Counted { peer, stateless, last: u64::from(assignment.number) << 24 };
    let mut tally = Tally::default();
    while !leave.is_asked() {
        client.burst(&mut random, &mut tally).await;
        tally.report();
    }
}

async fn connect(assignment: &Assignment) -> (Peer, Option<Program>) {
    let places = &assignment.places;
    let port = |name: &str| -> SocketAddr {
        let place = places[name].as_str().unwrap();
        place.split('/').nth(2).unwrap_or(place).parse().unwrap()
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
            let mut settings = control_stream::settings(places);
            settings.idle_timeout = IDLE;
            // Progress comes on the control stream then, where it is looked for.
            settings.datagrams = false;
            control_stream::peer(places, settings).await.unwrap()
        }
    };
    (peer, None)
}

struct Counted {
    peer: Peer,
    /// Whether every request says for itself what is spoken.
    stateless: bool,
    /// The last number that was used; nobody uses one twice.
    last: u64,
}

/// What the reply to a request must be.
#[derive(Debug)]
enum Expected {
    /// The text of the result.
    Text(String),
    /// That it was cancelled.
    Cancelled,
}

impl Counted {
    /// Sends some requests at once, cancels a few, and takes in the replies.
    async fn burst(&mut self, random: &mut fastrand::Rng, tally: &mut Tally) {
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
            // A cancel that comes by another way may overtake what it is about, unless that has begun.
            self.peer.find(|message| message["params"]["progressToken"] == id).await;
            if self.cancel(id) {
                expected.insert(id, Expected::Cancelled);
            }
            tally.cancelled += 1;
        }
        // What is asked last is answered when the rest was taken up, so that what comes twice is seen.
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
            tally.replies += 1;
        }
        let listed = self.peer.reply_to(barrier).await;
        assert!(listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 5));
        tally.replies += 1;
        let doubled: Vec<_> = self.peer.leftovers().into_iter().filter(is_reply).collect();
        assert!(doubled.is_empty(), "answered twice: {doubled:?}");
    }

    /// Calls what takes longer than any client lives, and tells when it has begun.
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

    /// Takes a request back. Whether that is answered: not where it means to hang up.
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

/// Without a reply for so long, it is lost.
const LIMIT: Duration = Duration::from_secs(25);

/// Longer than any client lives.
const LONG: Duration = Duration::from_secs(300);
