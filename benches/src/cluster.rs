//! Turns on stores that several processes share: PostgreSQL beside a bare loop of conditional
//! inserts, SQLite beside rows committed one by one, and redb beside both.
//!
//! Everything is measured from outside, against the shipped program, with the flow `ledger`.

mod bare;

use std::time::Duration;
use std::{fs, thread};

use anyhow::Context;
use clap::builder::RangedU64ValueParser;
use mcp_flow_testkit::postgres::PostgresServer;
use serde::Serialize;

use crate::binary::{McpFlow, Target};
use crate::flows::sessions::Sessions;
use crate::flows::waiting::{self, WaitingSessions};
use crate::flows::{Bench, commits, show_waiting};
use crate::placement::Cores;
use crate::report::{self, Environment, Threshold, median};

/// Measure stores that several processes share: PostgreSQL and SQLite
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of waiting sessions in a SQLite file; 0 skips this part
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
    /// Measures, writes `cluster.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let environment = Environment::describe()?;
        let folder = target.scratch()?;
        let bench = Bench { mcp_flow: &mcp_flow, folder: &folder, free: Cores::Free.place()? };
        let server = PostgresServer::start_durable();
        let mut rounds = Vec::new();
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}: PostgreSQL, SQLite, redb", self.rounds);
            rounds.push(Round::measure(bench, &server, round)?);
        }
        drop(server);
        let crowd = match self.sessions {
            0 => None,
            sessions => Some(waiting::measure(bench, "sqlite", sessions)?),
        };
        let results = Results::new(environment, &rounds, crowd);
        let saved = report::save(&target, "cluster.json", &results)?;
        fs::remove_dir_all(&folder).context("cannot remove the journals")?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// Rates per second of one round, next to each other because the speed of disks varies.
struct Round {
    bare_inserts: f64,
    /// Turns of 1, 2 and 3 nodes on PostgreSQL.
    nodes: [f64; 3],
    sqlite_rows: f64,
    redb_rows: f64,
    /// Turns of 1 and of 256 sessions.
    sqlite: [f64; 2],
    redb: [f64; 2],
    /// Turns of three processes on one SQLite file, and the longest wait of one of them.
    three: (f64, Duration),
}

impl Round {
    fn measure(bench: Bench<'_>, server: &PostgresServer, round: usize) -> anyhow::Result<Self> {
        let path = |name: &str| bench.folder.join(format!("{name}-{round}"));
        let bare_inserts = bare::inserts_per_second(server, PER_NODE, TIME)?;
        let mut nodes = [0.0; 3];
        for (count, rate) in (1..).zip(&mut nodes) {
            let store = server.create_database();
            *rate = together(bench, &vec![store; count], PER_NODE)?.0;
        }
        let alone = |store: &str, sessions| -> anyhow::Result<f64> {
            Ok(together(bench, &[store.to_owned()], sessions)?.0)
        };
        let both = |kind: &str| -> anyhow::Result<[f64; 2]> {
            let one = alone(&format!("{kind}:one-{round}.{kind}"), 1)?;
            Ok([one, alone(&format!("{kind}:many-{round}.{kind}"), 256)?])
        };
        let three = format!("sqlite:three-{round}.sqlite");
        let three = [three.clone(), three.clone(), three];
        Ok(Self {
            bare_inserts,
            nodes,
            sqlite_rows: bare::rows_per_second(&path("rows.sqlite"), TIME)?,
            sqlite: both("sqlite")?,
            redb_rows: commits::per_second(&path("rows.redb"), TIME)?,
            redb: both("redb")?,
            three: together(bench, &three, PER_NODE)?,
        })
    }
}

/// Answers sessions of several processes at once. Returns the turns per second of all, and the
/// longest time for which one of them did not get a reply.
fn together(
    bench: Bench<'_>,
    stores: &[String],
    sessions: usize,
) -> anyhow::Result<(f64, Duration)> {
    let mut started = Vec::new();
    for store in stores {
        let mut sessions = Sessions::start(bench, store, (sessions, ENTRIES), bench.free)?;
        sessions.begin()?;
        started.push(sessions);
    }
    thread::scope(|scope| {
        let running: Vec<_> = started
            .iter_mut()
            .map(|sessions| {
                scope.spawn(move || {
                    anyhow::Ok((sessions.answer_for(TIME)?, sessions.longest_wait()))
                })
            })
            .collect();
        let mut all = (0.0, Duration::ZERO);
        for one in running {
            let (rate, wait) = one.join().expect("no thread panics")?;
            all = (all.0 + rate, all.1.max(wait));
        }
        Ok(all)
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    environment: Environment,
    rounds: usize,
    /// Name of the measurement, with its rate per second.
    rates: Vec<(String, f64)>,
    longest_wait_seconds: f64,
    crowd: Option<WaitingSessions>,
    holds: Vec<Threshold>,
}

impl Results {
    fn new(environment: Environment, rounds: &[Round], crowd: Option<WaitingSessions>) -> Self {
        let middle = |value: fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        let ratio = |numerator: fn(&Round) -> f64, denominator: fn(&Round) -> f64| {
            median(rounds.iter().map(|round| numerator(round) / denominator(round)).collect())
        };
        let rates = [
            (
                "PostgreSQL: bare conditional inserts, 64 clients",
                middle(|round| round.bare_inserts),
            ),
            ("PostgreSQL: turns of 1 node", middle(|round| round.nodes[0])),
            ("PostgreSQL: turns of 2 nodes", middle(|round| round.nodes[1])),
            ("PostgreSQL: turns of 3 nodes", middle(|round| round.nodes[2])),
            ("SQLite: rows, one by one", middle(|round| round.sqlite_rows)),
            ("SQLite: turns of 1 session", middle(|round| round.sqlite[0])),
            ("SQLite: turns of 256 sessions", middle(|round| round.sqlite[1])),
            ("SQLite: turns of 3 processes", middle(|round| round.three.0)),
            ("redb: rows, one by one", middle(|round| round.redb_rows)),
            ("redb: turns of 1 session", middle(|round| round.redb[0])),
            ("redb: turns of 256 sessions", middle(|round| round.redb[1])),
        ];
        let waits = rounds.iter().map(|round| round.three.1.as_secs_f64());
        let longest_wait_seconds = waits.fold(0.0, f64::max);
        let mut holds = Vec::new();
        for (name, one) in [
            ("turns/s of 1 node / bare inserts/s", 0),
            ("turns/s of 2 nodes / bare inserts/s", 1),
            ("turns/s of 3 nodes / bare inserts/s", 2),
        ] {
            let ratios = rounds.iter().map(|round| round.nodes[one] / round.bare_inserts);
            holds.push(Threshold::at_least(name, 0.5, median(ratios.collect())));
        }
        holds.extend([
            Threshold::at_least(
                "SQLite: turns/s of 256 sessions / rows/s one by one",
                10.0,
                ratio(|round| round.sqlite[1], |round| round.sqlite_rows),
            ),
            Threshold::new("SQLite: longest wait of 3 processes, s", 0.5, longest_wait_seconds),
            Threshold::new(
                "time of a turn of 1 session, SQLite / redb",
                1.2,
                ratio(|round| round.redb[0], |round| round.sqlite[0]),
            ),
            Threshold::new(
                "time of a turn of 256 sessions, SQLite / redb",
                1.2,
                ratio(|round| round.redb[1], |round| round.sqlite[1]),
            ),
        ]);
        if let Some(crowd) = &crowd {
            holds.push(Threshold::new("RSS per waiting session, bytes", 256.0, crowd.bytes_each()));
            let first = crowd.first_answer_seconds();
            holds.push(Threshold::new("first answer after start, s", 2.0, first));
        }
        let rates = rates.map(|(name, rate)| (name.to_owned(), rate)).into();
        Self { environment, rounds: rounds.len(), rates, longest_wait_seconds, crowd, holds }
    }

    fn show(&self) -> String {
        let head = ["durable, on this disk", "per second"].map(str::to_owned);
        let rows = self.rates.iter().map(|(name, rate)| [name.clone(), format!("{rate:.0}")]);
        let rates = report::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
        let crowd = self.crowd.as_ref().map(show_waiting).unwrap_or_default();
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "stores of several processes, {}, median of {} rounds\n\n{rates}\n{crowd}{}",
            self.environment,
            self.rounds,
            holds.join("\n"),
        )
    }
}

/// Key of the stores, in the form of MCP_FLOW_STORE_KEY.
pub(crate) fn store_key() -> &'static str {
    mcp_flow_testkit::cluster::store_key()
}

const TIME: Duration = Duration::from_secs(3);

/// Sessions of each node.
const PER_NODE: usize = 64;

/// Maximum number of questions of one session.
const ENTRIES: u32 = 100;
