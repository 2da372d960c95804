//! `mcp-flow stdio`: serve the program that started this one.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory, ValueEnum};
use mcp_flow::observability::CallLog;
use mcp_flow::workflow::LookupTools;
use mcp_flow::{ConnectionEnd, Revision, ServerBuilder, VersionPolicy};

use crate::arguments::{Arguments, LogOptions};
use crate::configuration::File;
use crate::offer::{Door, Offer};
use crate::{guarded, log, workflows};

/// Serve one client over standard input and output
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Stdio {
    /// Whose rules to follow where documents disagree
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,

    /// Answer requests strictly in the order they came
    #[arg(long, conflicts_with = "max_concurrency")]
    ordered: bool,

    /// Configuration file (TOML). Command-line options take precedence
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// Write an audit log of all calls to this file
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,

    #[command(flatten)]
    offer: Offer,
}

/// Whose rules to follow where documents disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// The official specification: negotiate the version, run calls at the same time
    #[default]
    Standard,
    /// The workflowlookup document: exactly its version, replies in order
    Workflowlookup,
}

impl Stdio {
    pub(crate) fn run(mut self, log: LogOptions) -> anyhow::Result<ExitCode> {
        let mut file = File::read_or_default(self.config.as_deref())?;
        log::follow(log, &file.log);
        file.audit.file = self.audit.take().or(file.audit.file);
        let principal = guarded::by_environment(&file)?;
        self.offer = std::mem::take(&mut self.offer).or(file.offer.clone(), file.sessions.clone());
        if std::io::stdin().is_terminal() {
            eprintln!("{TERMINAL_HELP}");
        }
        let (server, workflows) = match self.builder(&file) {
            Ok(served) => served,
            Err(error) if self.profile == Profile::Workflowlookup => {
                return workflows::refuse(&error);
            }
            Err(error) => return Err(error),
        };
        let server = match &self.config {
            Some(_) => server.permissions(guarded::permissions(&file)),
            None => server,
        };
        let server = match file.signing.signing()? {
            Some(signing) => server.signing(signing),
            None => server,
        };
        let audit = file.audit.open()?;
        let server = server.observer(CallLog);
        let server = match &audit {
            Some(audit) => server.observer(audit.clone()),
            None => server,
        };
        let server = server.build()?;
        let _following = workflows::follow(&workflows, &server);
        let ended = mcp_flow::stdio::run_as(&server, principal).context("stdio");
        if let Some(audit) = audit {
            audit.close();
        }
        Ok(match ended? {
            ConnectionEnd::Drained | ConnectionEnd::Exit { after_shutdown: true } => {
                ExitCode::SUCCESS
            }
            _ => ExitCode::FAILURE,
        })
    }

    fn builder(&self, file: &File) -> anyhow::Result<(ServerBuilder, LookupTools)> {
        let strict = self.profile == Profile::Workflowlookup;
        if strict && self.offer.minimum_version.is_some() {
            let conflict = "the workflowlookup profile speaks 2024-11-05 and nothing else; \
                            leave --minimum-version out, and offer.minimum_version of the file";
            Arguments::command().error(ErrorKind::ArgumentConflict, conflict).exit();
        }
        let limits = |in_order| {
            let limits = file.limits.limits(file.serve.drain_seconds, false);
            self.offer.limits(limits, in_order)
        };
        let (server, workflows) = match self.profile {
            Profile::Standard => {
                let offered = self.offer.server(limits(self.ordered), Door::Single)?;
                (offered.server, offered.workflows)
            }
            Profile::Workflowlookup => {
                let (server, workflows) = self.offer.lookup_server(limits(true))?;
                (server.versions(VersionPolicy::Only(Revision::V2024_11_05)), workflows)
            }
        };
        Ok((server, workflows))
    }
}

const TERMINAL_HELP: &str = "\
mcp-flow stdio: an MCP server, waiting for one JSON-RPC message per line on standard input.
It is meant to be started by an MCP client. To try it by hand, paste these lines:

{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}}
{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}
{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"calculator.add\",\"arguments\":{\"a\":2,\"b\":3}}}

ctrl-d ends it. For the other commands: mcp-flow --help
";

#[cfg(test)]
mod tests {
    use clap::Parser;
    use mcp_flow::ContentForm;

    use crate::arguments::{Arguments, Command};
    use crate::configuration::File;

    /// C-26: whoever needs the forms of seed 002 can have them.
    #[test]
    fn the_form_of_content_can_be_chosen() {
        for (arguments, form) in [
            (&[][..], ContentForm::Official),
            (&["--content=official"], ContentForm::Official),
            (&["--content=seed002"], ContentForm::Seed002),
        ] {
            let arguments = [&["mcp-flow", "stdio", "--store=memory:"], arguments].concat();
            let Arguments { command: Some(Command::Stdio(stdio)), .. } =
                Arguments::try_parse_from(&arguments).unwrap()
            else {
                panic!("{arguments:?} is not understood as stdio")
            };
            let (server, _) = stdio.builder(&File::default()).unwrap();
            assert_eq!(server.build().unwrap().content_form(), form);
        }
    }
}
