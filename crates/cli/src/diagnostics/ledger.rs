//! `--ledger FILE`: a flow whose every step leaves a trace that outlives the process.
//!
//! For trying out what survives a crash. Whoever starts the server says which file is written to;
//! clients only choose what a line says, so the flow is no way to write anywhere else.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow::OfferedFlow;
use mcp_flow::prelude::*;
use mcp_flow::question::text;
use serde_json::json;
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

/// The flow `ledger`, writing to a file.
pub(crate) fn ledger(path: PathBuf) -> OfferedFlow {
    let path = Arc::new(path);
    OfferedFlow::new("ledger", move |flow, ledger| keep(flow, ledger, Arc::clone(&path)))
        .description("Ask for entries one by one, and append each to the ledger before the next")
        .params::<Ledger>()
}

async fn keep(flow: Flow, ledger: Ledger, path: Arc<PathBuf>) -> FlowResult<Entered> {
    let count = ledger.entries.unwrap_or(12);
    let half = Duration::from_millis(ledger.pause.unwrap_or(4)) / 2;
    let mut entries = Vec::new();
    for number in 1..=count {
        let question = text(format!("Entry {number} of {count}?")).length(1..=200);
        let entry = flow.ask(&format!("entry_{number}"), question).await?;
        let path = Arc::clone(&path);
        let line = entry.clone();
        flow.step_with_key("append", |key| async move {
            sleep(half).await;
            let line = json!({"key": key, "number": number, "entry": line});
            tokio::task::spawn_blocking(move || append(&path, &format!("{line}\n")))
                .await
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())?;
            sleep(half).await;
            Ok::<_, String>(())
        })
        .await?;
        entries.push(entry);
    }
    Ok(Entered { entries })
}

/// Appends a line, whole or not at all as far as a crash of this process goes.
fn append(path: &PathBuf, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}
