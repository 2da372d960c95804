//! What can be typed after `mcp-flow`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::audit::Audit;
use crate::command::call::Call;
use crate::command::config::Config;
use crate::command::doctor::Doctor;
use crate::command::list::{Prompts, Resources, Tools};
use crate::command::login::{Login, Logout};
use crate::command::manual::{Completions, Man};
use crate::command::ping::Ping;
use crate::command::prompt::Prompt;
use crate::command::read::{Read, Watch};
use crate::command::serve::Serve;
use crate::command::sessions::Sessions;
use crate::command::stdio::Stdio;
use crate::command::workflow::Workflow;

/// MCP servers: serve your own, and use any other from the terminal
#[derive(Debug, Parser)]
#[command(name = "mcp-flow", version, long_version = VERSIONS)]
#[command(propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do; `serve` if nothing is said.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<Serve>),
    Stdio(Stdio),
    Tools(Tools),
    Resources(Resources),
    Prompts(Prompts),
    Call(Call),
    Read(Read),
    Watch(Watch),
    Prompt(Prompt),
    Ping(Ping),
    Login(Box<Login>),
    Logout(Logout),
    Sessions(Sessions),
    Workflow(Workflow),
    Config(Config),
    Audit(Audit),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
}

impl Arguments {
    /// What was typed; a mistake is explained, and ends the program with 2.
    pub(crate) fn read() -> Self {
        let typed: Vec<OsString> = std::env::args_os().collect();
        Self::understand(&typed).unwrap_or_else(|error| error.exit())
    }

    /// Options that only `serve` has are meant for it, since it is what is done if nothing is said.
    fn understand(typed: &[OsString]) -> Result<Self, clap::Error> {
        let mistake = match Self::try_parse_from(typed) {
            Err(mistake) if mistake.kind() == ErrorKind::UnknownArgument => mistake,
            understood => return understood,
        };
        let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
        let Some((program, options)) =
            typed.split_first().filter(|(_, rest)| rest.first().is_some_and(is_option))
        else {
            return Err(mistake);
        };
        let served = [program.clone(), "serve".into()].into_iter().chain(options.iter().cloned());
        match Self::try_parse_from(served) {
            Err(other) if other.kind() == ErrorKind::UnknownArgument => Err(mistake),
            understood => understood,
        }
    }
}

/// What the command line says of the log.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct LogOptions {
    /// Log level for stderr [default: warn]
    ///
    /// `info` has a line for each call, `trace` the beginning of each message as well.
    #[arg(id = "log_level", long = "log-level", global = true, value_enum, env = "MCP_FLOW_LOG")]
    #[arg(help_heading = "Logging")]
    pub(crate) level: Option<LogLevel>,

    /// Log format [default: text]
    // The id is not that of the `--format` which some commands have.
    #[arg(id = "log_format", long = "log-format", global = true, help_heading = "Logging")]
    #[arg(value_enum, env = "MCP_FLOW_LOG_FORMAT")]
    pub(crate) format: Option<LogFormat>,
}

/// How the log is written.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people: lines of text
    #[default]
    Text,
    /// For programs: one JSON object a line
    Json,
}

/// How much is said on standard error.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Off,
    Error,
    #[default]
    Warn,
    Info,
    Debug,
    Trace,
}

/// What speaks here, and by which documents (WFL-062).
const VERSIONS: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nMCP 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28",
    "\nworkflowlookup protocol 2024-11-05, specification 1.0.0"
);

const EXAMPLES: &str = "\
Examples:
  mcp-flow                            serve the built-in tools on http://127.0.0.1:4433/mcp
  mcp-flow serve --listen 127.0.0.1:0 --json
                                      on a free port, telling a program where
  mcp-flow stdio                      serve the built-in tools to the program that started this
  mcp-flow tools http://127.0.0.1:4433/mcp
                                      what a server offers
  mcp-flow login https://mcp.example.com/mcp
                                      log in to a server that requires authentication
  mcp-flow call calculator.add a=2 b=3 -- mcp-flow stdio
                                      call a tool of a server that is started for it
  mcp-flow sessions list              the conversations of the server on this machine
  mcp-flow sessions answer ID VALUE   answer the question one of them waits with
  mcp-flow workflow list              the workflows that keep agents on the rails
  mcp-flow config check FILE          what is wrong with a configuration file, if anything
  mcp-flow doctor --config FILE       whether a server would find everything it needs
  mcp-flow audit verify FILE          whether a log of who called what is as it was written
  mcp-flow stdio --diagnostics        with echo, sleep, fail and panic for trying a client out

Exit codes:
  0    done; a server ended as it was asked to
  1    a tool failed, a session is not there or refused an answer, a server cannot start or lost
       its client
  2    the command line is wrong, or an argument the tool requires is missing
  3    nobody answers at the target
  4    what answers does not keep to the protocol, or refused the request
  5    denied: the server wants a login or other credentials, or a person said no
  130  interrupted by ctrl-c";

#[cfg(test)]
mod tests {
    use super::{Arguments, Command};

    fn understand(typed: &[&str]) -> Result<Arguments, clap::Error> {
        let typed: Vec<_> = typed.iter().map(|word| (*word).into()).collect();
        Arguments::understand(&typed)
    }

    #[test]
    fn serve_is_what_is_done_if_nothing_is_said() {
        for options in [&["--json"][..], &["--listen", "127.0.0.1:0", "--diagnostics"]] {
            let typed = [&["mcp-flow"], options].concat();
            let understood = understand(&typed).unwrap();
            assert!(matches!(understood.command, Some(Command::Serve(_))), "{typed:?}");
        }
        assert!(understand(&["mcp-flow"]).unwrap().command.is_none());
        for wrong in [&["mcp-flow", "--nonsense"][..], &["mcp-flow", "--listen", "nowhere"]] {
            assert!(understand(wrong).is_err(), "{wrong:?}");
        }
    }
}
