//! Many sessions: at once, and waiting.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_flow_engine::model::SessionId;
use mcp_flow_engine::{Engine, Limits, Start};
use mcp_flow_store_redb::RedbStore;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{flows, verdict};

pub(crate) const REOPEN: &str = "reopen";

/// How many turns a second 256 sessions make together, each durable before its reply.
pub(crate) fn turns_per_second(path: &Path) -> f64 {
    let store = Arc::new(RedbStore::open(path).unwrap());
    Runtime::new().unwrap().block_on(async {
        let engine = flows::engine(store, Limits::default()).build();
        let turns = Arc::new(AtomicUsize::new(0));
        let until = Instant::now() + LONG_ENOUGH;
        let mut talks = tokio::task::JoinSet::new();
        for number in 0..256 {
            let (engine, turns) = (engine.clone(), Arc::clone(&turns));
            talks.spawn(async move {
                let owner = flows::owner(number);
                let id = engine.start(Start::new("talk", owner.clone())).await.unwrap().id;
                while Instant::now() < until {
                    engine.respond(id, &owner, json!(true).into()).await.unwrap();
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        talks.join_all().await;
        let turns = turns.load(Ordering::Relaxed) as f64;
        turns / LONG_ENOUGH.as_secs_f64()
    })
}

/// Leaves so many sessions waiting, and has another process take them over.
pub(crate) fn measure(path: &Path, sessions: usize) {
    let began = Instant::now();
    let one = fill(path, sessions);
    let size = std::fs::metadata(path).unwrap().len() / (1 << 20);
    eprintln!("{sessions} sessions started in {:?}, {size} MiB", began.elapsed());
    let none = path.with_extension("none");
    let other = fill(&none, 1);
    let (_, idle) = child(&none, other);
    let (first, crowded) = child(path, one);
    let each = crowded.saturating_sub(idle) as f64 / sessions as f64;
    eprintln!("idle {} KiB, with {sessions} waiting {} KiB", idle >> 10, crowded >> 10);
    verdict("bytes of memory per waiting session", each, |each| each <= 256.0, "<= 256");
    verdict("first answer after start, s", first.as_secs_f64(), |time| time <= 2.0, "<= 2");
}

fn fill(path: &Path, sessions: usize) -> SessionId {
    let store = Arc::new(RedbStore::open(path).unwrap());
    let limits = Limits { linger: Duration::ZERO, ..Limits::default() };
    Runtime::new().unwrap().block_on(async {
        let engine = flows::engine(store, limits).build();
        let next = Arc::new(AtomicUsize::new(0));
        let mut starters = tokio::task::JoinSet::new();
        for _ in 0..1024 {
            let (engine, next) = (engine.clone(), Arc::clone(&next));
            starters.spawn(async move {
                let mut last = None;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= sessions {
                        return last;
                    }
                    let start = Start::new("talk", flows::owner(0)).inactivity(DAY);
                    last = Some(engine.start(start).await.unwrap().id);
                }
            });
        }
        starters.join_all().await.into_iter().flatten().next().unwrap()
    })
}

/// In a process of its own: how long until the first answer, and how much memory then.
fn child(path: &Path, id: SessionId) -> (Duration, u64) {
    let began = Instant::now();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([REOPEN, path.to_str().unwrap(), &id.to_string()]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let mut words = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(micros)), Some(Ok(memory))) = (words.next(), words.next()) else {
        panic!("the other process said {text:?}")
    };
    eprintln!("the other process ran for {:?}", began.elapsed());
    (Duration::from_micros(micros), memory)
}

/// What the other process does: takes over, answers one session, then a hundred sweeps later
/// says how long the answer took and how much memory it has.
pub(crate) fn reopened(path: &Path, id: &str) {
    let began = Instant::now();
    let (id, owner) = (id.parse().unwrap(), flows::owner(0));
    Runtime::new().unwrap().block_on(async {
        let store = Arc::new(RedbStore::open(path).unwrap());
        let engine: Engine = flows::engine(store, Limits::default()).start();
        engine.respond(id, &owner, json!(true).into()).await.unwrap();
        let first = began.elapsed();
        for _ in 0..100 {
            engine.sweep().await.unwrap();
        }
        eprintln!("{} {}", first.as_micros(), resident());
        engine.shutdown().await;
    });
}

/// Bytes of memory this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

const LONG_ENOUGH: Duration = Duration::from_secs(3);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
