//! `mcp-flow workflow`: lists, validates, creates and runs workflows.

mod conform;
mod new;
mod run;
mod runs;
mod validate;

pub(crate) use new::create_file;
pub(crate) use validate::report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use mcp_flow::workflow::{Library, LibraryEntry, incompatible, nearest};
use serde_json::json;

use crate::client::session_source::{SessionSource, SessionSourceOptions};
use crate::exit::{Exit, Failure};
use crate::server::workflows::WorkflowDirectories;
use crate::terminal::output::{self, Format, sanitize, table};

/// List, show, validate, create and run workflows
#[derive(Debug, clap::Args)]
pub(crate) struct Workflow {
    #[command(flatten)]
    workflows: WorkflowDirectories,

    #[command(flatten)]
    source: SessionSourceOptions,

    #[command(subcommand)]
    action: Action,
}

/// Actions on workflows and runs.
#[derive(Debug, Subcommand)]
enum Action {
    /// List all workflows, and the files that are invalid
    List,
    /// Show a workflow as JSON
    Show {
        /// Workflow id
        id: String,
    },
    /// Validate workflow files; exits with 1 if one is invalid
    Validate {
        /// Workflow files, or directories of them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Create a workflow file from a template
    New {
        /// Id of the new workflow
        id: String,
        /// File to write [default: workflows/ID.yaml]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Run a workflow in the terminal; an interrupted run can be resumed
    Run {
        /// Workflow id
        id: String,
        /// Variables of the context; values are JSON or plain text
        #[arg(value_name = "NAME=VALUE")]
        context: Vec<String>,
    },
    /// List all runs
    Runs,
    /// Resume a run in the terminal
    Resume {
        /// Run id
        run: String,
    },
    /// Cancel a run; its outputs are kept
    Cancel {
        /// Run id
        run: String,
        /// Reason, kept with the run
        #[arg(long)]
        reason: Option<String>,
    },
    /// Export a run with all outputs as Markdown
    Export {
        /// Run id
        run: String,
        /// File to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Test a server against the workflowlookup specification; exits with 1 if a test fails
    Conform {
        /// Command that starts the server
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

impl Workflow {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match &self.action {
            Action::List => list(&self.workflows.library()?, self.source.format),
            Action::Show { id } => show(&self.workflows.library()?, id),
            Action::Validate { files } => validate::run(files),
            Action::New { id, output } => new::run(id, output.clone()),
            Action::Conform { command } => conform::run(command),
            _ => self.with_runs(),
        }
    }

    /// Runs the actions on runs.
    fn with_runs(&self) -> anyhow::Result<ExitCode> {
        let library = self.workflows.library()?;
        let starts = matches!(self.action, Action::Run { .. });
        let open =
            async |options: &SessionSourceOptions| options.open_or_store(&library, starts).await;
        let interrupted = match &self.action {
            Action::Run { .. } | Action::Resume { .. } => {
                "interrupted; the run is kept: see `mcp-flow workflow runs`"
            }
            Action::Cancel { .. } => {
                "interrupted; the run may have been cancelled: see `mcp-flow workflow runs`"
            }
            _ => "interrupted",
        };
        let work = async |source: &SessionSource| self.act(source, &library).await;
        self.source.run(open, interrupted, work)
    }

    async fn act(&self, source: &SessionSource, library: &Library) -> anyhow::Result<ExitCode> {
        let resume = self.source.command_line("mcp-flow workflow resume");
        match &self.action {
            Action::Run { id, context } => {
                // A server has its own workflows.
                if source.is_offline() {
                    find(library, id)?;
                }
                run::start(source, resume, id, context).await
            }
            Action::Resume { run } => run::resume(source, resume, run).await,
            Action::Cancel { run, reason } => runs::cancel(source, run, reason.as_deref()).await,
            Action::Export { run, output } => runs::export(source, run, output.as_deref()).await,
            _ => runs::list(source, self.source.format).await,
        }
    }
}

fn list(library: &Library, format: Format) -> anyhow::Result<ExitCode> {
    let (entries, broken) = (library.entries(), library.broken());
    if format == Format::Json {
        let workflows: Vec<_> = entries
            .iter()
            .map(|entry| {
                let one = &entry.workflow;
                let mut listed = json!({
                    "id": one.id, "name": one.name, "description": one.description,
                    "category": one.category, "version": one.version,
                    "origin": entry.origin.name(),
                });
                if let Some(why) = incompatible(one) {
                    listed["incompatible"] = why.into();
                }
                listed
            })
            .collect();
        let broken: Vec<_> = broken
            .iter()
            .map(|one| json!({"file": one.path.display().to_string(), "reason": one.reason()}))
            .collect();
        output::print_json(&json!({"workflows": workflows, "broken": broken}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |entry: &LibraryEntry| {
        let one = &entry.workflow;
        let (id, name, steps) = (one.id.to_string(), one.name.to_string(), one.steps.len());
        vec![id, entry.origin.name().to_owned(), steps.to_string(), name]
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    output::print(&table::write(&["workflow", "origin", "steps", "name"], &rows, format))?;
    for entry in &entries {
        if let Some(why) = incompatible(&entry.workflow) {
            output::print(&sanitize(&format!("incompatible: {} {why}", entry.workflow.id)))?;
        }
    }
    for one in broken {
        output::print(&sanitize(&format!("invalid: {}", one.report())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(library: &Library, id: &str) -> anyhow::Result<ExitCode> {
    output::print(&serde_json::to_string_pretty(&*find(library, id)?)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Finds a workflow. The error suggests a similar id, or explains what is wrong with its file.
fn find(
    library: &Library,
    id: &str,
) -> anyhow::Result<std::sync::Arc<mcp_flow::workflow::Workflow>> {
    if let Some(found) = library.find(id) {
        return Ok(found);
    }
    if let Some(broken) = library.find_broken(id) {
        anyhow::bail!("{}", broken.report());
    }
    let entries = library.entries();
    let near = nearest(id, entries.iter().map(|entry| &*entry.workflow.id));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    let message =
        format!("no workflow named {id}{hint}. `mcp-flow workflow list` lists all workflows");
    Err(Failure::new(Exit::Usage, message).into())
}
