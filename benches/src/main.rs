//! Measures MCP Flow beside what it must be compared with, in one run on one machine.
//!
//! Every number is a ratio to a neighbour measured in the same minute, because a number alone says
//! more about the machine than about the code. `stdio` compares a small call with a bare loop and
//! with the official SDK, `http` with a bare axum handler and with the official SDK; `memory`
//! compares a flooded server with itself at rest, and `many` one with thousands of idle
//! connections; `client` compares our client library with the official SDK's, `cli` the command line
//! with `curl`, `resources` a large download with a bare handler, `flows` durable turns with rows
//! committed one by one and questions with those of the official SDK, `guarded` a server that asks who
//! calls and counts what with one that does neither, `webtransport` round trips,
//! bulk and memory with quinn alone, `cbor` itself with JSON; `compile` is the one that counts
//! seconds, those a crate with a hundred tools takes to build, and a server of one tool from scratch
//! beside the official SDK.
//!
//! The neighbours are hidden subcommands of this binary, so they are built with the same compiler
//! and the same profile as what they are compared with.

mod binary;
mod call;
mod cbor;
mod cli;
mod client;
mod compile;
mod driver;
mod flows;
mod guarded;
mod http;
mod ledger;
mod lines;
mod listening;
mod many;
mod memory;
mod peer;
mod placement;
mod process;
mod reply;
mod report;
mod resources;
mod servers;
mod stdio;
mod webtransport;
mod workflows;

use clap::Parser;

/// Measure MCP Flow beside a bare loop and the official SDK
#[derive(Debug, Parser)]
enum Command {
    Stdio(stdio::Arguments),
    Http(http::Arguments),
    Memory(memory::Arguments),
    Many(many::Arguments),
    Resources(resources::Arguments),
    Cli(cli::Arguments),
    Flows(flows::Arguments),
    Guarded(guarded::Arguments),
    Webtransport(webtransport::Arguments),
    Cbor(cbor::Arguments),
    Compile(compile::Arguments),
    Client(client::Arguments),
    Workflows(workflows::Arguments),
    /// Serve `calculator.add` from a plain blocking loop
    #[command(hide = true)]
    ServeBare,
    /// Serve `calculator.add` with the official SDK
    #[command(hide = true)]
    ServeRmcp(servers::rmcp::Settings),
    /// Call `calculator.add` many times at once with the official SDK
    #[command(hide = true)]
    CallRmcp(client::Calls),
    /// Serve a tool that asks, with the official SDK
    #[command(hide = true)]
    ServeRmcpAsking(servers::rmcp::Settings),
    /// Serve `calculator.add` over HTTP from a plain axum handler
    #[command(hide = true)]
    ServeAxum(servers::axum::Settings),
    /// Serve `calculator.add` over HTTP with the official SDK
    #[command(hide = true)]
    ServeRmcpHttp(servers::rmcp_http::Settings),
    /// Serve one file over HTTP, and nothing else
    #[command(hide = true)]
    ServeFile(servers::files::Settings),
    /// Serve one file and echoes over QUIC, and nothing else
    #[command(hide = true)]
    ServeQuinn(servers::quinn::Settings),
    /// Read a file over WebTransport with rests in between
    #[command(hide = true)]
    ReadSlowly(webtransport::slow::Settings),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Stdio(arguments) => print(&arguments.run()?),
        Command::Http(arguments) => print(&arguments.run()?),
        Command::Memory(arguments) => print(&arguments.run()?),
        Command::Many(arguments) => print(&arguments.run()?),
        Command::Resources(arguments) => print(&arguments.run()?),
        Command::Cli(arguments) => print(&arguments.run()?),
        Command::Flows(arguments) => print(&arguments.run()?),
        Command::Guarded(arguments) => print(&arguments.run()?),
        Command::Webtransport(arguments) => print(&arguments.run()?),
        Command::Cbor(arguments) => print(&arguments.run()?),
        Command::Compile(arguments) => print(&arguments.run()?),
        Command::Client(arguments) => print(&arguments.run()?),
        Command::CallRmcp(calls) => print(&client::call_by_rmcp(calls)?.to_string()),
        Command::Workflows(arguments) => print(&arguments.run()?),
        Command::ServeBare => servers::bare::serve()?,
        Command::ServeRmcp(settings) => servers::rmcp::serve(settings)?,
        Command::ServeRmcpAsking(settings) => servers::rmcp_asking::serve(settings)?,
        Command::ServeAxum(settings) => servers::axum::serve(settings)?,
        Command::ServeRmcpHttp(settings) => servers::rmcp_http::serve(settings)?,
        Command::ServeFile(settings) => servers::files::serve(settings)?,
        Command::ServeQuinn(settings) => servers::quinn::serve(settings)?,
        Command::ReadSlowly(settings) => webtransport::slow::read(settings)?,
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a finished report is for stdout; no server runs here")]
fn print(report: &str) {
    println!("{report}");
}
