//! Measures MCP Flow beside what it must be compared with, in one run on one machine.
//!
//! Every number is a ratio to a neighbour measured in the same minute, because a number alone says
//! more about the machine than about the code. `stdio` compares a small call with a bare loop and
//! with the official SDK; `memory` compares a flooded server with itself at rest; `compile` is the
//! one that counts seconds, those a crate with a hundred tools takes to build.
//!
//! The neighbours are hidden subcommands of this binary, so they are built with the same compiler
//! and the same profile as what they are compared with.

mod binary;
mod compile;
mod driver;
mod ledger;
mod lines;
mod memory;
mod peer;
mod placement;
mod process;
mod report;
mod servers;
mod stdio;

use clap::Parser;

/// Measure MCP Flow beside a bare loop and the official SDK
#[derive(Debug, Parser)]
enum Command {
    Stdio(stdio::Arguments),
    Memory(memory::Arguments),
    Compile(compile::Arguments),
    /// Serve `calculator.add` from a plain blocking loop
    #[command(hide = true)]
    ServeBare,
    /// Serve `calculator.add` with the official SDK
    #[command(hide = true)]
    ServeRmcp(servers::rmcp::Settings),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Stdio(arguments) => print(&arguments.run()?),
        Command::Memory(arguments) => print(&arguments.run()?),
        Command::Compile(arguments) => print(&arguments.run()?),
        Command::ServeBare => servers::bare::serve()?,
        Command::ServeRmcp(settings) => servers::rmcp::serve(settings)?,
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a finished report is for stdout; no server runs here")]
fn print(report: &str) {
    println!("{report}");
}
