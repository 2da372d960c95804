//! The `mcp-flow` command.

mod arguments;
mod command;
mod diagnostics;
mod log;
mod offer;
mod store;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    log::to_stderr(arguments.log_level);
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mcp-flow: {error:#}");
            ExitCode::FAILURE
        }
    }
}
