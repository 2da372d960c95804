//! The commands, one module each.

pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stdio;
pub(crate) mod workflow;

use std::process::ExitCode;

use crate::arguments::{Arguments, Command};

/// Runs what was asked for.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command.unwrap_or_else(|| Command::Serve(Box::default())) {
        Command::Serve(serve) => serve.run(),
        Command::Stdio(stdio) => stdio.run(),
        Command::Sessions(sessions) => sessions.run(),
        Command::Workflow(workflow) => workflow.run(),
    }
}
