//! The `mcp-flow` command.

mod arguments;
mod client;
mod command;
mod configuration;
mod exit;
mod log;
mod server;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::read();
    log::init(arguments.log.level.unwrap_or_default(), arguments.log.format.unwrap_or_default());
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            // Errors quote servers, files and arguments.
            eprintln!("mcp-flow: {}", terminal::output::sanitize(&format!("{error:#}")));
            exit::Failure::exit_of(&error).into()
        }
    }
}
