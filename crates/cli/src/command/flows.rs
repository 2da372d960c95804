//! `mcp-flow flows`: checks exported sessions against the code of the flows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use mcp_flow::engine::{Engine, SessionHistory};
use mcp_flow::{Interaction, Server};

use crate::server::tool_files;
use crate::terminal::output::{print, sanitize};

/// Check whether exported sessions can go on with the code of the flows
#[derive(Debug, clap::Args)]
pub(crate) struct Flows {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Replay exported sessions without running a step; exits with 1 if one does not fit
    ///
    /// A session that does not fit would be stuck after an upgrade. The flows are those of this
    /// program, and those of --tools.
    Check {
        /// Histories, written by `mcp-flow sessions export`
        #[arg(required = true, value_name = "HISTORY")]
        histories: Vec<PathBuf>,

        /// Check against the flows that the files in this directory declare; may be repeated
        #[arg(long = "tools", value_name = "DIR")]
        tools: Vec<PathBuf>,
    },
}

impl Flows {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Action::Check { histories, tools } = self.action;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Flows may use timers of the runtime when they are replayed.
        let _entered = runtime.enter();
        let interaction =
            Interaction::builder().flows(mcp_flow_examples::flows()).in_memory().build();
        let server = interaction.add_to(Server::builder("check", "1")).build()?;
        let library = tool_files::open(&tools)?;
        if let Some(library) = &library {
            library.attach(&server, &interaction);
        }
        let mut all_fit = true;
        for file in &histories {
            let checked = check(interaction.engine(), file);
            all_fit &= checked.is_ok();
            let verdict = match checked {
                Ok(()) => "fits".to_owned(),
                Err(error) => format!("{error:#}"),
            };
            print(&sanitize(&format!("{}: {verdict}", file.display())))?;
        }
        Ok(if all_fit { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn check(engine: &Engine, file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).context("cannot be read")?;
    let history = serde_json::from_str(&text).context("is no JSON")?;
    let history = SessionHistory::read(&history)?;
    engine.check_history(&history.events)?;
    Ok(())
}
