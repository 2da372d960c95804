//! A turn in memory beside a plain call of a tool, and a turn of a session that must be replayed.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_flow_engine::model::{MemoryStore, SessionId};
use mcp_flow_engine::{Engine, Limits, Start};
use mcp_flow_server::{ConnectionInfo, Context, Server, Tool};
use serde_json::json;

use crate::flows;

/// A plain call, a turn in memory, and the twentieth turn of a session that was not in memory.
pub(crate) fn compare() -> (Duration, Duration, Duration) {
    let (mut calls, mut turns, mut replays) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        calls.push(call());
        turns.push(turn());
        replays.push(replay());
    }
    (median(calls), median(turns), median(replays))
}

fn call() -> Duration {
    let tool = Tool::builder("yes")
        .input_schema(json!({"type": "object", "properties": {"value": {"type": "boolean"}}}))
        .quick(|_: &Context, value: serde_json::Value| value.to_string())
        .unwrap();
    let server = Server::builder("bench", "1").tools(tool).build().unwrap();
    let connection = server.connect(ConnectionInfo::new("bench")).unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    connection.receive(hello.as_bytes());
    let frame = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"yes","arguments":{"value":true}}}"#;
    let began = Instant::now();
    for _ in 0..ITERATIONS {
        connection.receive(black_box(frame.as_bytes()));
        let reply = connection.take_output().unwrap();
        connection.recycle(reply);
    }
    began.elapsed() / ITERATIONS
}

fn turn() -> Duration {
    alone(async {
        let engine = flows::engine(Arc::new(MemoryStore::new()), Limits::default()).build();
        let mut spent = Duration::ZERO;
        // Sessions of usual length: a journal that grows without end would be measured otherwise.
        for _ in 0..ITERATIONS / 20 {
            let id = start(&engine).await;
            let began = Instant::now();
            for _ in 0..20 {
                respond(&engine, id).await;
            }
            spent += began.elapsed();
        }
        spent / ITERATIONS
    })
}

fn replay() -> Duration {
    alone(async {
        let limits = Limits { linger: Duration::ZERO, ..Limits::default() };
        let engine = flows::engine(Arc::new(MemoryStore::new()), limits).build();
        let mut spent = Duration::ZERO;
        for _ in 0..REPLAYS {
            let id = start(&engine).await;
            for _ in 0..19 {
                respond(&engine, id).await;
            }
            let began = Instant::now();
            respond(&engine, id).await;
            spent += began.elapsed();
        }
        spent / REPLAYS
    })
}

fn alone<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn start(engine: &Engine) -> SessionId {
    engine.start(Start::new("talk", flows::owner(0))).await.unwrap().id
}

async fn respond(engine: &Engine, id: SessionId) {
    let owner = flows::owner(0);
    black_box(engine.respond(id, &owner, json!(true).into()).await.unwrap());
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

const ROUNDS: u32 = 7;
const ITERATIONS: u32 = 20_000;
const REPLAYS: u32 = 200;
