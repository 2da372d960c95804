//! `mcp-flow stdio`: serves the parent process over standard input and output.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory, ValueEnum};
use mcp_flow::workflow::LookupTools;
use mcp_flow::{ConnectionEnd, Revision, ServerBuilder, VersionPolicy};
use mcp_flow_gateway::Gateway;

use crate::arguments::{Arguments, LogOptions};
use crate::configuration::File;
use crate::log;
use crate::server::offer::{Exposure, OfferOptions};
use crate::server::tool_files::ToolFiles;
use crate::server::user_logins::{ReturnTo, UserLogins};
use crate::server::{access, build, gateway, telemetry, workflows};

/// Serve one client over standard input and output
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Stdio {
    /// Specification to follow
    #[arg(long, value_enum, default_value_t, help_heading = "Protocol")]
    profile: Profile,

    /// Process requests strictly in the order of their arrival
    #[arg(long, conflicts_with = "max_concurrency", help_heading = "Protocol")]
    ordered: bool,

    /// Configuration file (TOML); command-line options take precedence
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// Write an audit log of all calls to this file
    #[arg(long, alias = "audit", value_name = "FILE", help_heading = "Logging")]
    audit_log: Option<PathBuf>,

    #[command(flatten)]
    offer: OfferOptions,
}

/// Specification to follow where documents disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// The MCP specification: negotiated version, concurrent calls
    #[default]
    Standard,
    /// The workflowlookup specification: its version only, responses in order
    Workflowlookup,
}

impl Stdio {
    pub(crate) fn run(mut self, log: LogOptions) -> anyhow::Result<ExitCode> {
        let mut file = File::read_or_default(self.config.as_deref())?;
        log::apply(log, &file.log);
        file.audit.file = self.audit_log.take().or(file.audit.file);
        let principal = access::principal_from_environment(&file)?;
        self.offer = std::mem::take(&mut self.offer).or(file.offer.clone(), file.sessions.clone());
        if std::io::stdin().is_terminal() {
            eprintln!("{TERMINAL_HELP}");
        }
        let logins = UserLogins::new(self.offer.store());
        logins.return_to(ReturnTo::LocalPort);
        let gateway = match self.profile {
            Profile::Standard => gateway::open(&self.offer, &file, false, &logins)?,
            Profile::Workflowlookup => None,
        };
        let (server, workflows, tools) = match self.builder(&file, gateway.as_ref()) {
            Ok(served) => served,
            Err(error) if self.profile == Profile::Workflowlookup => {
                return workflows::answer_with_startup_error(&error);
            }
            Err(error) => return Err(error),
        };
        let permissions = self.config.as_ref().map(|_| access::permissions(&file));
        let telemetry = telemetry::start(&file.telemetry);
        let (server, audit) =
            build::configure(server, &file, permissions.as_ref(), telemetry.as_ref())?;
        let server = match &gateway {
            Some(gateway) => gateway.add_to(server),
            None => server,
        };
        let server = server.build()?;
        if let Some(gateway) = &gateway {
            gateway.attach(&server);
        }
        let _watching = workflows::watch_files(&workflows, &server);
        let _following = tools.as_ref().map(|tools| tools.attach(&server));
        let ended = mcp_flow::stdio::run_as(&server, principal).context("stdio");
        if let Some(audit) = audit {
            audit.close();
        }
        if let Some(telemetry) = telemetry {
            telemetry.stop();
        }
        Ok(match ended? {
            ConnectionEnd::Drained | ConnectionEnd::Exit { after_shutdown: true } => {
                ExitCode::SUCCESS
            }
            _ => ExitCode::FAILURE,
        })
    }

    fn builder(
        &self,
        file: &File,
        gateway: Option<&Gateway>,
    ) -> anyhow::Result<(ServerBuilder, LookupTools, Option<ToolFiles>)> {
        let strict = self.profile == Profile::Workflowlookup;
        if strict && self.offer.minimum_version.is_some() {
            let conflict = "the workflowlookup profile supports only revision 2024-11-05; remove \
                            --minimum-version, or offer.minimum_version from the file";
            Arguments::command().error(ErrorKind::ArgumentConflict, conflict).exit();
        }
        let limits = |in_order| {
            let limits = file.limits.limits(file.serve.drain_seconds, false);
            self.offer.limits(limits, in_order)
        };
        Ok(match self.profile {
            Profile::Standard => {
                let limits = limits(self.ordered);
                let offered = self.offer.server(limits, Exposure::SingleClient, gateway)?;
                (offered.server, offered.workflows, offered.tools)
            }
            Profile::Workflowlookup => {
                let (server, workflows) = self.offer.lookup_server(limits(true))?;
                (server.versions(VersionPolicy::Only(Revision::V2024_11_05)), workflows, None)
            }
        })
    }
}

const TERMINAL_HELP: &str = "\
mcp-flow stdio: an MCP server that reads one JSON-RPC message per line from standard input.
MCP clients start it. To try it by hand, paste these lines:

{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}}
{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}
{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"calculator.add\",\"arguments\":{\"a\":2,\"b\":3}}}

Press ctrl-d to exit. See mcp-flow --help for other commands.
";

#[cfg(test)]
mod tests {
    use clap::Parser;
    use mcp_flow::ContentForm;

    use crate::arguments::{Arguments, Command};
    use crate::configuration::File;

    /// C-26: the content format of seed 002 is an option.
    #[test]
    fn the_content_format_is_an_option() {
        for (arguments, form) in [
            (&[][..], ContentForm::Official),
            (&["--content=official"], ContentForm::Official),
            (&["--content=seed002"], ContentForm::Seed002),
        ] {
            let arguments = [&["mcp-flow", "stdio", "--store=memory:"], arguments].concat();
            let Arguments { command: Command::Stdio(stdio), .. } =
                Arguments::try_parse_from(&arguments).unwrap()
            else {
                panic!("{arguments:?} is not parsed as stdio")
            };
            let (server, ..) = stdio.builder(&File::default(), None).unwrap();
            assert_eq!(server.build().unwrap().content_form(), form);
        }
    }
}
