//! Time from starting `mcp-flow serve` until it is ready, with each store.

use std::{path::Path, time::Instant};

use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::{
    binary::{McpFlow, Target},
    listening::{Listening, Program, SERVE},
    placement::Cores,
    report::{self, Environment, Threshold, median},
};

/// Measure how long `mcp-flow serve` takes until it is ready
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of starts with each store
    #[arg(long, value_name = "N", default_value = "50")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    rounds: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `start.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let (mut memory, mut new, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let folder = target.scratch()?;
            memory.push(start(&mcp_flow, &folder, "memory:")?);
            new.push(start(&mcp_flow, &folder, STORE)?);
            known.push(start(&mcp_flow, &folder, STORE)?);
        }
        let (memory, new, known) = (median(memory), median(new), median(known));
        let results = Results {
            environment: Environment::describe()?,
            rounds: self.rounds,
            memory_ms: memory,
            new_store_ms: new,
            known_store_ms: known,
            hold: Threshold::new("ready with a store, ms", 50.0, known.max(new)),
        };
        let saved = report::save(&target, "start.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// Starts the server and returns the milliseconds until it has printed its endpoints.
fn start(program: &Path, folder: &Path, store: &str) -> anyhow::Result<f64> {
    let mut arguments = SERVE.map(str::to_owned).to_vec();
    arguments.extend(["--store".to_owned(), store.to_owned()]);
    let server = Program { path: program, arguments: &arguments, folder };
    let placement = Cores::Free.place()?;
    let begun = Instant::now();
    let started = Listening::start(server, placement)?;
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    // Ending it takes time, too.
    drop(started);
    Ok(took)
}

/// A store in the folder of the server.
const STORE: &str = "sqlite:journal.db";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    environment: Environment,
    rounds: usize,
    memory_ms: f64,
    new_store_ms: f64,
    known_store_ms: f64,
    hold: Threshold,
}

impl Results {
    fn show(&self) -> String {
        let row = |store: &str, ms: f64| [store.to_owned(), format!("{ms:.1}")];
        let rows = [
            ["store".to_owned(), "ms".to_owned()],
            row("memory", self.memory_ms),
            row("SQLite, created", self.new_store_ms),
            row("SQLite, opened", self.known_store_ms),
        ];
        format!(
            "a server that starts, {} times with each store in turns, {}\n\n{}\n{}",
            self.rounds,
            self.environment,
            report::table(&rows),
            self.hold,
        )
    }
}
