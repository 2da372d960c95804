//! `mcp-flow stdio`: serve the program that started this one.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory, ValueEnum};
use mcp_flow::{ContentForm, Ended, Limits, Revision, Server, ToolNames, VersionPolicy};

use crate::arguments::Arguments;
use crate::diagnostics;

/// Serve one client over standard input and output
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Stdio {
    /// Whose rules to follow where documents disagree
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,

    /// Answer requests strictly in the order they came
    #[arg(long)]
    ordered: bool,

    /// How many calls may run at the same time
    #[arg(long, value_name = "N", conflicts_with = "ordered", value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_concurrency: Option<u32>,

    /// Refuse clients that need an older protocol revision
    #[arg(long, value_name = "REVISION", value_parser = handshake_revision)]
    minimum_version: Option<Revision>,

    /// Under which names to list tools; they can be called by both
    #[arg(long, value_enum, default_value_t, value_name = "SPELLING")]
    tool_names: Spelling,

    /// Whose way of writing images, links and embedded resources to follow
    #[arg(long, value_enum, default_value_t)]
    content: Form,

    /// Add the tools echo, sleep, fail and panic
    #[arg(long)]
    diagnostics: bool,
}

/// How the names of tools are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Spelling {
    /// With dots, as documented: calculator.add
    #[default]
    Dotted,
    /// For hosts that refuse dots: calculator_add
    Underscore,
}

impl From<Spelling> for ToolNames {
    fn from(spelling: Spelling) -> Self {
        match spelling {
            Spelling::Dotted => Self::AsRegistered,
            Spelling::Underscore => Self::Underscore,
        }
    }
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

/// Whose way of writing content to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The official specification, as each revision has it
    #[default]
    Official,
    /// Seed document 002, in every revision, for clients that know no other
    Seed002,
}

impl Stdio {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if std::io::stdin().is_terminal() {
            eprintln!("{TERMINAL_HELP}");
        }
        let server = self.server()?;
        Ok(match mcp_flow::stdio::run(&server).context("stdio")? {
            Ended::Drained | Ended::Exit { after_shutdown: true } => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }

    fn server(&self) -> anyhow::Result<Server> {
        let mut limits = Limits::default();
        let strict = self.profile == Profile::Workflowlookup;
        if self.ordered || strict {
            limits.concurrency = 1;
        }
        if let Some(concurrency) = self.max_concurrency {
            limits.concurrency = concurrency as usize;
        }
        if strict && self.minimum_version.is_some() {
            let conflict = "the workflowlookup profile speaks 2024-11-05 and nothing else; \
                            leave --minimum-version out";
            Arguments::command().error(ErrorKind::ArgumentConflict, conflict).exit();
        }
        let versions = match self.profile {
            Profile::Standard => VersionPolicy::Negotiate { minimum: self.minimum_version },
            Profile::Workflowlookup => VersionPolicy::Only(Revision::V2024_11_05),
        };
        let server = Server::builder("mcp-flow", env!("CARGO_PKG_VERSION"))
            .description("MCP Flow with its built-in example tools")
            .versions(versions)
            .limits(limits)
            .content_form(match self.content {
                Form::Official => ContentForm::Official,
                Form::Seed002 => ContentForm::Seed002,
            })
            .tool_names(self.tool_names.into())
            .tools(mcp_flow_examples::tools());
        let server = if self.diagnostics { server.tools(diagnostics::tools()) } else { server };
        Ok(server.build()?)
    }
}

fn handshake_revision(name: &str) -> Result<Revision, String> {
    Revision::handshake().find(|revision| revision.name() == name).ok_or_else(|| {
        let names: Vec<_> = Revision::handshake().map(Revision::name).collect();
        format!("use one of {}", names.join(", "))
    })
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

    /// C-26: whoever needs the forms of seed 002 can have them.
    #[test]
    fn the_form_of_content_can_be_chosen() {
        for (arguments, form) in [
            (&["mcp-flow", "stdio"][..], ContentForm::Official),
            (&["mcp-flow", "stdio", "--content=official"], ContentForm::Official),
            (&["mcp-flow", "stdio", "--content=seed002"], ContentForm::Seed002),
        ] {
            let Arguments { command: Some(Command::Stdio(stdio)), .. } =
                Arguments::try_parse_from(arguments).unwrap()
            else {
                panic!("{arguments:?} is not understood as stdio")
            };
            assert_eq!(stdio.server().unwrap().content_form(), form);
        }
    }
}
