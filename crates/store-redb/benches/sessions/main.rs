//! What sessions cost, each number beside its neighbour on the same disk in the same minute.
//!
//! `cargo bench -p mcp-flow-store-redb --bench sessions [-- SESSIONS]`, a million by default. The
//! file is made where `TMPDIR` says; it should be a disk, not memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench fails by panicking")]

mod commits;
mod crowd;
mod flows;
mod plain;

use std::time::Duration;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [word, path, id] = arguments.as_slice()
        && word == crowd::REOPEN
    {
        return crowd::reopened(path.as_ref(), id);
    }
    let sessions = arguments.first().map_or(1_000_000, |number| number.parse().unwrap());

    let folder = tempfile::tempdir().unwrap();
    // By turns, because a disk has moods.
    let (mut single, mut turns) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        single.push(commits::per_second(&folder.path().join(format!("single-{round}"))));
        turns.push(crowd::turns_per_second(&folder.path().join(format!("turns-{round}"))));
    }
    let (single, turns) = (median(single), median(turns));
    eprintln!("one row durably: {single:.0}/s; turns of 256 sessions durably: {turns:.0}/s");
    verdict("turns / single rows", turns / single, |ratio| ratio >= 10.0, ">= 10");

    let (call, turn, replay) = plain::compare();
    eprintln!(
        "a plain call: {call:?}; a turn in memory: {turn:?}; the 20th turn replayed: {replay:?}"
    );
    verdict("turn / call", turn.as_secs_f64() / call.as_secs_f64(), |ratio| ratio <= 5.0, "<= 5");
    verdict("replay of 20 turns, ms", millis(replay), |time| time < 1.0, "< 1");

    crowd::measure(&folder.path().join("crowd"), sessions);
}

pub(crate) fn verdict(what: &str, measured: f64, held: impl Fn(f64) -> bool, limit: &str) {
    let verdict = if held(measured) { "held" } else { "NOT held" };
    eprintln!("{what} {limit}: {measured:.2} {verdict}");
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

const ROUNDS: usize = 3;
