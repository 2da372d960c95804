//! Load generator: concurrent connections, each making one call after another.
//!
//! One thread serves all connections with epoll. It costs less per call than any server here, so
//! that the server sets the pace. The share of time the driver was busy is reported, because near
//! 100 % that is no longer true.

use std::{
    thread,
    time::{Duration, Instant},
};

use clap::builder::RangedU64ValueParser;
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
};
use serde::Serialize;

use super::{
    connection::Connection,
    era::Era,
    sample::{Sample, Usage},
};
use crate::{
    listening::{Listening, Program},
    peer::SETTLE_TIME,
    placement::Placement,
    process::{CpuTime, Memory, waited_for_cores},
};

/// The number of connections, and the duration of the load.
#[derive(Clone, Copy, Debug, Serialize, clap::Args)]
pub(crate) struct Load {
    /// Keep-alive connections, each with one call in flight
    #[arg(long, value_name = "N", default_value = "32")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) connections: usize,

    /// Milliseconds for which each server is measured in each round
    #[arg(long, value_name = "N", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) milliseconds: u64,
}

/// Starts a server, puts the load on it, and returns a sample.
pub(crate) fn measure(
    program: Program<'_>,
    era: Era,
    load: Load,
    placement: Placement,
    token: Option<&str>,
) -> anyhow::Result<Sample> {
    let mut server = Listening::start(program, placement)?;
    let (process, address) = (server.peer.process(), server.address);
    let duration = Duration::from_millis(load.milliseconds);
    let limit = duration + Duration::from_secs(30);
    server.peer.within(limit, || {
        let mut connections = (0..load.connections)
            .map(|_| Connection::open(address, era, token))
            .collect::<anyhow::Result<Vec<_>>>()?;
        // The first calls meet cold caches and new threads, which are not compared.
        drive(&mut connections, WARM_UP)?;

        let server_before = CpuTime::of(process)?;
        let waited_before = waited_for_cores(process);
        let driver_before = CpuTime::of(std::process::id())?;
        let Timing { latencies, elapsed } = drive(&mut connections, duration)?;
        let driver_cpu = CpuTime::of(std::process::id())?.since(driver_before);
        let server_waited = waited_for_cores(process).saturating_sub(waited_before);
        // Work after the last reply is part of the cost of the calls.
        thread::sleep(SETTLE_TIME);
        let server_cpu = CpuTime::of(process)?.since(server_before);
        let server_peak_rss = Memory::of(process)?.peak;
        let usage = Usage { elapsed, server_cpu, server_waited, driver_cpu, server_peak_rss };
        Ok(Sample::new(latencies, &usage))
    })
}

struct Timing {
    latencies: Vec<Duration>,
    elapsed: Duration,
}

/// Makes calls on every connection until the time is over and the last one is answered.
fn drive(connections: &mut [Connection], duration: Duration) -> anyhow::Result<Timing> {
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, connection) in (0..).zip(connections.iter()) {
        epoll::add(&poll, connection, EventData::new_u64(index), EventFlags::IN)?;
    }
    let start = Instant::now();
    let mut ids = 0..;
    let mut latencies = Vec::new();
    for (connection, id) in connections.iter_mut().zip(ids.by_ref()) {
        connection.call(id)?;
    }
    let mut open = connections.len();
    let mut events = Vec::with_capacity(connections.len());
    while open > 0 {
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let index = usize::try_from(event.data.u64())?;
            let connection = &mut connections[index];
            let Some(latency) = connection.receive()? else { continue };
            latencies.push(latency);
            match ids.next() {
                Some(id) if start.elapsed() < duration => connection.call(id)?,
                _ => open -= 1,
            }
        }
    }
    Ok(Timing { latencies, elapsed: start.elapsed() })
}

const WARM_UP: Duration = Duration::from_millis(300);
