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
use std::{io, sync::Arc};

use mcp_flow_declarative::sandbox;
use rustix::process::Signal;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|first| first == sandbox::COMMAND) {
        return sandbox::launch(words);
    }
    command::completions::complete();
    let _ = catch_full_files();
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

/// Makes a write beyond the limit on the size of files fail, as on a full disk, instead of ending the
/// program. The signal is caught rather than ignored, because programs started here would ignore it too.
fn catch_full_files() -> io::Result<()> {
    signal_hook::flag::register(Signal::XFSZ.as_raw(), Arc::default())?;
    Ok(())
}
