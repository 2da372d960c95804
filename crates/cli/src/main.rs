//! The `mcp-flow` command.

mod arguments;
mod command;
mod diagnostics;
mod exit;
mod log;
mod offer;
mod store;
mod workflows;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::read();
    log::to_stderr(arguments.log_level);
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mcp-flow: {error:#}");
            exit::Failure::exit_of(&error).into()
        }
    }
}
