//! Runs: list, export as Markdown, cancel.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::workflow::runs::FLOW;
use serde_json::{Map, Value, json};

use super::run::run_status;
use crate::client::session_source::SessionSource;
use crate::terminal::output::{self, Format, table};

/// Lists all runs.
pub(super) async fn list(source: &SessionSource, format: Format) -> anyhow::Result<ExitCode> {
    let mut runs = Vec::new();
    let search = Map::from_iter([("flow".to_owned(), FLOW.into())]);
    for session in source.list(search, false).await? {
        let id = session["sessionId"].as_str().unwrap_or_default();
        let mut run = run_status(source, id).await?;
        // The token would let the reader continue the run.
        if let Some(run) = run.as_object_mut() {
            run.remove("token");
        }
        runs.push(run);
    }
    if format == Format::Json {
        output::print_json(&json!({"runs": runs}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() && format == Format::Table {
        output::print("(no runs)")?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = runs.iter().map(row).collect();
    output::print(&table::write(&["run", "workflow", "status", "done", "step"], &rows, format))?;
    Ok(ExitCode::SUCCESS)
}

fn row(run: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let done = run["done"].as_array().map_or(0, Vec::len);
    vec![
        text(&run["runId"]),
        text(&run["workflow"]["id"]),
        text(&run["status"]).replace('_', " "),
        done.to_string(),
        text(&run["step"]["title"]),
    ]
}

/// Exports a run with all outputs as Markdown.
pub(super) async fn export(
    source: &SessionSource,
    id: &str,
    output: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let arguments = json!({"runId": id, "format": "markdown"});
    let exported = source.call_tool(Some(id), "workflow_status", arguments).await?;
    let text = exported.as_str().context("the server did not return the run as Markdown")?;
    match output {
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => output::print(&output::sanitize(text))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Cancels a run; its outputs are kept.
pub(super) async fn cancel(
    source: &SessionSource,
    id: &str,
    reason: Option<&str>,
) -> anyhow::Result<ExitCode> {
    // Fails for a session that is not a run.
    run_status(source, id).await?;
    source.call(id, "interaction.cancel", json!({"reason": reason})).await?;
    output::print(&format!("run {id} cancelled"))?;
    Ok(ExitCode::SUCCESS)
}
