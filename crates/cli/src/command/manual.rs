//! `mcp-flow man`: manual pages.

mod markdown;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::terminal::output;
pub(super) use markdown::escape;

/// Generate manual pages
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: mcp-flow man | man -l -")]
pub(crate) struct Man {
    /// Write a page for each command to this directory, instead of one page to standard output
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Print the reference of all commands in Markdown
    #[arg(long, conflicts_with = "output")]
    markdown: bool,
}

impl Man {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut command = Arguments::command();
        if self.markdown {
            output::print(&markdown::render(&mut command))?;
            return Ok(ExitCode::SUCCESS);
        }
        match self.output {
            Some(folder) => {
                let problem = || format!("cannot write to {}", folder.display());
                std::fs::create_dir_all(&folder).with_context(problem)?;
                clap_mangen::generate_to(command, &folder).with_context(problem)?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page)?;
                output::print(&String::from_utf8(page)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
