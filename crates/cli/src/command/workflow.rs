//! `mcp-flow workflow`: look at workflows, write them, check them, go through them.

mod conform;
mod new;
mod run;
mod runs;
mod validate;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use mcp_flow::workflow::{Library, nearest};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::show::print;
use crate::store::StoreUrl;
use crate::workflows::Directories;

/// List, show, check, write and go through workflows
#[derive(Debug, clap::Args)]
pub(crate) struct Workflow {
    #[command(flatten)]
    workflows: Directories,

    #[command(subcommand)]
    action: Action,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
enum Action {
    /// List all workflows there are, and the files that are broken
    List {
        /// For people or for programs
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Show one as JSON
    Show {
        /// Which one
        id: String,
    },
    /// Say what is wrong with files; exit 1 if they cannot be used
    Validate {
        /// Which files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Write a new workflow to start from, with comments
    New {
        /// What it is to be called
        id: String,
        /// Where to write it; workflows/ID.yaml if nothing is said
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Go through one yourself
    Run {
        /// Which one
        id: String,
        /// What is known of the task: name=value, the value JSON or plain text
        #[arg(value_name = "NAME=VALUE")]
        context: Vec<String>,
    },
    /// List the runs in a store at rest; those of a server are among mcp-flow sessions list
    Runs {
        /// The store that has them: redb:PATH
        #[arg(long, value_name = "URL")]
        store: StoreUrl,
    },
    /// Write a run as Markdown, with all outputs
    Export {
        /// Which one
        id: String,
        /// The store that has it: redb:PATH
        #[arg(long, value_name = "URL")]
        store: StoreUrl,
    },
    /// Try whether a server keeps to the workflowlookup document; exit 1 if not
    Conform {
        /// How it is started
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines to read
    #[default]
    Text,
    /// One JSON value
    Json,
}

impl Workflow {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::List { format } => list(&self.workflows.library()?, format),
            Action::Show { id } => show(&self.workflows.library()?, &id),
            Action::Validate { files } => validate::run(&files),
            Action::New { id, output } => new::run(&id, output),
            Action::Run { id, context } => run::run(&self.workflows.library()?, &id, &context),
            Action::Runs { store } => runs::list(&store),
            Action::Export { id, store } => runs::export(&store, &id),
            Action::Conform { command } => conform::run(&command),
        }
    }
}

fn list(library: &Library, format: Format) -> anyhow::Result<ExitCode> {
    let (entries, broken) = (library.entries(), library.broken());
    let text = match format {
        Format::Json => {
            let workflows: Vec<_> = entries
                .iter()
                .map(|entry| {
                    let one = &entry.workflow;
                    json!({
                        "id": one.id, "name": one.name, "description": one.description,
                        "category": one.category, "version": one.version,
                        "origin": entry.origin.name(),
                    })
                })
                .collect();
            let broken: Vec<_> = broken
                .iter()
                .map(|one| json!({"file": one.path.display().to_string(), "reason": one.reason()}))
                .collect();
            json!({"workflows": workflows, "broken": broken}).to_string()
        }
        Format::Text => {
            let lines = entries.iter().map(|entry| {
                let one = &entry.workflow;
                let steps = one.steps.len();
                format!("{:<30} {:<8} {steps:>2} steps  {}", one.id, entry.origin.name(), one.name)
            });
            let broken = broken.iter().map(|one| format!("broken: {}", one.report()));
            lines.chain(broken).collect::<Vec<_>>().join("\n")
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn show(library: &Library, id: &str) -> anyhow::Result<ExitCode> {
    print(&serde_json::to_string_pretty(&*find(library, id)?)?)?;
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
    Err(Failure::new(Exit::Usage, format!("there is no workflow {id}{hint}")))
        .context("mcp-flow workflow list shows all there are")
}
