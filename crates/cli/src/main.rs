//! The `mcp-flow` command.

mod approval;
mod arguments;
mod ask;
mod command;
mod configuration;
mod conversation;
mod diagnostics;
mod download;
mod exit;
mod fault;
mod figures;
mod given;
mod guarded;
mod host;
mod interrupt;
mod log;
mod logins;
mod meter;
mod offer;
mod place;
mod reach;
mod readiness;
mod reload;
mod review;
mod show;
mod signing;
mod store;
mod target;
mod workflows;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::read();
    log::to_stderr(
        arguments.log.level.unwrap_or_default(),
        arguments.log.format.unwrap_or_default(),
    );
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            // Errors repeat what servers say, and files and arguments.
            eprintln!("mcp-flow: {}", show::neutral(&format!("{error:#}")));
            exit::Failure::exit_of(&error).into()
        }
    }
}
