//! The offer of a server: tools, resources, prompts, workflows, flows and their session store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use mcp_flow::engine::{self, Rate};
use mcp_flow::files::{Roots, ServeFiles};
use mcp_flow::seal::KeyRing;
use mcp_flow::session::Store;
use mcp_flow::session::store::NodeInfo;
use mcp_flow::skills::{ServeSkills, Skills};
use mcp_flow::workflow::{DefinitionForm, LookupTools, SERVER_VERSION};
use mcp_flow::{
    ContentForm, Dialect, Interaction, Limits, Revision, Server, ServerBuilder, ToolNames,
    VersionPolicy,
};
use mcp_flow_declarative::ToolLibrary;
use mcp_flow_examples::read_file::Files;
use mcp_flow_gateway::Gateway;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::configuration::{OfferSection, SessionsSection};
use crate::platform::host_name;
use crate::server::diagnostics;
use crate::server::store::{OpenedStore, StoreUrl};
use crate::server::tool_files::{self, ToolFiles};
use crate::server::workflows::WorkflowOptions;

/// Options of `serve` and `stdio` for what they offer.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct OfferOptions {
    /// Maximum number of concurrent calls per client [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    #[arg(help_heading = "Protocol")]
    max_concurrency: Option<u32>,

    /// Style of tool names in lists; tools can be called in both styles [default: dotted]
    #[arg(long, value_enum, value_name = "STYLE", help_heading = "Protocol")]
    tool_names: Option<ToolNameStyle>,

    /// Wire format of images, links and embedded resources [default: official]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Protocol")]
    content: Option<ContentStyle>,

    /// Serve the files in this directory as resources and with the tool read_file; may be repeated
    #[arg(long = "root", value_name = "DIR", help_heading = "Content")]
    roots: Vec<PathBuf>,

    /// Serve the skills in this directory, one subdirectory with a SKILL.md each; may be repeated
    #[arg(long = "skills", value_name = "DIR", help_heading = "Content")]
    skills: Vec<PathBuf>,

    /// Serve the tools that the files in this directory declare; may be repeated
    ///
    /// A single file works as well. Changes take effect on save. `mcp-flow tool check` validates
    /// files.
    #[arg(long = "tools", value_name = "DIR", help_heading = "Content")]
    tools: Vec<PathBuf>,

    /// Serve internal tools of files as well, which `mcp-flow tool try` does
    #[arg(long, hide = true)]
    internal_tools: bool,

    /// Serve the MCP servers that this file lists under `mcpServers`, the format of other MCP hosts
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub(crate) gateway: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) workflows: WorkflowOptions,

    /// Session store: sqlite:PATH, postgres://USER@HOST/DB, or memory: to lose sessions on exit
    /// [default: sqlite:.mcp-flow/journal.db]
    ///
    /// Any number of processes share a SQLite file, and any number of machines a PostgreSQL database
    /// (docs/cluster.md); redb:PATH is a file of one process. If the store cannot be opened, `serve`
    /// does not start. `stdio` warns and keeps sessions in memory if the directory of the default
    /// store is not writable. The keys that encrypt the store are in MCP_FLOW_STORE_KEY, or in a file
    /// next to it.
    #[arg(long, value_name = "URL", help_heading = "Sessions")]
    store: Option<StoreUrl>,

    /// Keep no sessions: clients carry them in sealed tokens
    #[arg(long, help_heading = "Sessions")]
    stateless: bool,

    /// With --stateless: reject replayed tokens, by one counter per session
    ///
    /// The counters are kept in --store, so replayed tokens are rejected after a restart as well.
    #[arg(long, requires = "stateless", help_heading = "Sessions")]
    replay_guard: bool,

    /// Rate limit for answers to one session, with bursts of twice as many; 0 disables it
    /// [default: 10 on a public address, otherwise 0]
    #[arg(long, value_name = "N", help_heading = "Sessions")]
    answers_per_second: Option<u32>,

    /// Retention of ended sessions, from the configuration file.
    #[arg(skip)]
    remembered_seconds: Option<u64>,

    /// Timeouts of sessions, from the configuration file.
    #[arg(skip)]
    times: SessionsSection,

    /// Oldest MCP protocol revision to accept, for example 2025-06-18 [default: 2024-11-05]
    #[arg(long, value_name = "REVISION", value_parser = handshake_revision)]
    #[arg(help_heading = "Protocol")]
    pub(crate) minimum_version: Option<Revision>,

    /// Do not serve the built-in example tools, prompts and flows
    #[arg(long, help_heading = "Content")]
    no_examples: bool,

    /// Disable sessions: flows become tools that take all values up front
    #[arg(long, conflicts_with = "stateless", help_heading = "Sessions")]
    no_interaction: bool,

    /// Add the tools echo, sleep, fail and panic and the flows sleeper and paid_order, to test clients
    #[arg(long, help_heading = "Content")]
    diagnostics: bool,

    /// With --diagnostics: add the flow ledger, which asks for entries and appends them to FILE
    ///
    /// Without FILE it only asks. The tool ledger.append appends entries of other flows.
    #[arg(long, value_name = "FILE", requires = "diagnostics", num_args = 0..=1)]
    #[arg(require_equals = true, help_heading = "Content")]
    ledger: Option<Option<PathBuf>>,
}

/// Style of tool names.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolNameStyle {
    /// With dots: calculator.add
    #[default]
    Dotted,
    /// With underscores, for hosts that reject dots: calculator_add
    Underscore,
}

/// Wire format of content.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContentStyle {
    /// The MCP specification
    #[default]
    Official,
    /// Seed document 002
    Seed002,
}

impl OfferOptions {
    /// Adds the settings of a configuration file. Options take precedence; lists are joined.
    #[must_use]
    pub(crate) fn or(mut self, file: OfferSection, times: SessionsSection) -> Self {
        self.times = times;
        self.roots.extend(file.roots);
        self.skills.extend(file.skills);
        self.tools.extend(file.tools);
        self.workflows.add(file.workflows);
        self.store = self.store.or(file.store);
        self.answers_per_second = self.answers_per_second.or(file.answers_per_second);
        self.remembered_seconds = Some(file.remembered_seconds);
        let named = file.minimum_version.as_deref();
        // The file was validated before.
        let minimum = named.and_then(|name| handshake_revision(name).ok());
        self.minimum_version = self.minimum_version.or(minimum);
        self.tool_names = self.tool_names.or(Some(file.tool_names));
        self.content = self.content.or(Some(file.content));
        self.no_examples |= !file.examples;
        self.no_interaction |= !file.interaction && !self.stateless;
        self.stateless |= file.stateless && !self.no_interaction;
        self.replay_guard |= file.replay_guard && self.stateless;
        self
    }

    /// Sets the default rate limit of a server on a public address (INT-107).
    #[must_use]
    pub(crate) fn for_public_address(mut self) -> Self {
        self.answers_per_second.get_or_insert(ANSWERS_PER_SECOND);
        self
    }

    /// The session store that the options name.
    pub(crate) fn store(&self) -> Option<&StoreUrl> {
        self.store.as_ref()
    }

    /// Applies the options to the limits of a configuration file.
    pub(crate) fn limits(&self, file: Limits, in_order: bool) -> Limits {
        let mut limits = file;
        if in_order {
            limits.concurrency = 1;
        }
        if let Some(concurrency) = self.max_concurrency {
            limits.concurrency = concurrency as usize;
        }
        limits
    }

    /// Creates a server with everything it offers. The flow of the gateway has its sessions in the
    /// same store.
    pub(crate) fn server(
        &self,
        limits: Limits,
        exposure: Exposure,
        gateway: Option<&Gateway>,
    ) -> anyhow::Result<OfferedServer> {
        let workflows = self.workflows.tools(DefinitionForm::Standard)?;
        let server = self.workflows.add_direct_methods(workflows.add_to(self.builder(limits)?));
        let server = server.skills(self.skills(&workflows)?);
        let server = server.versions(VersionPolicy::Negotiate { minimum: self.minimum_version });
        self.add_flows(server, workflows, exposure, gateway)
    }

    /// Creates a server of the workflowlookup profile, with its tools only (WFL-017).
    pub(crate) fn lookup_server(
        &self,
        limits: Limits,
    ) -> anyhow::Result<(ServerBuilder, LookupTools)> {
        let workflows = self.workflows.tools(DefinitionForm::Literal)?;
        let server = Server::builder("workflowlookup", SERVER_VERSION)
            .description("Workflow Orchestration System MCP Server")
            .limits(limits)
            .dialect(Dialect::Seed004);
        let server = self.workflows.add_direct_methods(workflows.add_to(server));
        let server = if self.diagnostics { server.tools(diagnostics::tools()) } else { server };
        Ok((server, workflows))
    }

    /// Collects the skills: those of directories, and every workflow if the server enforces its runs.
    fn skills(&self, workflows: &LookupTools) -> anyhow::Result<Skills> {
        let mut skills = Skills::new();
        for directory in &self.skills {
            skills = skills.directory(directory)?;
        }
        let enforces_runs = !self.stateless && !self.no_interaction;
        Ok(if enforces_runs { skills.workflows(workflows.library().clone()) } else { skills })
    }

    fn builder(&self, limits: Limits) -> anyhow::Result<ServerBuilder> {
        let mut roots = Roots::default();
        for root in &self.roots {
            roots = roots.and(Roots::directory(root)?);
        }
        let mut server = Server::builder("mcp-flow", env!("CARGO_PKG_VERSION"))
            .description(match self.no_examples {
                false => "MCP Flow with its built-in example tools and prompts",
                true => "MCP Flow",
            })
            .limits(limits)
            .tool_names(match self.tool_names.unwrap_or_default() {
                ToolNameStyle::Dotted => ToolNames::AsRegistered,
                ToolNameStyle::Underscore => ToolNames::Underscore,
            })
            .content_form(match self.content.unwrap_or_default() {
                ContentStyle::Official => ContentForm::Official,
                ContentStyle::Seed002 => ContentForm::Seed002,
            });
        if !self.no_examples {
            server = server.tools(mcp_flow_examples::tools()).prompts(mcp_flow_examples::prompts());
        }
        if !roots.is_empty() {
            server = server.tools(Files::new(roots.clone())).resource_roots(roots);
        }
        if self.diagnostics {
            server = server.tools(diagnostics::tools());
        }
        Ok(server)
    }

    /// Limits on sessions and their answers.
    fn session_limits(&self) -> engine::SessionLimits {
        let rate = self
            .answers_per_second
            .filter(|answers| *answers > 0)
            .map(|answers| Rate { burst: answers.saturating_mul(2), per_second: answers.into() });
        let limits = engine::SessionLimits { rate, ..engine::SessionLimits::default() };
        let mut limits = self.times.limits(limits);
        if let Some(seconds) = self.remembered_seconds {
            limits.bounds.retention = Duration::from_secs(seconds);
        }
        limits
    }

    /// Opens the tool files, if there are any.
    fn tool_library(&self) -> anyhow::Result<Option<ToolLibrary>> {
        let library = tool_files::open(&self.tools)?;
        Ok(match self.internal_tools {
            true => library.map(ToolLibrary::serve_internal),
            false => library,
        })
    }

    /// Adds the flows and their session store.
    fn add_flows(
        &self,
        server: ServerBuilder,
        workflows: LookupTools,
        exposure: Exposure,
        gateway: Option<&Gateway>,
    ) -> anyhow::Result<OfferedServer> {
        let flows = Interaction::builder().limits(self.session_limits());
        let mut flows = flows.call_inactivity(self.times.call_wait());
        if !self.no_examples {
            flows = flows.flows(mcp_flow_examples::flows());
        }
        let library = self.tool_library()?;
        let server = match &library {
            Some(_) => server.resources(mcp_flow_declarative::schema_resource()),
            None => server,
        };
        let server = match &self.ledger {
            Some(Some(path)) => server.tools(diagnostics::append_tool(path.clone())),
            _ => server,
        };
        if self.diagnostics {
            flows = flows.flows(diagnostics::sleeper()).flows(diagnostics::paid_order());
        }
        if let Some(path) = &self.ledger {
            flows = flows.flows(diagnostics::ledger(path.clone()));
        }
        if self.no_interaction {
            return Ok(without_sessions(flows.disabled().build(), server, workflows, library));
        }
        let OpenedStore { store, keys, guard, is_durable, location } =
            match self.stateless && !self.replay_guard {
                true => crate::server::store::keys_only(self.store.as_ref())?,
                false => crate::server::store::open(self.store.as_ref(), exposure)?,
            };
        let durable_store = store.clone();
        let flows = match (store, self.stateless) {
            (_, true) => flows.client_held(keys.clone(), self.replay_guard.then_some(guard)),
            (Some(store), false) => flows.store(store),
            (None, false) => flows,
        };
        let flows = if is_durable { flows } else { flows.in_memory() };
        let runs = self.workflows.runs(
            &workflows,
            keys.clone(),
            exposure.confirmation_instructions(&location),
        );
        let run = runs.flow();
        let recorded = library.clone();
        let calls = gateway.map(Gateway::flow);
        let flows = flows.engine(move |engine| {
            let engine = engine.flow(run).node(node_info());
            let engine = match calls {
                Some(calls) => engine.flow(calls),
                None => engine,
            };
            match recorded {
                Some(library) => engine
                    .recorded_flows(move |name, events| library.recorded_definition(name, events)),
                None => engine,
            }
        });
        let flows = flows.build();
        if let Some(gateway) = gateway
            && !self.stateless
        {
            gateway.keep_questions_in(flows.engine());
        }
        let server = flows.add_to(server).sealing_keys(keys.clone());
        // Runs need a journal, which a stateless server does not have.
        let server = match self.stateless {
            true => server,
            false => {
                let told = flows.clone();
                let runs = runs.on_sending(move |context, view| told.record_sent(context, view));
                runs.add_to(flows.engine(), server)
            }
        };
        let tools = library.map(|library| ToolFiles { library, flows: flows.clone() });
        let sessions = (!self.stateless).then_some(flows);
        let store = if self.stateless { "carried by clients".to_owned() } else { location };
        let keys = Some(keys);
        Ok(OfferedServer { server, sessions, durable_store, store, keys, workflows, tools })
    }
}

/// A server whose flows are plain tools, without sessions.
fn without_sessions(
    flows: Interaction,
    server: ServerBuilder,
    workflows: LookupTools,
    library: Option<ToolLibrary>,
) -> OfferedServer {
    OfferedServer {
        server: flows.add_to(server),
        sessions: None,
        durable_store: None,
        store: "none".to_owned(),
        keys: None,
        workflows,
        tools: library.map(|library| ToolFiles { library, flows }),
    }
}

/// Clients that can reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// Only the client that started it.
    SingleClient,
    /// Any client that can authenticate, such as `mcp-flow sessions`.
    Network,
}

impl Exposure {
    /// Returns how a person confirms a step that the client cannot ask about: instructions for the
    /// agent, and for the person. The agent does not learn the command, which it could run itself.
    fn confirmation_instructions(self, location: &str) -> [String; 2] {
        let is_file = location.starts_with("redb:") || location.starts_with("sqlite:");
        match (self, location.split_once(':').filter(|_| is_file)) {
            (Self::Network, _) => [
                "Ask the user to confirm run `{run}` in this server's console, or on the command \
                 line, as the server's log says. Only a person may do so."
                    .to_owned(),
                "Confirm with `mcp-flow sessions answer {run} true --url URL` (or false), where URL \
                 is this server's, or in its console"
                    .to_owned(),
            ],
            (Self::SingleClient, Some((kind, path))) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
                let command = format!(
                    "`mcp-flow sessions answer {{run}} true --store {kind}:{}` (or false)",
                    path.display()
                );
                [
                    "This client cannot ask the user. Ask them to confirm run `{run}` on the \
                     machine of this server, as its log on standard error says, or to use a client \
                     that supports elicitation. Only a person may do so."
                        .to_owned(),
                    match kind {
                        // The server locks the file while it runs.
                        "redb" => {
                            format!("End this server, confirm with {command}, and start it again")
                        }
                        _ => format!("Confirm with {command}"),
                    },
                ]
            }
            (Self::SingleClient, None) => [
                "This client cannot ask the user, and the run is kept in memory only, so it cannot \
                 be confirmed elsewhere. Ask the user to start this server with `--store sqlite:PATH`, \
                 or to use a client that supports elicitation, and start the run again."
                    .to_owned(),
                "It cannot be confirmed, because it is kept in memory only: start this server with \
                 `--store sqlite:PATH`, or use a client that supports elicitation"
                    .to_owned(),
            ],
        }
    }
}

/// Server with everything it offers, and its sessions.
#[derive(Debug)]
pub(crate) struct OfferedServer {
    pub(crate) server: ServerBuilder,
    /// Flows whose sessions this server keeps.
    pub(crate) sessions: Option<Interaction>,
    /// Durable store of the sessions.
    pub(crate) durable_store: Option<Arc<dyn Store>>,
    /// Location of the sessions, for people.
    pub(crate) store: String,
    /// Keys of the sessions, which nodes with the same store share.
    pub(crate) keys: Option<KeyRing>,
    pub(crate) workflows: LookupTools,
    /// Tools of files.
    pub(crate) tools: Option<ToolFiles>,
}

/// Describes this process to other nodes that share its store.
fn node_info() -> NodeInfo {
    let name = format!("{}:{}", host_name(), std::process::id());
    NodeInfo { name, url: None, version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// Default rate limit for answers on a public address. No person answers faster.
const ANSWERS_PER_SECOND: u32 = 10;

/// Parses the name of a revision that has a handshake.
pub(crate) fn handshake_revision(name: &str) -> Result<Revision, String> {
    Revision::handshake().find(|revision| revision.name() == name).ok_or_else(|| {
        let names: Vec<_> = Revision::handshake().map(Revision::name).collect();
        format!("use one of {}", names.join(", "))
    })
}
