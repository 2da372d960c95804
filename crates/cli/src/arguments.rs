//! What can be typed after `mcp-flow`.

use clap::{Parser, Subcommand, ValueEnum};

use crate::command::serve::Serve;
use crate::command::sessions::Sessions;
use crate::command::stdio::Stdio;

/// MCP tools, served to clients of every revision
#[derive(Debug, Parser)]
#[command(name = "mcp-flow", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How much to say on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogLevel::Warn, env = "MCP_FLOW_LOG")]
    pub(crate) log_level: LogLevel,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do; `serve` if nothing is said.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<Serve>),
    Stdio(Stdio),
    Sessions(Sessions),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

const EXAMPLES: &str = "\
Examples:
  mcp-flow                            serve the built-in tools on http://127.0.0.1:4433/mcp
  mcp-flow serve --listen 127.0.0.1:0 --json
                                      on a free port, telling a program where
  mcp-flow stdio                      serve the built-in tools to the program that started this
  mcp-flow sessions list              the conversations of the server on this machine
  mcp-flow sessions answer ID VALUE   answer the question one of them waits with
  mcp-flow stdio --diagnostics        with echo, sleep, fail and panic for trying a client out

Exit codes:
  0  the client left, or asked for shutdown; a signal ended the server
  1  the client sent exit without shutdown, or went away in the middle; the server cannot start;
     a session cannot be read, or its answer was refused
  2  the command line is wrong";
