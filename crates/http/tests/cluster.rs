//! Several nodes that serve the same sessions: requests are forwarded, sessions of nodes that are
//! gone are adopted.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Running, call, in_session, start_with};
use futures_util::TryStreamExt;
use mcp_flow_http::client::{Fetch, HttpOptions};
use mcp_flow_http::{ClusterFuture, ClusterNodes, NodeRequest, NodeUrl, NotSent, RelayedResponse};
use mcp_flow_identity::StaticTokens;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::{Bulk, Context, Resource, Server, Tool};
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::wait::within;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Holder and value of a record.
type NodeRecord = (u64, Vec<u8>);

/// Nodes and records, as a store would have them.
#[derive(Debug, Default)]
struct Store {
    nodes: BTreeMap<u64, NodeUrl>,
    records: BTreeMap<String, (u64, Vec<u8>)>,
}

/// One node of a cluster in memory.
#[derive(Debug)]
struct TestNode {
    store: Arc<Mutex<Store>>,
    epoch: Mutex<Option<u64>>,
    keys: KeyRing,
    client: Fetch,
}

impl TestNode {
    fn new(store: &Arc<Mutex<Store>>, epoch: u64) -> Arc<Self> {
        let client = Fetch::new(&HttpOptions::default(), 1 << 20, Duration::from_secs(30));
        Arc::new(Self {
            store: Arc::clone(store),
            epoch: Mutex::new(Some(epoch)),
            keys: KeyRing::new(Key::from_bytes([7; 32])),
            client: client.unwrap(),
        })
    }

    /// Lets its lease expire: the others believe that it is gone.
    fn expire(&self) {
        let epoch = self.epoch.lock().take();
        self.store.lock().nodes.remove(&epoch.unwrap());
    }

    /// Joins again, as a node does that finds its lease expired.
    fn rejoin(&self, epoch: u64, url: String) {
        *self.epoch.lock() = Some(epoch);
        self.store.lock().nodes.insert(epoch, Some(url));
    }
}

impl ClusterNodes for TestNode {
    fn epoch(&self) -> Option<u64> {
        *self.epoch.lock()
    }

    fn find(&self, epoch: u64) -> Option<NodeUrl> {
        self.store.lock().nodes.get(&epoch).cloned()
    }

    fn is_alive(&self, epoch: u64) -> ClusterFuture<'_, io::Result<bool>> {
        Box::pin(async move { Ok(self.store.lock().nodes.contains_key(&epoch)) })
    }

    fn send(&self, request: NodeRequest) -> ClusterFuture<'_, Result<RelayedResponse, NotSent>> {
        Box::pin(async move {
            match self.client.open(request).await {
                Ok(response) => {
                    Ok(response.map(|body| Box::pin(body.map_err(io::Error::other)) as _))
                }
                Err(error) => {
                    Err(NotSent { is_unsent: error.is_unsent(), reason: error.to_string() })
                }
            }
        })
    }

    fn keys(&self) -> &KeyRing {
        &self.keys
    }

    fn record(&self, key: &str) -> ClusterFuture<'_, io::Result<Option<NodeRecord>>> {
        let record = self.store.lock().records.get(key).cloned();
        Box::pin(async { Ok(record) })
    }

    fn change_record(
        &self,
        key: &str,
        from: Option<u64>,
        record: Option<NodeRecord>,
        _: Duration,
    ) -> ClusterFuture<'_, io::Result<bool>> {
        let mut store = self.store.lock();
        let is_held = store.records.get(key).map(|(holder, _)| *holder) == from;
        if is_held {
            match record {
                Some(record) => _ = store.records.insert(key.to_owned(), record),
                None => _ = store.records.remove(key),
            }
        }
        Box::pin(async move { Ok(is_held) })
    }
}

/// Two running nodes.
struct Pair {
    store: Arc<Mutex<Store>>,
    nodes: [Arc<TestNode>; 2],
    running: [Running; 2],
    servers: [Server; 2],
    /// Lets the tool `hold` end.
    gate: Arc<Notify>,
}

async fn pair() -> Pair {
    let store = Arc::<Mutex<Store>>::default();
    let gate = Arc::new(Notify::new());
    let servers = [server(&gate), server(&gate)];
    let nodes = [TestNode::new(&store, 1), TestNode::new(&store, 2)];
    let tokens: StaticTokens = "ada:token-of-ada-1234\nbob:token-of-bob-1234\n".parse().unwrap();
    let tokens = Arc::new(tokens);
    let mut running = Vec::new();
    for (server, node) in servers.iter().zip(&nodes) {
        let epoch = node.epoch().unwrap();
        let started = start_with(server, |bound| {
            let url = format!("http://{}", bound.address());
            store.lock().nodes.insert(epoch, Some(url));
            bound.cluster(node.clone()).verifier(tokens.clone())
        });
        running.push(started.await);
    }
    let running = running.try_into().unwrap_or_else(|_| panic!("two were started"));
    Pair { store, nodes, running, servers, gate }
}

fn server(gate: &Arc<Notify>) -> Server {
    let gate = gate.clone();
    let hold = Tool::builder("hold").handler(move |context: Context, _: Value| {
        let gate = gate.clone();
        async move {
            let level = mcp_flow_server::proto::model::LogLevel::Error;
            context.log(level, None, json!("holding"));
            gate.notified().await;
            "done"
        }
    });
    let whoami = Tool::builder("whoami").quick(|context: &Context, _: Value| {
        let name = context.peer().map_or("nobody", |peer| peer.name()).to_owned();
        format!("{name} as {}", context.principal())
    });
    let large = Tool::builder("large")
        .handler(async |_: Context, _: Value| Bulk::bytes("large", "x".repeat(3 << 20)));
    let news = Resource::builder("news:/today").text("nothing");
    let server = Server::builder("node", "1").tools((hold, whoami, large)).resources(news);
    server.build().unwrap()
}

impl Pair {
    /// Opens a session of ada on the first node.
    async fn open(&self) -> String {
        let hello = crate::support::initialize("2025-11-25");
        let answer = self.running[0].send(ada(hello)).await;
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        assert!(id.starts_with("1.") && id.len() == 34, "{id}");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.running[0].send(ada(in_session(&id, ready))).await.status, 202);
        id
    }

    /// Calls a tool on a node.
    async fn call(&self, node: usize, id: &str, tool: &str) -> Value {
        let request = ada(in_session(id, call(1, tool, json!({}))));
        within("a call to end", self.running[node].send(request)).await.json().await
    }
}

fn ada(request: Request) -> Request {
    request.header("authorization", "Bearer token-of-ada-1234")
}

fn hold(id: &str) -> Request {
    let mut hold = call(7, "hold", json!({}));
    hold["params"]["_meta"] = json!({"progressToken": 1});
    ada(in_session(id, hold))
}

/// Every node serves a session: calls, cancellation, streams with resumption, subscriptions, end.
#[tokio::test]
async fn sessions_are_served_by_every_node() {
    let pair = pair().await;
    let id = pair.open().await;
    for node in [0, 1] {
        let reply = pair.call(node, &id, "whoami").await;
        assert_eq!(reply["result"]["content"][0]["text"], "by hand as ada", "{reply}");
    }
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe",
        "params": {"uri": "news:/today"}});
    let subscribed = pair.running[1].send(ada(in_session(&id, message))).await;
    assert_eq!(subscribed.status, 200);
    let listen = ada(Request::get("/mcp").header("mcp-session-id", &id));
    let mut listening = pair.running[1].send(listen).await;
    let mut streamed = pair.running[1].send(hold(&id)).await;
    assert_eq!(streamed.message().await.unwrap()["method"], "notifications/message");
    pair.servers[0].resource_changed("news:/today");
    let update = within("an update", listening.message()).await.unwrap();
    assert_eq!(update["method"], "notifications/resources/updated");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 7}});
    assert_eq!(pair.running[1].send(ada(in_session(&id, cancel))).await.status, 202);
    assert_eq!(streamed.message().await, None, "a cancelled call is not answered");
    // Another principal does not learn of the session.
    let bob = in_session(&id, call(1, "whoami", json!({})));
    let bob = bob.header("authorization", "Bearer token-of-bob-1234");
    assert_eq!(pair.running[1].send(bob).await.status, 404);
    let end = || ada(Request::new("DELETE", "/mcp").header("mcp-session-id", &id));
    assert_eq!(pair.running[1].send(end()).await.status, 204);
    for running in &pair.running {
        assert_eq!(running.send(end()).await.status, 404);
    }
    assert!(pair.store.lock().records.is_empty());
}

/// A stream that another node relays is resumed by `Last-Event-ID` on any node.
#[tokio::test]
async fn relayed_streams_are_resumed() {
    let pair = pair().await;
    let id = pair.open().await;
    let mut first = pair.running[1].send(hold(&id)).await;
    let primed = first.raw_event().await.unwrap().id.unwrap();
    drop(first);
    pair.gate.notify_one();
    for running in &pair.running {
        let resume = Request::get("/mcp").header("mcp-session-id", &id);
        let mut again = running.send(ada(resume.header("last-event-id", &primed))).await;
        assert_eq!(again.message().await.unwrap()["method"], "notifications/message");
        assert_eq!(again.message().await.unwrap()["result"]["content"][0]["text"], "done");
    }
}

/// The session of a node that is gone is continued by another: what the client has said of itself
/// and subscribed to is known, and each open call is answered. The first node gives it up.
#[tokio::test]
async fn sessions_of_dead_nodes_are_adopted() {
    let pair = pair().await;
    let id = pair.open().await;
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe",
        "params": {"uri": "news:/today"}});
    assert_eq!(pair.running[0].send(ada(in_session(&id, message))).await.status, 200);
    let mut streamed = pair.running[0].send(hold(&id)).await;
    let primed = streamed.raw_event().await.unwrap().id.unwrap();
    let mut other = call(8, "hold", json!({}));
    other["params"]["_meta"] = json!({"progressToken": 2});
    let other = ada(in_session(&id, other));
    let mut relayed = within("a stream", pair.running[1].send(other)).await;
    assert_eq!(relayed.message().await.unwrap()["method"], "notifications/message");
    pair.nodes[0].expire();
    let error = within("an error in place of a reply", relayed.message()).await.unwrap();
    assert_eq!((&error["id"], &error["error"]["data"]["reason"]), (&json!(8), &json!("node")));
    let bob = in_session(&id, call(1, "whoami", json!({})));
    let bob = bob.header("authorization", "Bearer token-of-bob-1234");
    assert_eq!(pair.running[1].send(bob).await.status, 404);
    let reply = pair.call(1, &id, "whoami").await;
    assert_eq!(reply["result"]["content"][0]["text"], "by hand as ada", "{reply}");
    let resume = Request::get("/mcp").header("mcp-session-id", &id);
    let resume = ada(resume.header("last-event-id", &primed));
    let error = pair.running[1].send(resume).await.message().await.unwrap();
    assert_eq!((&error["id"], &error["error"]["data"]["reason"]), (&json!(7), &json!("node")));
    let listen = ada(Request::get("/mcp").header("mcp-session-id", &id));
    let mut listening = pair.running[1].send(listen).await;
    pair.servers[1].resource_changed("news:/today");
    let update = within("an update", listening.message()).await.unwrap();
    assert_eq!(update["method"], "notifications/resources/updated");
    // A new call has a stream whose events cannot be confused with those of the first node.
    let mut streamed = pair.running[1].send(hold(&id)).await;
    let event = streamed.raw_event().await.unwrap().id.unwrap();
    assert_ne!(event.split('-').next(), primed.split('-').next());
    // The first node was only cut off. It finds that another has the session, and asks it.
    pair.nodes[0].rejoin(3, format!("http://{}", pair.running[0].address));
    let reply = pair.call(0, &id, "whoami").await;
    assert_eq!(reply["result"]["content"][0]["text"], "by hand as ada", "{reply}");
    pair.running[0]
        .until_metric_as("mcp_flow_transport_sessions{kind=\"streamable\"}", 0, ada)
        .await;
}

/// A node that has lost its lease, and whose sessions nobody has adopted, keeps them.
#[tokio::test]
async fn sessions_survive_a_lost_lease() {
    let pair = pair().await;
    let id = pair.open().await;
    pair.nodes[0].expire();
    assert!(pair.call(0, &id, "whoami").await["result"].is_object(), "the store cannot be asked");
    pair.nodes[0].rejoin(3, format!("http://{}", pair.running[0].address));
    for node in [0, 1] {
        assert!(pair.call(node, &id, "whoami").await["result"].is_object(), "{node}");
    }
    assert_eq!(pair.store.lock().records[&id].0, 3);
}

/// A node that drains leaves its sessions to the others at once.
#[tokio::test]
async fn drained_sessions_are_continued_elsewhere() {
    let pair = pair().await;
    let id = pair.open().await;
    let [first, second] = pair.running;
    first.stop().await;
    assert_eq!(pair.store.lock().records[&id].0, 0);
    let request = ada(in_session(&id, call(1, "whoami", json!({}))));
    let reply = within("a call to end", second.send(request)).await.json().await;
    assert_eq!(reply["result"]["content"][0]["text"], "by hand as ada", "{reply}");
    assert_eq!(pair.store.lock().records[&id].0, 2);
}

/// Downloads of one node are served by every node, and to their principal only.
#[tokio::test]
async fn downloads_are_served_by_every_node() {
    let pair = pair().await;
    let id = pair.open().await;
    let reply = pair.call(0, &id, "large").await;
    let url = reply["result"]["content"][0]["uri"].as_str().unwrap();
    let path = &url[url.find("/download/").unwrap()..];
    assert!(path.starts_with("/download/1."), "{url}");
    let part = ada(Request::get(path)).header("range", "bytes=5-9");
    let mut part = pair.running[1].send(part).await;
    assert_eq!((part.status, &*part.text().await), (206, "xxxxx"));
    let bob = Request::get(path).header("authorization", "Bearer token-of-bob-1234");
    assert_eq!(pair.running[1].send(bob).await.status, 404);
    let mut whole = pair.running[1].send(ada(Request::get(path))).await;
    assert_eq!((whole.status, whole.text().await.len()), (200, 3 << 20));
}

/// The older transport: messages posted to any node reach the event stream.
#[tokio::test]
async fn messages_reach_the_event_stream_of_another_node() {
    let pair = pair().await;
    let mut stream = pair.running[0].send(ada(Request::get("/sse"))).await;
    let endpoint = stream.raw_event().await.unwrap().data;
    let ping = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
    let posted = pair.running[1].send(ada(Request::post(&endpoint, ping))).await;
    assert_eq!(posted.status, 202);
    assert_eq!(within("a reply", stream.message()).await.unwrap()["id"], 5);
}

/// Requests that claim to come from another node are refused, unless they were made with the
/// shared keys.
#[tokio::test]
async fn forged_node_requests_are_refused() {
    let pair = pair().await;
    let id = pair.open().await;
    let whoami = || in_session(&id, call(1, "whoami", json!({})));
    for forged in ["", "local", "AQ", &"A".repeat(300)] {
        let mut refused = pair.running[0].send(ada(whoami()).header("mcp-flow-node", forged)).await;
        assert_eq!(refused.status, 403, "{forged}");
        assert_eq!(refused.json().await["error"]["data"]["name"], "ACCESS_DENIED");
    }
    // A server that is no node takes no such requests at all.
    let alone = start_with(&pair.servers[0], |bound| bound).await;
    assert_eq!(alone.send(whoami().header("mcp-flow-node", "AQ")).await.status, 403);
}
