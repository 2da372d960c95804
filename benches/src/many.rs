//! Memory of a server with thousands of idle connections, compared with the same server without
//! any.
//!
//! Only the resident memory of the server is counted. The kernel's part of a connection is the same
//! for every server.

mod idle;

use anyhow::{Context, ensure};
use clap::builder::RangedU64ValueParser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use self::idle::{Idle, Kind};
use crate::{
    binary::{McpFlow, Target},
    listening::{Listening, Program, SERVE},
    placement::Cores,
    process::Memory,
    report::{self, Environment, Threshold, megabytes},
};

/// Measure the memory of idle connections
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    // Each takes a port of its own, of which one address has some 28,000 by default.
    /// Connections of each kind to hold open at once
    #[arg(long, value_name = "N", default_value = "10000")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=25_000))]
    connections: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `many.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        allow_open_files(self.connections as u64 + SPARE_FILES)?;
        let arguments = SERVE.map(str::to_owned);
        let measure = |kind| {
            let folder = &target.scratch()?;
            let program = Program { path: &mcp_flow, arguments: &arguments, folder };
            hold_open(program, kind, self.connections)
        };
        let (sse, websocket) = (measure(Kind::Sse)?, measure(Kind::WebSocket)?);
        let results = Results {
            environment: Environment::describe()?,
            connections: self.connections,
            holds: vec![Threshold::new(
                "mcp-flow RSS growth per idle SSE connection, KB",
                16.0,
                sse.kilobytes_per_connection,
            )],
            sse,
            websocket,
        };
        let saved = report::save(&target, "many.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// Opens connections to a new server and measures its memory before and after.
fn hold_open(program: Program<'_>, kind: Kind, connections: usize) -> anyhow::Result<Growth> {
    // A separate server for each kind: memory freed by one kind would be reused by the next.
    let server = Listening::start(program, Cores::Free.place()?)?;
    let process = server.peer.process();
    let idle = Memory::settled(process)?;
    eprintln!("opening {connections} connections, {kind}");
    let mut open = Vec::with_capacity(connections);
    for number in 1..=connections {
        let connection = Idle::open(server.address, kind);
        open.push(connection.with_context(|| format!("{kind} connection {number}"))?);
    }
    let opened = Memory::settled(process)?;
    // A connection the server has closed would seem to cost nothing.
    let lost =
        open.iter_mut().filter_map(|connection| connection.check().err()).collect::<Vec<_>>();
    ensure!(
        lost.is_empty(),
        "the server did not hold {} of {connections}: {}",
        lost.len(),
        lost[0]
    );
    let growth = opened.resident.saturating_sub(idle.resident);
    Ok(Growth {
        idle_rss_bytes: idle.resident,
        open_rss_bytes: opened.resident,
        peak_rss_bytes: opened.peak,
        kilobytes_per_connection: growth as f64 / 1e3 / connections as f64,
    })
}

/// Raises the limit of this process, which the server inherits: each end holds one file per
/// connection.
fn allow_open_files(count: u64) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(count));
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum }).with_context(|| {
        format!("{count} open files are needed at each end; raise the limit with `ulimit -Hn`")
    })
}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    connections: usize,
    sse: Growth,
    websocket: Growth,
    holds: Vec<Threshold>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Growth {
    idle_rss_bytes: u64,
    open_rss_bytes: u64,
    peak_rss_bytes: u64,
    kilobytes_per_connection: f64,
}

impl Results {
    fn show(&self) -> String {
        let row = |kind: Kind, growth: &Growth| {
            [
                kind.to_string(),
                format!("{:.1}", megabytes(growth.idle_rss_bytes)),
                format!("{:.1}", megabytes(growth.open_rss_bytes)),
                format!("{:.1}", megabytes(growth.peak_rss_bytes)),
                format!("{:.2}", growth.kilobytes_per_connection),
            ]
        };
        let rows = [
            ["connections", "idle RSS MB", "open RSS MB", "peak RSS MB", "KB each"]
                .map(str::to_owned),
            row(Kind::Sse, &self.sse),
            row(Kind::WebSocket, &self.websocket),
        ];
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "{} idle connections of each kind, {}\n\n{}\n{}",
            self.connections,
            self.environment,
            report::table(&rows),
            holds.join("\n"),
        )
    }
}

/// Files that either end has open besides connections.
const SPARE_FILES: u64 = 256;
