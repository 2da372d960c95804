//! The command line: commands, global options, examples and exit codes.
//!
//! Each command declares its own options in `command`. Values that come from the environment or the
//! configuration file are joined there too.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::audit::Audit;
use crate::command::bridge::Bridge;
use crate::command::call::Call;
use crate::command::completions::Completions;
use crate::command::config::Config;
use crate::command::dev::Dev;
use crate::command::doctor::Doctor;
use crate::command::flows::Flows;
use crate::command::history::History;
use crate::command::install::Install;
use crate::command::list::{Prompts, Resources, Tools};
use crate::command::login::{Login, Logout};
use crate::command::manual::Man;
use crate::command::new::New;
use crate::command::nodes::Nodes;
use crate::command::pack::Pack;
use crate::command::ping::Ping;
use crate::command::pins::Pins;
use crate::command::prompt::Prompt;
use crate::command::read::{Read, Watch};
use crate::command::record::Record;
use crate::command::replay::Replay;
use crate::command::serve::Serve;
use crate::command::sessions::Sessions;
use crate::command::skills::Skills;
use crate::command::stdio::Stdio;
use crate::command::tail::Tail;
use crate::command::tasks::Tasks;
use crate::command::tool::Tool;
use crate::command::ui::Ui;
use crate::command::verify::Verify;
use crate::command::workflow::Workflow;

/// Run MCP servers, and use any MCP server from the terminal
#[derive(Debug, Parser)]
#[command(name = "mcp-flow", version, long_version = VERSIONS)]
#[command(propagate_version = true, after_help = EXAMPLES)]
#[command(subcommand_required = false, arg_required_else_help = false)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands; `serve` is the default.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<Serve>),
    Stdio(Stdio),
    Bridge(Box<Bridge>),
    Dev(Dev),
    Ui(Box<Ui>),
    Tools(Tools),
    Resources(Resources),
    Prompts(Prompts),
    Call(Call),
    Skills(Skills),
    Read(Read),
    Watch(Watch),
    Prompt(Prompt),
    Ping(Ping),
    Login(Box<Login>),
    Logout(Logout),
    Sessions(Sessions),
    Tasks(Tasks),
    New(New),
    Tool(Tool),
    Flows(Flows),
    Nodes(Nodes),
    Workflow(Workflow),
    Record(Record),
    Replay(Replay),
    Verify(Verify),
    Tail(Box<Tail>),
    History(History),
    Install(Install),
    Pack(Pack),
    Pins(Pins),
    Config(Config),
    Audit(Audit),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
}

impl Arguments {
    /// Parses the command line. A usage error is printed and exits with 2.
    pub(crate) fn read() -> Self {
        let typed: Vec<OsString> = std::env::args_os().collect();
        Self::parse_words(&typed).unwrap_or_else(|error| error.exit())
    }

    /// Parses words, with `serve` as the default command: its options work without its name.
    fn parse_words(typed: &[OsString]) -> Result<Self, clap::Error> {
        let mistake = match Self::try_parse_from(typed) {
            Ok(parsed) => return Ok(parsed),
            Err(mistake) => mistake,
        };
        match mistake.kind() {
            ErrorKind::MissingSubcommand | ErrorKind::UnknownArgument => {}
            ErrorKind::InvalidSubcommand => return Err(suggest_command(mistake, typed)),
            _ => return Err(mistake),
        }
        let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
        let Some((program, options)) =
            typed.split_first().filter(|(_, rest)| rest.first().is_none_or(is_option))
        else {
            return Err(mistake);
        };
        let served = [program.clone(), "serve".into()].into_iter().chain(options.iter().cloned());
        match Self::try_parse_from(served) {
            // An option that `serve` has, nearly.
            Err(other) if other.get(ContextKind::SuggestedArg).is_some() => Err(other),
            Err(other) if other.kind() == ErrorKind::UnknownArgument => Err(mistake),
            Ok(Self { log, command: Command::Serve(serve) })
                if mistake.kind() == ErrorKind::MissingSubcommand =>
            {
                Ok(Self { log, command: Command::Serve(Box::new(serve.with_welcome())) })
            }
            parsed => parsed,
        }
    }
}

/// Adds the commands that differ from what was typed by a letter or two: clap finds none of three letters.
fn suggest_command(mut mistake: clap::Error, typed: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(wrong)) = mistake.get(ContextKind::InvalidSubcommand) else {
        return mistake;
    };
    if mistake.get(ContextKind::SuggestedSubcommand).is_some() {
        return mistake;
    }
    let root = Arguments::command();
    let before = typed.iter().skip(1).take_while(|word| word.to_str() != Some(wrong));
    let parent =
        before.fold(&root, |command, word| command.find_subcommand(word).unwrap_or(command));
    let names = parent.get_subcommands().map(clap::Command::get_name);
    let near = names.filter(|name| strsim::damerau_levenshtein(wrong, name) <= 1 + wrong.len() / 5);
    let near: Vec<_> = near.map(str::to_owned).collect();
    if !near.is_empty() {
        mistake.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
    mistake
}

/// Logging options, common to all commands.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct LogOptions {
    /// Log level for stderr [default: warn]
    ///
    /// `info` logs every call; `trace` adds the beginning of every message.
    #[arg(id = "log_level", long = "log-level", global = true, value_enum, env = "MCP_FLOW_LOG")]
    #[arg(value_name = "LEVEL")]
    #[arg(help_heading = "Logging")]
    pub(crate) level: Option<LogLevel>,

    /// Log format [default: text]
    // Commands have a `--format` of their own, so the id differs.
    #[arg(id = "log_format", long = "log-format", global = true, help_heading = "Logging")]
    #[arg(value_enum, env = "MCP_FLOW_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) format: Option<LogFormat>,
}

/// Log format.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One line of text per event
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Least severe level that is logged.
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

/// Version of the program and of the specifications it implements (WFL-062).
const VERSIONS: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nMCP 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28",
    "\nworkflowlookup protocol 2024-11-05, specification 1.0.0"
);

const EXAMPLES: &str = "\
Examples:
  mcp-flow                            Serve the built-in tools on http://127.0.0.1:4433/mcp
  mcp-flow serve --listen 127.0.0.1:0 --json
                                      Serve on a free port and print the endpoints as JSON
  mcp-flow stdio                      Serve one MCP client over standard input and output
  mcp-flow bridge https://mcp.example.com/mcp
                                      Expose a remote server over standard input and output
  mcp-flow bridge --listen 127.0.0.1:8000 -- npx -y some-server
                                      Expose a stdio server over HTTP
  mcp-flow ui -- npx -y some-server   Open the console for any server
  mcp-flow dev -- python server.py    Restart a server when its files change
  mcp-flow install flow               Add this server to the configuration of MCP hosts
  mcp-flow record FILE -- COMMAND     Record the traffic with a server, without secrets
  mcp-flow verify FILE -- COMMAND     Check that a server still answers as recorded
  mcp-flow history FILE --step        Step through an exported session or a recording
  mcp-flow tail http://127.0.0.1:4433/mcp --errors
                                      Follow the calls of a running server that fail
  mcp-flow tools http://127.0.0.1:4433/mcp
                                      List the tools of a server
  mcp-flow login https://mcp.example.com/mcp
                                      Authenticate with a server using OAuth
  mcp-flow call calculator.add a=2 b=3 -- mcp-flow stdio
                                      Start a server and call one of its tools
  mcp-flow sessions list              List the sessions of the server on this machine
  mcp-flow sessions answer ID VALUE   Answer a session's pending question
  mcp-flow call TARGET TOOL --detach  Start a call that continues as a task, and print its id
  mcp-flow tasks watch TARGET ID      Follow a task to its end
  mcp-flow new NAME                   Create a project with a server of your own, in Rust
  mcp-flow tool new NAME --run        Create a file with a tool that runs a command
  mcp-flow serve --tools tools        Serve the tools that files in a directory declare
  mcp-flow flows check HISTORY        Check that exported sessions fit the code of the flows
  mcp-flow workflow list              List the workflows that agents can follow
  mcp-flow serve --gateway FILE       Serve the MCP servers in another host's `mcpServers` file
  mcp-flow pack                       Make an MCPB bundle and a registry entry of a server
  mcp-flow pins approve NAME.tool     Approve a changed tool of a server behind the gateway
  mcp-flow config check FILE          Validate a configuration file
  mcp-flow doctor --config FILE       Check that a server has everything it needs to start
  mcp-flow audit verify FILE          Verify the integrity of an audit log
  mcp-flow stdio --diagnostics        Add the tools echo, sleep, fail and panic, to test clients

Exit codes:
  0    Success; a server stopped on request
  1    A tool or session failed, a check failed, or a server could not start or lost its client
  2    Usage error, or a required argument is missing
  3    The server cannot be reached
  4    The server violated the protocol or rejected the request
  5    Access denied: authentication or authorization failed, or the user declined
  130  Interrupted by ctrl-c";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::error::ErrorKind;

    use super::{Arguments, Command};

    fn parse(typed: &[&str]) -> Result<Arguments, clap::Error> {
        let typed: Vec<_> = typed.iter().map(|word| (*word).into()).collect();
        Arguments::parse_words(&typed)
    }

    /// Every command line in the documentation has commands and options that exist.
    #[test]
    fn commands_in_the_documentation_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut waiting: Vec<_> =
            ["README.md", "docs", "console/README.md", "crates/mcp-flow/guide"]
                .map(|name| root.join(name))
                .into();
        let (mut count, mut wrong) = (0, Vec::new());
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            // The reference is made of the code itself.
            if path.extension().is_none_or(|extension| extension != "md")
                || path.ends_with("cli.md")
            {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap().replace("\\\n", " ");
            for command in text.lines().flat_map(commands) {
                count += 1;
                let words = words(&command);
                let parsed = parse(&words.iter().map(String::as_str).collect::<Vec<_>>());
                // Placeholders are no values, and a command in a sentence may lack its arguments.
                if let Err(error) = parsed
                    && matches!(
                        error.kind(),
                        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
                    )
                {
                    wrong.push(format!("{}: {command}\n{error}", path.display()));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 150, "{count} commands");
    }

    /// The commands of this program in a line: the line itself, or the code in a sentence.
    fn commands(line: &str) -> Vec<String> {
        let code = line.split('`').skip(1).step_by(2);
        let whole = line.trim_start().trim_start_matches("$ ");
        // Not a dependency in a Cargo.toml.
        let starts =
            |text: &&str| text.starts_with("mcp-flow ") && !text.starts_with("mcp-flow = ");
        code.chain([whole]).filter(starts).map(str::to_owned).collect()
    }

    /// The words of one command, without its explanation and what a shell does with it.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut quote, mut is_new) = (Vec::<String>::new(), None, true);
        for (index, letter) in command.char_indices() {
            match (quote, letter) {
                (Some(mark), _) if letter == mark => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, '|' | '>' | '<' | '&' | ';' | '#' | ')' | '`') => break,
                // An explanation is set apart.
                (None, ' ') if command[index..].starts_with("  ") => break,
                (None, ' ') => is_new = true,
                // Marks of what may be left out or repeated.
                (None, '[' | ']' | '…') => {}
                _ if is_new => {
                    words.push(letter.into());
                    is_new = false;
                }
                _ => words.last_mut().unwrap().push(letter),
            }
        }
        words.iter().map(|word| word.trim_end_matches("...").to_owned()).collect()
    }

    #[test]
    fn serve_is_the_default_command() {
        let options = ["--listen", "127.0.0.1:0", "--diagnostics"];
        for options in [&[][..], &["--log-level", "off"], &["--json"], &options] {
            let typed = [&["mcp-flow"], options].concat();
            let parsed = parse(&typed).unwrap();
            assert!(matches!(parsed.command, Command::Serve(_)), "{typed:?}");
        }
        for wrong in [&["mcp-flow", "--nonsense"][..], &["mcp-flow", "--listen", "nowhere"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
