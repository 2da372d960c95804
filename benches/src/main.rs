//! Benchmarks of MCP Flow against references measured in the same run on the same machine.
//!
//! Every number is a ratio to a reference measured in the same minute, because a number alone says
//! more about the machine than about the code. `stdio` compares a small call with a bare loop and
//! the official SDK, `http` with a bare axum handler and the official SDK. `memory` compares a
//! flooded server with the same server idle, and `many` one with thousands of idle connections.
//! `client` compares the client library with the official SDK's, `cli` the command line with
//! `curl`, `start` the time until a server is ready with 50 ms, `resources` a large download with a bare
//! handler, and `flows` durable turns with rows
//! committed one by one and questions with those of the official SDK. `cluster` compares turns on
//! PostgreSQL and SQLite with rows written to them directly. `gateway` compares calls
//! through the gateway with direct ones. `guarded` compares a server
//! with access control, metrics, telemetry or a recording with one without, `cassette` recorded calls
//! with plain ones, `webtransport` round trips, bulk and memory
//! with quinn alone, `cbor` CBOR with JSON, and `tasks` polls of tasks with plain calls. `compile` measures seconds: the build of a crate
//! with a hundred tools, and of a minimal server from scratch beside the official SDK.
//!
//! The references are hidden subcommands of this binary, so that they are built with the same
//! compiler and profile as MCP Flow.

mod binary;
mod call;
mod cassette;
mod cbor;
mod cli;
mod client;
mod cluster;
mod collector;
mod compile;
mod declarative;
mod driver;
mod flows;
mod gateway;
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
mod start;
mod stdio;
mod tasks;
mod webtransport;
mod workflows;

use clap::Parser;

/// Benchmark MCP Flow against a bare loop and the official SDK
#[derive(Debug, Parser)]
enum Command {
    Stdio(stdio::Arguments),
    Http(http::Arguments),
    Memory(memory::Arguments),
    Many(many::Arguments),
    Resources(resources::Arguments),
    Cli(cli::Arguments),
    Start(start::Arguments),
    Flows(flows::Arguments),
    Cluster(cluster::Arguments),
    Gateway(gateway::Arguments),
    Guarded(guarded::Arguments),
    Cassette(cassette::Arguments),
    Webtransport(webtransport::Arguments),
    Cbor(cbor::Arguments),
    Compile(compile::Arguments),
    Client(client::Arguments),
    Workflows(workflows::Arguments),
    Tasks(tasks::Arguments),
    Declarative(declarative::Arguments),
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
    /// Read a file over WebTransport with pauses
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
        Command::Start(arguments) => print(&arguments.run()?),
        Command::Flows(arguments) => print(&arguments.run()?),
        Command::Cluster(arguments) => print(&arguments.run()?),
        Command::Gateway(arguments) => print(&arguments.run()?),
        Command::Guarded(arguments) => print(&arguments.run()?),
        Command::Cassette(arguments) => print(&arguments.run()?),
        Command::Webtransport(arguments) => print(&arguments.run()?),
        Command::Cbor(arguments) => print(&arguments.run()?),
        Command::Compile(arguments) => print(&arguments.run()?),
        Command::Client(arguments) => print(&arguments.run()?),
        Command::CallRmcp(calls) => print(&client::call_by_rmcp(calls)?.to_string()),
        Command::Workflows(arguments) => print(&arguments.run()?),
        Command::Tasks(arguments) => print(&arguments.run()?),
        Command::Declarative(arguments) => print(&arguments.run()?),
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
