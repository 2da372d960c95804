//! `--ledger=FILE`: a flow that appends each answer to a file, to test crash recovery and throughput.
//!
//! The operator chooses the file; clients choose only what a line says.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow::prelude::*;
use mcp_flow::question::text;
use mcp_flow::{BadTool, OfferedFlow, TaskMode};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Parameters of the flow `ledger`.
#[data]
#[derive(Debug, Default)]
struct Ledger {
    /// Number of entries to ask for [default: 12]
    #[schemars(range(min = 1, max = 100))]
    entries: Option<u32>,
    /// Milliseconds to spend on each entry [default: 4]
    #[schemars(range(min = 0, max = 10_000))]
    pause: Option<u64>,
}

/// Result of the flow `ledger`.
#[data]
#[derive(Debug)]
struct Entered {
    /// All entries, in order
    entries: Vec<String>,
}

/// Creates the tool `ledger.append`, with which other flows write to the same file.
pub(crate) fn append_tool(path: PathBuf) -> Result<Tool, BadTool> {
    let path = Arc::new(path);
    Tool::builder("ledger.append").description("Append an entry to the ledger").handler(
        move |_: Context, line: Line| {
            let path = path.clone();
            let half = Duration::from_millis(line.pause) / 2;
            append(path, line.key, json!({"number": line.number, "entry": line.entry}), half)
        },
    )
}

/// Arguments of the tool `ledger.append`.
#[data]
#[derive(Debug)]
struct Line {
    /// Number of the entry
    number: u32,
    /// The entry
    entry: String,
    /// Key of the step that appends it
    key: String,
    /// Milliseconds to spend on it
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    pause: u64,
}

/// Creates the flow `ledger`, which writes to a file if one is given.
pub(crate) fn ledger(path: Option<PathBuf>) -> OfferedFlow {
    let path = path.map(Arc::new);
    OfferedFlow::new("ledger", move |flow, ledger| keep(flow, ledger, path.clone()))
        .description("Ask for entries one by one, and append each to the ledger before the next")
        .params::<Ledger>()
        .task(TaskMode::Always)
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

/// Appends a line in one write, with a pause before and after it.
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
