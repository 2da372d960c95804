//! `mcp-flow workflow`: look at workflows, write them, check them, go through them.

mod conform;
mod new;
mod run;
mod runs;
mod validate;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use mcp_flow::workflow::{Library, LibraryEntry, incompatible, nearest};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::place::{Place, Whereabouts};
use crate::show::{self, Format, neutral, table};
use crate::workflows::Directories;

/// List, show, check, write and go through workflows
#[derive(Debug, clap::Args)]
pub(crate) struct Workflow {
    #[command(flatten)]
    workflows: Directories,

    #[command(flatten)]
    place: Whereabouts,

    #[command(subcommand)]
    action: Action,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
enum Action {
    /// List all workflows there are, and the files that are broken
    List,
    /// Show one as JSON
    Show {
        /// Which one
        id: String,
    },
    /// Say what is wrong with files; exit 1 if they cannot be used
    Validate {
        /// Which files; of a directory, all in it
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Write a new workflow to start from, with comments
    New {
        /// What it is to be called
        id: String,
        /// Where to write it [default: workflows/ID.yaml]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Go through one yourself; the run is kept, so that it can be left and taken up again
    Run {
        /// Which one
        id: String,
        /// What is known of the task: name=value, the value JSON or plain text
        #[arg(value_name = "NAME=VALUE")]
        context: Vec<String>,
    },
    /// List runs, whoever goes through them
    Runs,
    /// Go on with a run yourself
    Resume {
        /// Which one
        run: String,
    },
    /// End a run; what was done in it is kept
    Cancel {
        /// Which one
        run: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Write a run as Markdown, with all outputs
    Export {
        /// Which one
        run: String,
        /// Where to write it [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Try whether a server keeps to the workflowlookup document; exit 1 if not
    Conform {
        /// How it is started
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

impl Workflow {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match &self.action {
            Action::List => list(&self.workflows.library()?, self.place.format),
            Action::Show { id } => show(&self.workflows.library()?, id),
            Action::Validate { files } => validate::run(files),
            Action::New { id, output } => new::run(id, output.clone()),
            Action::Conform { command } => conform::run(command),
            _ => self.with_runs(),
        }
    }

    /// The commands about runs.
    fn with_runs(&self) -> anyhow::Result<ExitCode> {
        let library = self.workflows.library()?;
        let begins = matches!(self.action, Action::Run { .. });
        let find = async |place: &Whereabouts| place.or_store(&library, begins).await;
        let interrupted = match &self.action {
            Action::Run { .. } | Action::Resume { .. } => {
                "interrupted; the run is kept: see `mcp-flow workflow runs`"
            }
            Action::Cancel { .. } => {
                "interrupted; the run may have been cancelled: see `mcp-flow workflow runs`"
            }
            _ => "interrupted",
        };
        self.place.work(find, interrupted, async |place| self.act(place, &library).await)
    }

    async fn act(&self, place: &Place, library: &Library) -> anyhow::Result<ExitCode> {
        let again = self.place.again("mcp-flow workflow resume");
        match &self.action {
            Action::Run { id, context } => {
                // A server has workflows of its own.
                if place.is_at_rest() {
                    find(library, id)?;
                }
                run::start(place, again, id, context).await
            }
            Action::Resume { run } => run::resume(place, again, run).await,
            Action::Cancel { run, reason } => runs::cancel(place, run, reason.as_deref()).await,
            Action::Export { run, output } => runs::export(place, run, output.as_deref()).await,
            _ => runs::list(place, self.place.format).await,
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
        show::print_json(&json!({"workflows": workflows, "broken": broken}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |entry: &LibraryEntry| {
        let one = &entry.workflow;
        let (id, name, steps) = (one.id.to_string(), one.name.to_string(), one.steps.len());
        vec![id, entry.origin.name().to_owned(), steps.to_string(), name]
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    show::print(&table::write(&["workflow", "origin", "steps", "name"], &rows, format))?;
    for entry in &entries {
        if let Some(why) = incompatible(&entry.workflow) {
            show::print(&neutral(&format!("cannot be used: {} {why}", entry.workflow.id)))?;
        }
    }
    for one in broken {
        show::print(&neutral(&format!("broken: {}", one.report())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(library: &Library, id: &str) -> anyhow::Result<ExitCode> {
    show::print(&serde_json::to_string_pretty(&*find(library, id)?)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The workflow of this id; an error says which was probably meant, or what is wrong with its file.
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
        format!("there is no workflow {id}{hint}. `mcp-flow workflow list` shows all there are");
    Err(Failure::new(Exit::Usage, message).into())
}
