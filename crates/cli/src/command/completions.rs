//! `mcp-flow completions`: scripts by which a shell completes commands, options, and what a server
//! offers.
//!
//! The scripts run this program with the variable `COMPLETE` and the words that were typed. The words
//! after a command's options are completed here: names of servers, tools, prompts and resources, and
//! arguments. Only servers at an address are asked: completing a line starts no program.

mod candidates;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};

use crate::arguments::{Arguments, Command};
use crate::client::connect::ConnectionSettings;
use crate::client::target::Target;
use crate::configuration::ClientConfiguration;
use crate::terminal::output;
use candidates::{Candidate, Kind};

/// Generate a shell completion script
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: mcp-flow completions bash > ~/.local/share/bash-completion/completions/mcp-flow"
)]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let own = match self.shell {
            Shell::Bash => Some(BASH),
            Shell::Zsh => Some(ZSH),
            _ => None,
        };
        if let Some(script) = own {
            output::print(script)?;
            return Ok(ExitCode::SUCCESS);
        }
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell.to_string()).context("unknown shell")?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
        output::print(&String::from_utf8(script)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints completions and exits, if a shell has asked for them.
pub(crate) fn complete() {
    CompleteEnv::with_factory(Arguments::command).var(VARIABLE).bin(NAME).complete();
}

/// Completes a word of a command that uses a server.
pub(crate) fn words(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let found = read_typed().and_then(|command| find(&command, current).ok());
    let found = found.unwrap_or_default().into_iter().filter(Candidate::is_plain);
    let found = found.filter(|found| found.value.starts_with(current));
    found
        .map(|found| CompletionCandidate::new(found.value).help(found.help.map(Into::into)))
        .collect()
}

/// Reads the command that was typed, up to the word to be completed.
fn read_typed() -> Option<Command> {
    let mut typed: Vec<OsString> =
        std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
    typed.truncate(index.unwrap_or(typed.len().saturating_sub(1)));
    let matches = Arguments::command().ignore_errors(true).try_get_matches_from(typed).ok()?;
    Some(Arguments::from_arg_matches(&matches).ok()?.command)
}

/// Finds what may follow the words of a command.
fn find(command: &Command, current: &str) -> anyhow::Result<Vec<Candidate>> {
    let (kind, (connect, words)) = match command {
        Command::Call(call) => (Kind::Tool, call.target_words()),
        Command::Prompt(prompt) => (Kind::Prompt, prompt.target_words()),
        Command::Read(read) => (Kind::Resource, read.target_words()),
        Command::Watch(watch) => (Kind::Resource, watch.target_words()),
        _ => {
            let file = std::env::var_os("MCP_FLOW_CONFIG").map(PathBuf::from);
            return candidates::servers(&ClientConfiguration::read(file.as_deref())?);
        }
    };
    if words.is_empty() {
        return candidates::servers(&connect.configuration()?);
    }
    let (target, rest) = connect.find_target(words)?;
    if !matches!(target, Target::Address(_)) {
        return Ok(Vec::new());
    }
    let connector = connect.connector(&target)?;
    let settings = ConnectionSettings { timeout: TIME, ..connect.settings()? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let asked = candidates::ask(connector, settings, kind, rest, current);
        tokio::time::timeout(TIME, asked).await
    });
    runtime.shutdown_background();
    found?
}

/// Variable in which the scripts name their shell.
const VARIABLE: &str = "COMPLETE";

const NAME: &str = "mcp-flow";

/// Time for a server to answer: somebody waits at a prompt.
const TIME: Duration = Duration::from_secs(3);

/// The script for bash, which splits words at colons and equal signs. URLs and arguments have both.
const BASH: &str = r##"_mcp_flow() {
    local line=${COMP_LINE:0:COMP_POINT} words last cut=
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    last=$((${#words[@]} - 1))
    local word=${words[last]} breaks=${COMP_WORDBREAKS//[^:=]/}
    [[ -n $breaks && $word == *["$breaks"]* ]] && cut=${word%"${word##*["$breaks"]}"}
    local IFS=$'\n'
    COMPREPLY=($(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$last COMPLETE=bash mcp-flow -- "${words[@]}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    [[ ${COMPREPLY-} == *[=/:] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o bashdefault -F _mcp_flow mcp-flow
"##;

/// The script for zsh, to be sourced or found by its completion system. Unlike clap's, it adds no space
/// where a value follows.
const ZSH: &str = r##"#compdef mcp-flow
_mcp_flow() {
    local -a open other
    local found
    for found in "${(@f)$(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((CURRENT - 1)) COMPLETE=zsh mcp-flow -- "${words[@]}" 2>/dev/null)}"; do
        if [[ ${found%%:*} == *[=/] ]]; then open+=("$found"); else other+=("$found"); fi
    done
    [[ -n $open ]] && _describe -V 'values' open -S ''
    [[ -n $other ]] && _describe -V 'values' other
}
if [[ ${funcstack[1]} == _mcp-flow ]]; then _mcp_flow "$@"; else compdef _mcp_flow mcp-flow; fi
"##;
