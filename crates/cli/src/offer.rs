//! What is served, whatever it is served over.

use clap::ValueEnum;
use mcp_flow::{ContentForm, Interaction, Limits, Server, ServerBuilder, ToolNames};

use crate::diagnostics;

/// The options that all commands which serve have in common.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Offer {
    /// How many calls of one client may run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_concurrency: Option<u32>,

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

/// Whose way of writing content to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The official specification's
    #[default]
    Official,
    /// Seed document 002's
    Seed002,
}

impl Offer {
    /// A server with the built-in tools, which answers in order if it must.
    pub(crate) fn server(&self, in_order: bool) -> ServerBuilder {
        let mut limits = Limits::default();
        if in_order {
            limits.concurrency = 1;
        }
        if let Some(concurrency) = self.max_concurrency {
            limits.concurrency = concurrency as usize;
        }
        let server = Server::builder("mcp-flow", env!("CARGO_PKG_VERSION"))
            .description("MCP Flow with its built-in example tools")
            .limits(limits)
            .tool_names(match self.tool_names {
                Spelling::Dotted => ToolNames::AsRegistered,
                Spelling::Underscore => ToolNames::Underscore,
            })
            .content_form(match self.content {
                Form::Official => ContentForm::Official,
                Form::Seed002 => ContentForm::Seed002,
            })
            .tools(mcp_flow_examples::tools());
        let interaction = Interaction::builder().flows(mcp_flow_examples::flows()).build();
        let server = interaction.add_to(server);
        if self.diagnostics { server.tools(diagnostics::tools()) } else { server }
    }
}
