//! Sleeping sessions: their memory, timers that are due at once, and the replay of a long history.

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Bench,
    waiting::{self, DAY_MILLISECONDS, PER_OWNER},
};
use crate::{
    listening::Listening,
    process::{CpuTime, Memory},
    report::Threshold,
};

/// Timers and their cost.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Timers {
    /// Number of sleeping sessions, and bytes of memory for each.
    asleep: usize,
    bytes_each: f64,
    /// Number of timers due in one second, and milliseconds from the first to the last wake-up.
    due: usize,
    woken_in_milliseconds: u64,
    /// Longest delay of a wake-up among them, and of timers that are due one by one.
    latest_of_many_milliseconds: u64,
    latest_alone_milliseconds: u64,
    /// CPU time of a wake-up that replays a long history, less that of one without.
    replay_milliseconds: f64,
}

impl Timers {
    pub(super) fn holds(&self) -> Vec<Threshold> {
        let due = format!("{} timers of one second fire within, s", self.due);
        let mut holds = vec![
            Threshold::new(due, 2.0, self.woken_in_milliseconds as f64 / 1e3),
            Threshold::new("latest wake-up, s", 1.0, self.latest_alone_milliseconds as f64 / 1e3),
            Threshold::new("CPU of a replay of 10,000 events, ms", 50.0, self.replay_milliseconds),
        ];
        if self.asleep > 0 {
            holds.push(Threshold::new("RSS per sleeping session, bytes", 256.0, self.bytes_each));
        }
        holds
    }
}

/// Measures `sessions` sleeping sessions, if there are any, and timers.
pub(super) fn measure(bench: Bench<'_>, sessions: usize) -> anyhow::Result<Timers> {
    waiting::write_tokens(bench, sessions.max(DUE))?;
    let server = waiting::serve(bench, "memory:")?;
    eprintln!("{DUE} timers of one second");
    let (woken_in_milliseconds, latest_of_many_milliseconds) = fire(&server, DUE, 1000)?;
    eprintln!("timers one by one");
    let (_, latest_alone_milliseconds) = fire(&server, ALONE, ALONE as u64 * 500)?;
    drop(server);
    let replay_milliseconds = replay(bench)?;
    let bytes_each = if sessions > 0 { memory(bench, sessions)? } else { 0.0 };
    Ok(Timers {
        asleep: sessions,
        bytes_each,
        due: DUE,
        woken_in_milliseconds,
        latest_of_many_milliseconds,
        latest_alone_milliseconds,
        replay_milliseconds,
    })
}

/// Starts sessions whose timers are due evenly within a time. Returns the milliseconds from the first
/// timer to the last wake-up, and the longest delay.
fn fire(server: &Listening, timers: usize, within: u64) -> anyhow::Result<(u64, u64)> {
    let first = now()? + START_MILLISECONDS;
    let mut started = Vec::new();
    for owner in 0..timers.div_ceil(PER_OWNER) {
        let count = PER_OWNER.min(timers - owner * PER_OWNER);
        let until =
            |index: usize| first + within * (owner * PER_OWNER + index) as u64 / timers as u64;
        let ids =
            waiting::start_sessions(server.address, owner, count, |index| sleeper(until(index)))?;
        started.push((owner, ids));
    }
    ensure!(now()? < first, "starting {timers} sessions took longer than until the first timer");
    sleep_until(first + within + SETTLE_MILLISECONDS)?;
    let (mut last, mut latest) = (first, 0);
    for (owner, ids) in started {
        for awake in results(server, owner, &ids)? {
            let member = |name: &str| awake[name].as_u64().context("a flow that has not woken");
            let (due, late) = (member("due")?, member("late")?);
            last = last.max(due + late);
            latest = latest.max(late);
        }
    }
    Ok((last - first, latest))
}

/// Returns the results of sessions of an owner.
fn results(server: &Listening, owner: usize, ids: &[String]) -> anyhow::Result<Vec<Value>> {
    let mut socket = waiting::open(server.address, owner)?;
    let mut results = Vec::with_capacity(ids.len());
    for (number, id) in ids.iter().enumerate() {
        let params = json!({"sessionId": id});
        socket.send(&waiting::request("interaction.getState", number, params));
        results.push(socket.receive()?["result"]["result"]["data"].take());
    }
    Ok(results)
}

/// Returns the CPU time of waking a session with a long history, less that of one with none.
fn replay(bench: Bench<'_>) -> anyhow::Result<f64> {
    let mut times = [0.0; 2];
    for (time, draws) in times.iter_mut().zip([0, DRAWS]) {
        let server = waiting::serve(bench, "memory:")?;
        let until = now()? + START_MILLISECONDS;
        let mut params = sleeper(until);
        params["initialParams"]["draws"] = draws.into();
        let ids = waiting::start_sessions(server.address, 0, 1, |_| params.clone())?;
        sleep_until(until - 1000)?;
        let before = CpuTime::of(server.peer.process())?;
        sleep_until(until + 1000)?;
        let cpu = CpuTime::of(server.peer.process())?.since(before);
        ensure!(results(&server, 0, &ids)?[0]["due"] == until, "the flow has not woken");
        *time = cpu.as_secs_f64() * 1e3;
    }
    Ok((times[1] - times[0]).max(0.0))
}

/// Returns the bytes of memory for each sleeping session, in the next process on their store.
fn memory(bench: Bench<'_>, sessions: usize) -> anyhow::Result<f64> {
    let resident = |name: &str, count: usize| -> anyhow::Result<u64> {
        let store = format!("redb:{name}.redb");
        let server = waiting::serve(bench, &store)?;
        let until = now()? + DAY_MILLISECONDS;
        waiting::fill(server.address, count, || sleeper(until))?;
        drop(server);
        let server = waiting::serve(bench, &store)?;
        Ok(Memory::settled(server.peer.process())?.resident)
    };
    eprintln!("starting {sessions} sessions that sleep");
    let (alone, crowd) = (resident("asleep-alone", 1)?, resident("asleep", sessions)?);
    Ok(crowd.saturating_sub(alone) as f64 / sessions as f64)
}

fn sleeper(until: u64) -> Value {
    json!({"toolName": "sleeper", "initialParams": {"until": until}})
}

fn sleep_until(time: u64) -> anyhow::Result<()> {
    thread::sleep(Duration::from_millis(time.saturating_sub(now()?)));
    Ok(())
}

/// Milliseconds since 1970.
fn now() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

const DUE: usize = 10_000;
const ALONE: usize = 20;

/// Recorded values of a long history: with the events of its start and end, about 10,000 events.
const DRAWS: u32 = 9_900;

/// Time in which the sessions are started.
const START_MILLISECONDS: u64 = 15_000;

/// Time after which all timers must have fired.
const SETTLE_MILLISECONDS: u64 = 5_000;
