//! Durable turns compared with rows committed one by one.

use std::time::Duration;

use serde::Serialize;

use super::{Bench, commits, sessions::Sessions};
use crate::report::median;

/// Rates per second.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Turns {
    pub(super) single_rows_per_second: f64,
    pub(super) turns_per_second_of_1: f64,
    pub(super) turns_per_second_of_256: f64,
}

/// Alternates between the two, because disk performance varies.
pub(super) fn measure(bench: Bench<'_>, rounds: usize) -> anyhow::Result<Turns> {
    let (mut rows, mut alone, mut together) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}: durable turns");
        rows.push(commits::per_second(&bench.folder.join(format!("rows-{round}")), TIME)?);
        alone.push(turns_per_second(bench, &format!("one-{round}"), 1)?);
        together.push(turns_per_second(bench, &format!("many-{round}"), 256)?);
    }
    Ok(Turns {
        single_rows_per_second: median(rows),
        turns_per_second_of_1: median(alone),
        turns_per_second_of_256: median(together),
    })
}

fn turns_per_second(bench: Bench<'_>, name: &str, sessions: usize) -> anyhow::Result<f64> {
    let store = format!("redb:{name}.redb");
    let mut sessions = Sessions::start(bench, &store, (sessions, ENTRIES), bench.free)?;
    sessions.begin()?;
    sessions.answer_for(TIME)
}

const TIME: Duration = Duration::from_secs(2);

/// Maximum number of questions of one session.
const ENTRIES: u32 = 100;
