//! CPU time of a turn compared with a plain call, and the cost of resuming a session.

use std::{process::Command, thread, time::Duration};

use serde::Serialize;

use super::{Bench, sessions::Sessions};
use crate::{
    driver::{self, Load},
    peer::SETTLE_TIME,
    placement::Placement,
    process::CpuTime,
    report::median,
};

/// CPU time of the server, in microseconds each.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    pub(super) call_microseconds: f64,
    pub(super) turn_microseconds: f64,
}

/// Measures a call of `calculator.add` and a turn with `memory:`, both over stdio with 64 in
/// flight.
pub(super) fn measure(
    bench: Bench<'_>,
    placement: Placement,
    rounds: usize,
) -> anyhow::Result<Cost> {
    let (mut calls, mut turns) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}: a turn in memory compared with a call");
        let mut command = Command::new(bench.mcp_flow);
        command.args(["stdio", "--store", "memory:"]).current_dir(bench.folder);
        let load = Load { calls: CALLS, in_flight: IN_FLIGHT };
        calls.push(driver::measure(command, load, placement)?.cpu_microseconds_per_call);
        turns.push(turn(bench, placement)?);
    }
    Ok(Cost { call_microseconds: median(calls), turn_microseconds: median(turns) })
}

/// The cost of a turn includes starting and ending sessions.
fn turn(bench: Bench<'_>, placement: Placement) -> anyhow::Result<f64> {
    let shape = (IN_FLIGHT, USUAL_ENTRIES);
    let mut sessions = Sessions::start(bench, "memory:", shape, placement)?;
    sessions.begin()?;
    let before = CpuTime::of(sessions.peer.process())?;
    sessions.answer_times(CALLS)?;
    thread::sleep(SETTLE_TIME);
    let cpu = CpuTime::of(sessions.peer.process())?.since(before);
    Ok(cpu.as_secs_f64() * 1e6 / CALLS as f64)
}

/// The latency of an answer to a session in memory, and to one that is replayed from 20 turns.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resumed {
    pub(super) live: Answered,
    pub(super) replayed: Answered,
}

impl Resumed {
    /// Returns the time to replay 20 turns, in milliseconds.
    pub(super) fn replay_milliseconds(&self) -> f64 {
        (self.replayed.cpu_microseconds - self.live.cpu_microseconds) / 1e3
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answered {
    pub(super) latency_microseconds: f64,
    pub(super) cpu_microseconds: f64,
}

/// Answers sessions one by one, immediately and after they were evicted.
pub(super) fn resume(bench: Bench<'_>, store: &str) -> anyhow::Result<Resumed> {
    let shape = (RESUMED, LONG_ENTRIES);
    let mut sessions = Sessions::start(bench, store, shape, bench.free)?;
    sessions.begin()?;
    sessions.answer_times(RESUMED * 19)?;
    // The 20th answer of each, and then the 21st, which replays one more turn.
    let live = answered(&mut sessions)?;
    eprintln!("waiting until sessions have left memory");
    thread::sleep(LINGER);
    let replayed = answered(&mut sessions)?;
    Ok(Resumed { live, replayed })
}

fn answered(sessions: &mut Sessions) -> anyhow::Result<Answered> {
    let before = CpuTime::of(sessions.peer.process())?;
    let times = sessions.answer_in_turn()?;
    let cpu = CpuTime::of(sessions.peer.process())?.since(before);
    let latencies = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    Ok(Answered {
        latency_microseconds: median(latencies),
        cpu_microseconds: cpu.as_secs_f64() * 1e6 / times.len() as f64,
    })
}

const CALLS: usize = 100_000;
const IN_FLIGHT: usize = 64;
const USUAL_ENTRIES: u32 = 20;
const LONG_ENTRIES: u32 = 100;
const RESUMED: usize = 256;

/// Longer than a session stays in memory, including the detection interval.
const LINGER: Duration = Duration::from_secs(12);
