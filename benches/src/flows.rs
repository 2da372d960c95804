//! Sessions: turn rate, cost, and memory of waiting sessions.
//!
//! Everything is measured from outside, against the shipped program, with the flow `ledger` that
//! asks for one entry after another and does nothing else.

pub(crate) mod commits;
mod cost;
mod latency;
pub(crate) mod sessions;
mod timers;
mod turns;
pub(crate) mod waiting;

use std::{fs, path::Path};

use anyhow::Context;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use self::{
    cost::{Cost, Resumed},
    latency::QuestionLatency,
    timers::Timers,
    turns::Turns,
    waiting::{Takeover, WaitingSessions},
};
use crate::{
    binary::{McpFlow, Target},
    placement::{Cores, Placement},
    report::{self, Environment, Threshold, megabytes},
};

/// Measure sessions: durable turns, their cost, and very many waiting sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of waiting sessions, and of sleeping ones; 0 skips this part
    #[arg(long, value_name = "N", default_value = "1000000")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(0..=10_000_000))]
    sessions: usize,

    /// Rounds per comparison; medians are shown
    #[arg(long, value_name = "N", default_value = "3")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=100))]
    rounds: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `flows.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let environment = Environment::describe()?;
        let folder = target.scratch()?;
        let bench = Bench { mcp_flow: &mcp_flow, folder: &folder, free: Cores::Free.place()? };
        let one_core = Cores::OneCore.place()?;
        let turns = turns::measure(bench, self.rounds)?;
        let cost = cost::measure(bench, one_core, self.rounds)?;
        let asking = latency::measure(bench, &target.benches, self.rounds)?;
        let in_memory = cost::resume(bench, "memory:")?;
        let on_disk = cost::resume(bench, "redb:resumed.redb")?;
        let crowd = match self.sessions {
            0 => None,
            sessions => Some(waiting::measure(bench, "redb", sessions)?),
        };
        let mut holds = vec![
            Threshold::at_least(
                "durable turns/s of 256 sessions / single rows/s of redb",
                10.0,
                turns.turns_per_second_of_256 / turns.single_rows_per_second,
            ),
            Threshold::new(
                "CPU of a turn with memory: / of a plain call",
                5.0,
                cost.turn_microseconds / cost.call_microseconds,
            ),
            Threshold::new(
                "CPU of a turn that replays 20 others in memory, ms",
                1.0,
                in_memory.replayed.cpu_microseconds / 1e3,
            ),
            Threshold::new(
                "CPU that reading and replaying 20 turns from redb adds to a turn, ms",
                1.0,
                on_disk.replay_milliseconds(),
            ),
        ];
        let timers = timers::measure(bench, self.sessions)?;
        holds.extend(timers.holds());
        if let Some(crowd) = &crowd {
            holds.push(Threshold::new("RSS per waiting session, bytes", 256.0, crowd.bytes_each()));
            let first = crowd.first_answer_seconds();
            holds.push(Threshold::new("first answer after start, s", 2.0, first));
        }
        let rounds = self.rounds;
        let results = Results {
            environment,
            rounds,
            turns,
            cost,
            asking,
            in_memory,
            on_disk,
            timers,
            crowd,
            holds,
        };
        let saved = report::save(&target, "flows.json", &results)?;
        fs::remove_dir_all(&folder).context("cannot remove the journals")?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// The program under measurement and its environment.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) mcp_flow: &'a Path,
    /// Working directory of the servers, where they write their journals.
    pub(crate) folder: &'a Path,
    /// All cores, for processes that are not confined to one.
    pub(crate) free: Placement,
}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    rounds: usize,
    turns: Turns,
    cost: Cost,
    asking: Vec<QuestionLatency>,
    in_memory: Resumed,
    on_disk: Resumed,
    timers: Timers,
    crowd: Option<WaitingSessions>,
    holds: Vec<Threshold>,
}

impl Results {
    fn show(&self) -> String {
        let Self { turns, cost, in_memory, on_disk, .. } = self;
        let row = |what: &str, value: f64| [what.to_owned(), format!("{value:.0}")];
        let rows = [
            ["durable, on this disk", "per second"].map(str::to_owned),
            row("rows of redb, one by one", turns.single_rows_per_second),
            row("turns of 1 session", turns.turns_per_second_of_1),
            row("turns of 256 sessions", turns.turns_per_second_of_256),
        ];
        let durable = report::table(&rows);
        let row = |what: &str, latency: Option<f64>, cpu: f64| {
            let latency = latency.map_or(String::new(), |latency| format!("{latency:.0}"));
            [what.to_owned(), latency, format!("{cpu:.1}")]
        };
        let mut rows = vec![
            ["each", "latency us", "CPU us"].map(str::to_owned),
            row("plain call, 64 in flight", None, cost.call_microseconds),
            row("turn with memory:, 64 in flight", None, cost.turn_microseconds),
        ];
        for QuestionLatency { label, latency_microseconds, cpu_microseconds } in &self.asking {
            let label = format!("answer to next form, {label}");
            rows.push(row(&label, Some(*latency_microseconds), *cpu_microseconds));
        }
        for (label, answered) in [
            ("memory:, turn of a live session", &in_memory.live),
            ("memory:, turn after a replay of 20", &in_memory.replayed),
            ("redb:, turn of a live session", &on_disk.live),
            ("redb:, turn after a replay of 20", &on_disk.replayed),
        ] {
            rows.push(row(label, Some(answered.latency_microseconds), answered.cpu_microseconds));
        }
        let each = report::table(&rows);
        let crowd = self.crowd.as_ref().map(show_waiting).unwrap_or_default();
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "sessions, {}, median of {} rounds\n\n{durable}\n{each}\n{crowd}{}",
            self.environment,
            self.rounds,
            holds.join("\n"),
        )
    }
}

pub(crate) fn show_waiting(crowd: &WaitingSessions) -> String {
    let row = |what: &str, taken: &Takeover| {
        [
            what.to_owned(),
            format!("{:.3}", taken.first_answer_seconds),
            format!("{:.1}", megabytes(taken.rss_bytes)),
            format!("{:.1}", megabytes(taken.peak_rss_bytes)),
        ]
    };
    let rows = [
        ["started with", "first answer s", "RSS MB", "peak RSS MB"].map(str::to_owned),
        row("1 session", &crowd.alone),
        row("all, after kill -9", &crowd.after_kill),
        row("all, after SIGTERM", &crowd.after_end),
    ];
    format!(
        "{} waiting sessions, started in {:.0} s, {:.0} MB on disk\n{}\n",
        crowd.sessions,
        crowd.seconds_to_start,
        crowd.file_megabytes,
        report::table(&rows)
    )
}
