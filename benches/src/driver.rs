//! Load generator: keeps a window of small calls in flight until all are answered.

use std::{
    io::Write,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::{
    call,
    ledger::Ledger,
    peer::{Peer, Pipes, SETTLE_TIME},
    placement::Placement,
    process::{CpuTime, Memory},
    report::megabytes,
};

/// The number of calls and of calls in flight.
#[derive(Clone, Copy, Debug, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Load {
    /// Calls made to each server in each round
    #[arg(long, value_name = "N", default_value = "200000")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) calls: usize,

    // The driver writes a window before it reads, so both directions of a window must fit a pipe.
    /// Calls kept in flight, at most 256
    #[arg(long, value_name = "N", default_value = "64")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub(crate) in_flight: usize,
}

/// The cost of one load for one server.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    pub(crate) calls_per_second: f64,
    pub(crate) cpu_microseconds_per_call: f64,
    pub(crate) peak_rss_megabytes: f64,
    pub(crate) idle_rss_megabytes: f64,
}

/// Starts a server, puts the load on it, and returns the cost.
pub(crate) fn measure(
    command: Command,
    load: Load,
    placement: Placement,
) -> anyhow::Result<Sample> {
    let (mut peer, mut pipes) = Peer::start(command, placement)?;
    let mut ledger = Ledger::new(load.calls);
    let idle = Memory::of(peer.process())?;
    let cpu_before = CpuTime::of(peer.process())?;

    let limit = Duration::from_secs(60) + Duration::from_millis(1) * u32::try_from(load.calls)?;
    let elapsed = peer.within(limit, || drive(&mut pipes, &mut ledger, load))?;

    // Work after the last reply is part of the cost of the calls.
    thread::sleep(SETTLE_TIME);
    let cpu = CpuTime::of(peer.process())?.since(cpu_before);
    let peak = Memory::of(peer.process())?.peak;
    peer.finish(pipes, |line| ledger.enter(line, call::is_sum).map(drop))?;

    let calls = load.calls as f64;
    Ok(Sample {
        calls_per_second: calls / elapsed.as_secs_f64(),
        cpu_microseconds_per_call: cpu.as_secs_f64() * 1e6 / calls,
        peak_rss_megabytes: megabytes(peak),
        idle_rss_megabytes: megabytes(idle.resident),
    })
}

/// Makes all calls, a new one for each reply, and returns the elapsed time.
fn drive(pipes: &mut Pipes, ledger: &mut Ledger, load: Load) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let mut ids = 0..load.calls;
    let mut requests = Vec::new();
    let mut room = load.in_flight;
    while ledger.open() > 0 {
        for id in ids.by_ref().take(room) {
            call::write(&mut requests, id, "")?;
            requests.push(b'\n');
        }
        pipes.requests.write_all(&requests)?;
        requests.clear();

        room = 0;
        let more = pipes.replies.read_batch(|line| {
            room += usize::from(ledger.enter(line, call::is_sum)?);
            anyhow::Ok(())
        })?;
        ensure!(more, "the server closed its output with {} calls unanswered", ledger.open());
    }
    Ok(start.elapsed())
}
