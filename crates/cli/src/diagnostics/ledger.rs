//! `--ledger=FILE`: a flow whose every step leaves a trace that outlives the process.
//!
//! For trying out what survives a crash, and how fast it is to ask and nothing else. Whoever starts the server says which file is written to;
//! clients only choose what a line says, so the flow is no way to write anywhere else.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow::OfferedFlow;
use mcp_flow::prelude::*;
use mcp_flow::question::text;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How long a ledger is to be.
#[data]
#[derive(Debug, Default)]
struct Ledger {
    /// How many entries to ask for; 12 if not said
    #[schemars(range(min = 1, max = 100))]
    entries: Option<u32>,
    /// How many milliseconds to take over each; 4 if not said
    #[schemars(range(min = 0, max = 10_000))]
    pause: Option<u64>,
}

/// What was entered.
#[data]
#[derive(Debug)]
struct Entered {
    /// All entries, in order
    entries: Vec<String>,
}

/// The flow `ledger`, writing to a file if there is one.
pub(crate) fn ledger(path: Option<PathBuf>) -> OfferedFlow {
    let path = path.map(Arc::new);
    OfferedFlow::new("ledger", move |flow, ledger| keep(flow, ledger, path.clone()))
        .description("Ask for entries one by one, and append each to the ledger before the next")
        .params::<Ledger>()
}

async fn keep(flow: Flow, ledger: Ledger, path: Option<Arc<PathBuf>>) -> FlowResult<Entered> {
    let count = ledger.entries.unwrap_or(12);
    let half = Duration::from_millis(ledger.pause.unwrap_or(4)) / 2;
    let mut entries = Vec::new();
    for number in 1..=count {
        let question = text(format!("Entry {number} of {count}?")).length(1..=200);
        let entry = flow.ask(&format!("entry_{number}"), question).await?;
        if let Some(path) = path.clone() {
            let line = json!({"number": number, "entry": entry});
            flow.step_with_key("append", |key| append(path, key, line, half)).await?;
        }
        entries.push(entry);
    }
    Ok(Entered { entries })
}

/// Appends a line, whole or not at all as far as a crash of this process goes, and takes its time
/// before and after.
async fn append(
    path: Arc<PathBuf>,
    key: String,
    mut line: Value,
    half: Duration,
) -> Result<(), String> {
    line["key"] = key.into();
    sleep(half).await;
    let written = tokio::task::spawn_blocking(move || {
        let mut file = OpenOptions::new().append(true).create(true).open(&*path)?;
        file.write_all(format!("{line}\n").as_bytes())
    });
    let written = written.await.map_err(|error| error.to_string())?;
    written.map_err(|error| error.to_string())?;
    sleep(half).await;
    Ok(())
}
