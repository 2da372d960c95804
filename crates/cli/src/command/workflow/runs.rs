//! Runs: which there are, one of them as Markdown, and the end of one.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::workflow::runs::FLOW;
use serde_json::{Value, json};

use super::run::status;
use crate::place::Place;
use crate::show::{self, Format, table};

/// Lists all runs.
pub(super) async fn list(place: &Place, format: Format) -> anyhow::Result<ExitCode> {
    let mut runs = Vec::new();
    for session in place.list().await?.iter().filter(|session| session["toolName"] == FLOW) {
        let id = session["sessionId"].as_str().unwrap_or_default();
        let mut run = status(place, id).await?;
        // What is needed to go on with it is nobody's business here.
        if let Some(run) = run.as_object_mut() {
            run.remove("token");
        }
        runs.push(run);
    }
    if format == Format::Json {
        show::print_json(&json!({"runs": runs}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() && format == Format::Table {
        show::print("There are no runs.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = runs.iter().map(row).collect();
    show::print(&table::write(&["run", "workflow", "status", "done", "step"], &rows, format))?;
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

/// Writes a run as Markdown, with all outputs.
pub(super) async fn export(
    place: &Place,
    id: &str,
    output: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let arguments = json!({"runId": id, "format": "markdown"});
    let told = place.tool(Some(id), "workflow_status", arguments).await?;
    let text = told.as_str().context("the server gives the run in another form")?;
    match output {
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?,
        None => show::print(&mcp_flow::client::neutral::text(text))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends a run; what was done in it is kept.
pub(super) async fn cancel(
    place: &Place,
    id: &str,
    reason: Option<&str>,
) -> anyhow::Result<ExitCode> {
    // A conversation that is no run is not ended by mistake.
    status(place, id).await?;
    place.call(id, "interaction.cancel", json!({"reason": reason})).await?;
    show::print(&format!("{id} is cancelled"))?;
    Ok(ExitCode::SUCCESS)
}
