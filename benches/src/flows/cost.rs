//! What a turn costs in memory beside a plain call, and what it costs to take a session up again.

use std::{process::Command, thread, time::Duration};

use serde::Serialize;

use super::{Bench, sessions::Sessions};
use crate::{
    driver::{self, Load},
    peer::REST,
    placement::Placement,
    process::CpuTime,
    report::median,
};

/// Processor time of the server, in microseconds for each.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    pub(super) call_microseconds: f64,
    pub(super) turn_microseconds: f64,
}

/// A call of `calculator.add` and a turn with `memory:`, both over stdio with 64 in flight.
pub(super) fn measure(
    bench: Bench<'_>,
    placement: Placement,
    rounds: usize,
) -> anyhow::Result<Cost> {
    let (mut calls, mut turns) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}: a turn in memory beside a call");
        let mut command = Command::new(bench.mcp_flow);
        command.args(["stdio", "--store", "memory:"]).current_dir(bench.folder);
        let load = Load { calls: CALLS, in_flight: IN_FLIGHT };
        calls.push(driver::measure(command, load, placement)?.cpu_microseconds_per_call);
        turns.push(turn(bench, placement)?);
    }
    Ok(Cost { call_microseconds: median(calls), turn_microseconds: median(turns) })
}

/// Starts and ends of sessions are in the price of their turns.
fn turn(bench: Bench<'_>, placement: Placement) -> anyhow::Result<f64> {
    let shape = (IN_FLIGHT, USUAL_ENTRIES);
    let mut sessions = Sessions::start(bench, "memory:", shape, placement)?;
    sessions.begin()?;
    let before = CpuTime::of(sessions.peer.process())?;
    sessions.answer_times(CALLS)?;
    thread::sleep(REST);
    let cpu = CpuTime::of(sessions.peer.process())?.since(before);
    Ok(cpu.as_secs_f64() * 1e6 / CALLS as f64)
}

/// An answer to a session that lingers in memory, and to one of 20 turns that has left it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resumed {
    pub(super) live: Answered,
    pub(super) replayed: Answered,
}

impl Resumed {
    /// What the replay of 20 turns adds to the cost of the one after them, in milliseconds.
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

/// Answers sessions one by one, at once and after they were put away.
pub(super) fn resume(bench: Bench<'_>, store: &str) -> anyhow::Result<Resumed> {
    let shape = (RESUMED, LONG_ENTRIES);
    let mut sessions = Sessions::start(bench, store, shape, bench.free)?;
    sessions.begin()?;
    sessions.answer_times(RESUMED * 19)?;
    // The 20th of each, and then the 21st, which has one more to replay.
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

/// Longer than a session lingers in memory, and than it takes to notice that.
const LINGER: Duration = Duration::from_secs(12);
