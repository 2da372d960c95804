//! Sessions on several nodes that share a store and are killed, paused and cut off at random.
//!
//! The nodes serve the flow `ledger`, which appends each answer to one file in a step. Sessions
//! send every answer to a random node, and again elsewhere if there is no reply. Whatever happens:
//!
//! - The result of a session has every answer that was accepted, once and in order.
//! - Every step has run; more than once only if there was a fault meanwhile, with the same key. A
//!   planned restart is no fault.
//! - Every session ends.

mod node;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::tcp_relay::TcpRelay;
use crate::wait::LIMIT;
pub use node::ClusterNode;
use node::post;

/// Cluster to be tested.
#[derive(Debug)]
pub struct Cluster {
    /// Program of the nodes.
    pub program: PathBuf,
    /// Directory with the ledger.
    pub folder: PathBuf,
    /// Store of each node.
    pub stores: Vec<String>,
    /// Relays to the store, one per node, if connections to it can be held up.
    pub relays: Vec<TcpRelay>,
    /// Number of faults.
    pub faults: usize,
}

impl Cluster {
    /// Returns the number of faults: `MCP_FLOW_CLUSTER_FAULTS`, or this.
    pub fn faults_or(usual: usize) -> usize {
        let set = std::env::var("MCP_FLOW_CLUSTER_FAULTS").ok();
        set.and_then(|set| set.parse().ok()).unwrap_or(usual)
    }

    /// Runs sessions while each node is restarted, then with faults until all were injected, and
    /// checks everything. Prints its seed; `MCP_FLOW_CLUSTER_SEED` repeats a run.
    pub async fn survive(self) {
        let seed = std::env::var("MCP_FLOW_CLUSTER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("cluster: MCP_FLOW_CLUSTER_SEED={seed}");
        let mut nodes = Vec::new();
        for store in &self.stores {
            nodes.push(Mutex::new(ClusterNode::start(&self.program, &self.folder, store).await));
        }
        let nodes = Arc::new(nodes);
        let mut random = fastrand::Rng::with_seed(seed);
        let restarts = async {
            for (node, store) in nodes.iter().zip(&self.stores) {
                sleep(RESTART_PAUSE).await;
                let mut node = node.lock().await;
                node.terminate().await;
                *node = ClusterNode::start(&self.program, &self.folder, store).await;
            }
        };
        let rounds = self.converse_during(&nodes, &mut random.fork(), restarts).await;
        let expected = rounds * SESSIONS * usize::try_from(ENTRIES).unwrap_or(usize::MAX);
        assert_eq!(self.lines().len(), expected, "a step ran twice without a fault");
        let mut fork = random.fork();
        let faults = async {
            for number in 0..self.faults {
                sleep(Duration::from_millis(fork.u64(50..600))).await;
                self.inject(&nodes, number, &mut fork).await;
            }
        };
        self.converse_during(&nodes, &mut random, faults).await;
        self.check_effects();
    }

    /// Runs sessions until some work has ended, and once more. Returns how often.
    async fn converse_during(
        &self,
        nodes: &Arc<Vec<Mutex<ClusterNode>>>,
        random: &mut fastrand::Rng,
        work: impl Future<Output = ()>,
    ) -> usize {
        let is_done = AtomicBool::new(false);
        let sessions = async {
            let mut rounds = 0;
            loop {
                let is_last = is_done.load(Ordering::Acquire);
                self.converse(nodes, random).await;
                rounds += 1;
                if is_last {
                    return rounds;
                }
            }
        };
        let work = async {
            work.await;
            is_done.store(true, Ordering::Release);
        };
        tokio::join!(sessions, work).0
    }

    /// Kills, pauses or cuts off a node.
    async fn inject(
        &self,
        nodes: &[Mutex<ClusterNode>],
        number: usize,
        random: &mut fastrand::Rng,
    ) {
        let victim = random.usize(..nodes.len());
        match number % FAULT_KINDS {
            // Longer than a lease, shorter than clients wait.
            3 => {
                let process = nodes[victim].lock().await.process();
                signal(process, rustix::process::Signal::STOP);
                sleep(PAUSE).await;
                signal(process, rustix::process::Signal::CONT);
            }
            7 if !self.relays.is_empty() => {
                self.relays[victim].hold(true);
                sleep(PAUSE).await;
                self.relays[victim].hold(false);
            }
            5 if !self.relays.is_empty() => self.relays[victim].cut(),
            _ => {
                let mut node = nodes[victim].lock().await;
                node.kill().await;
                *node = ClusterNode::start(&self.program, &self.folder, &self.stores[victim]).await;
            }
        }
    }

    /// Runs sessions at once until all have ended.
    async fn converse(&self, nodes: &Arc<Vec<Mutex<ClusterNode>>>, random: &mut fastrand::Rng) {
        let mut sessions = JoinSet::new();
        for _ in 0..SESSIONS {
            let (nodes, mut random) = (Arc::clone(nodes), random.fork());
            sessions.spawn(async move {
                let mut last = VecDeque::new();
                let ended = timeout(LIMIT, converse(&nodes, &mut random, &mut last)).await;
                ended.map_err(|_| last)
            });
        }
        for ended in sessions.join_all().await {
            if let Err(last) = ended {
                let errors = ClusterNode::errors(&self.folder);
                panic!("a session did not end in {LIMIT:?}; replies: {last:#?}; nodes: {errors}");
            }
        }
    }

    /// Checks that every step of every session has run, in order.
    fn check_effects(&self) {
        let mut sessions = BTreeMap::<String, Vec<(u64, String)>>::new();
        for line in self.lines() {
            let key = line["key"].as_str().unwrap_or_default().to_owned();
            let session = key.split('/').next().unwrap_or_default().to_owned();
            let number = line["number"].as_u64().unwrap_or_default();
            assert!(key.ends_with(&format!("/{number}")), "step {number} has the key {key}");
            let entry = line["entry"].as_str().unwrap_or_default().to_owned();
            sessions.entry(session).or_default().push((number, entry));
        }
        assert!(!sessions.is_empty(), "nothing was written");
        for (session, mut lines) in sessions {
            lines.dedup();
            let numbers: Vec<_> = lines.iter().map(|(number, _)| *number).collect();
            assert!(numbers.is_sorted(), "{session}: a step ran after the next one: {numbers:?}");
            lines.sort();
            lines.dedup();
            let expected: Vec<_> = (1..=ENTRIES).collect();
            let found: Vec<_> = lines.iter().map(|(number, _)| *number).collect();
            assert_eq!(
                found, expected,
                "{session}: steps are missing or have two answers: {lines:?}"
            );
        }
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join(LEDGER)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

/// One session: every answer goes to a random node, until one has accepted it. Keeps the last
/// replies.
async fn converse(
    nodes: &[Mutex<ClusterNode>],
    random: &mut fastrand::Rng,
    last: &mut VecDeque<String>,
) {
    let params = json!({"toolName": "ledger", "initialParams": {"entries": ENTRIES, "pause": 20}});
    let session = loop {
        let reply = ask(nodes, random, "interaction.start", params.clone(), last).await;
        if let Some(id) = reply.as_ref().and_then(|reply| reply["result"]["sessionId"].as_str()) {
            break id.to_owned();
        }
        retry().await;
    };
    let said: Vec<_> = (1..=ENTRIES).map(|number| format!("{session} {number}")).collect();
    for (turn, text) in said.iter().enumerate() {
        let answer = json!({"value": text, "turnId": turn});
        let params = json!({"sessionId": session, "response": answer});
        loop {
            let reply = ask(nodes, random, "interaction.respond", params.clone(), last).await;
            let Some(reply) = reply else {
                retry().await;
                continue;
            };
            let result = &reply["result"];
            if result["next"]["complete"].is_object() {
                assert_eq!(turn + 1, said.len(), "a session ended early: {reply}");
                let entries = &result["next"]["complete"]["result"]["data"]["entries"];
                assert_eq!(*entries, json!(said), "a result is wrong");
                return;
            }
            if result["accepted"] == true && turn + 1 < said.len() {
                break;
            }
            // It works, or asks for what was answered: the same answer is repeated safely.
            let error = &reply["error"]["data"]["name"];
            assert!(error.is_null() || RETRIED.iter().any(|name| error == name), "{reply}");
            retry().await;
        }
    }
    unreachable!("the last answer has the result");
}

/// Sends a request to a random node. None if it does not reply.
async fn ask(
    nodes: &[Mutex<ClusterNode>],
    random: &mut fastrand::Rng,
    method: &str,
    params: Value,
    last: &mut VecDeque<String>,
) -> Option<Value> {
    let node = random.usize(..nodes.len());
    let address = nodes[node].try_lock().ok()?.address();
    let began = Instant::now();
    let reply = timeout(Duration::from_secs(5), post(address, method, params)).await.ok().flatten();
    if last.len() == LAST_REPLIES {
        last.pop_front();
    }
    let reply_text = reply.as_ref().map_or_else(|| "no reply".to_owned(), Value::to_string);
    last.push_back(format!("node {node}, {method}, {:?}: {reply_text}", began.elapsed()));
    reply
}

async fn retry() {
    sleep(Duration::from_millis(25)).await;
}

fn signal(process: u32, signal: rustix::process::Signal) {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let process = process.expect("a process has an id");
    rustix::process::kill_process(process, signal).expect("a node can be signalled");
}

/// Key of the store, in the form of MCP_FLOW_STORE_KEY.
pub fn store_key() -> &'static str {
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
}

/// Path of the ledger in the directory.
pub(crate) const LEDGER: &str = "ledger";

/// Errors after which a client tries again.
const RETRIED: [&str; 4] =
    ["OVERLOADED", "RATE_LIMITED", "SHUTTING_DOWN", "INVALID_STATE_TRANSITION"];

/// Number of replies that are printed if a session does not end.
const LAST_REPLIES: usize = 20;

/// Pause before the planned restart of a node.
const RESTART_PAUSE: Duration = Duration::from_millis(300);

const SESSIONS: usize = 8;
const ENTRIES: u64 = 4;

/// One pause, one cut and one partition among this many faults; the others are kills.
const FAULT_KINDS: usize = 8;

/// Time of a pause or a partition, longer than a lease.
const PAUSE: Duration = Duration::from_millis(2500);
