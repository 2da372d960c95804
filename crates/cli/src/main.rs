//! The `mcp-flow` command.

mod arguments;
mod client;
mod command;
mod configuration;
mod exit;
mod log;
mod platform;
mod server;
mod terminal;

use std::process::ExitCode;

use mcp_flow_declarative::sandbox;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|first| first == sandbox::COMMAND) {
        return sandbox::launch(words);
    }
    command::completions::complete();
    let _ = platform::catch_full_files();
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
