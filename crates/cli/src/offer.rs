//! What is served, whatever it is served over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use mcp_flow::engine::{self, Rate};
use mcp_flow::files::{Roots, ServeFiles};
use mcp_flow::session::Store;
use mcp_flow::workflow::{DefinitionForm, LookupTools, SERVER_VERSION};
use mcp_flow::{
    ContentForm, Dialect, Interaction, Limits, Revision, Server, ServerBuilder, ToolNames,
    VersionPolicy,
};
use mcp_flow_examples::read_file::Files;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::configuration::{OfferSection, SessionsSection};
use crate::diagnostics;
use crate::store::{Kept, StoreUrl};
use crate::workflows::Workflows;

/// The options that all commands which serve have in common.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Offer {
    /// How many calls of one client may run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_concurrency: Option<u32>,

    /// Spelling of tool names in lists [default: dotted]; both can be called
    #[arg(long, value_enum, value_name = "SPELLING")]
    tool_names: Option<Spelling>,

    /// Form of images, links and embedded resources [default: official]
    #[arg(long, value_enum)]
    content: Option<Form>,

    /// Serve the files of this directory, as resources and by the tool read_file; may be repeated
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) workflows: Workflows,

    /// Where to keep conversations: redb:PATH, or memory: to lose them at the end
    ///
    /// The default is redb:.mcp-flow/journal.redb. If it cannot be opened, `serve` does not start;
    /// `stdio` warns and keeps conversations in memory if another process uses it or its folder
    /// cannot be written to. The keys that seal them are in a file beside it.
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,

    /// Keep nothing of conversations: clients carry them in signed tokens
    #[arg(long)]
    stateless: bool,

    /// With --stateless: remember one number for each conversation, and refuse old tokens
    ///
    /// The numbers are kept where --store says, so that old tokens are refused after a restart, too.
    #[arg(long, requires = "stateless")]
    replay_guard: bool,

    /// How many answers a second one conversation takes, and twice as many at once; 0 for any number
    ///
    /// Without this it is 10 where others can reach the server, and any number elsewhere.
    #[arg(long, value_name = "N")]
    answers_per_second: Option<u32>,

    /// How many seconds the end of a conversation is remembered, as the file has it.
    #[arg(skip)]
    remembered_seconds: Option<u64>,

    /// Time that conversations wait and last, as the file has it.
    #[arg(skip)]
    times: SessionsSection,

    /// Refuse clients that need an older protocol revision
    #[arg(long, value_name = "REVISION", value_parser = handshake_revision)]
    pub(crate) minimum_version: Option<Revision>,

    /// Do not serve the built-in example tools, prompts and flows
    #[arg(long)]
    no_examples: bool,

    /// Switch conversations off; flows are tools that need every value upfront
    #[arg(long, conflicts_with = "stateless")]
    no_interaction: bool,

    /// Add the tools echo, sleep, fail and panic
    #[arg(long)]
    diagnostics: bool,

    /// With --diagnostics: add the flow ledger, which asks for entries and appends them to FILE
    ///
    /// Without FILE it only asks. Clients choose what is entered, not where.
    #[arg(long, value_name = "FILE", requires = "diagnostics", num_args = 0..=1, require_equals = true)]
    ledger: Option<Option<PathBuf>>,
}

/// How the names of tools are spelled.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spelling {
    /// With dots, as documented: calculator.add
    #[default]
    Dotted,
    /// For hosts that refuse dots: calculator_add
    Underscore,
}

/// Whose way of writing content to follow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// The official specification's
    #[default]
    Official,
    /// Seed document 002's
    Seed002,
}

impl Offer {
    /// The same with what a file says where the command line says nothing. Lists add up.
    #[must_use]
    pub(crate) fn or(mut self, file: OfferSection, times: SessionsSection) -> Self {
        self.times = times;
        self.roots.extend(file.roots);
        self.workflows.add(file.workflows);
        self.store = self.store.or(file.store);
        self.answers_per_second = self.answers_per_second.or(file.answers_per_second);
        self.remembered_seconds = Some(file.remembered_seconds);
        let named = file.minimum_version.as_deref();
        // A file with a wrong one has been refused.
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

    /// The same for a server that others can reach, where nothing else is said (INT-107).
    #[must_use]
    pub(crate) fn within_reach(mut self) -> Self {
        self.answers_per_second.get_or_insert(ANSWERS_PER_SECOND);
        self
    }

    /// Bounds as a file has them, with what the command line says of them.
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

    /// A server with the built-in tools, and the workflows it is to follow.
    pub(crate) fn server(&self, limits: Limits, door: Door) -> anyhow::Result<Offered> {
        let workflows = self.workflows.tools(DefinitionForm::Standard)?;
        let server = self.workflows.direct(workflows.add_to(self.builder(limits)?));
        let server = server.versions(VersionPolicy::Negotiate { minimum: self.minimum_version });
        self.converse(server, workflows, door)
    }

    /// A server as the workflowlookup document has it, with nothing but its tools (WFL-017).
    pub(crate) fn lookup_server(
        &self,
        limits: Limits,
    ) -> anyhow::Result<(ServerBuilder, LookupTools)> {
        let workflows = self.workflows.tools(DefinitionForm::Literal)?;
        let server = Server::builder("workflowlookup", SERVER_VERSION)
            .description("Workflow Orchestration System MCP Server")
            .limits(limits)
            .dialect(Dialect::Seed004);
        let server = self.workflows.direct(workflows.add_to(server));
        let server = if self.diagnostics { server.tools(diagnostics::tools()) } else { server };
        Ok((server, workflows))
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
                Spelling::Dotted => ToolNames::AsRegistered,
                Spelling::Underscore => ToolNames::Underscore,
            })
            .content_form(match self.content.unwrap_or_default() {
                Form::Official => ContentForm::Official,
                Form::Seed002 => ContentForm::Seed002,
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

    /// Adds the flows, and what their sessions are kept in.
    fn converse(
        &self,
        server: ServerBuilder,
        workflows: LookupTools,
        door: Door,
    ) -> anyhow::Result<Offered> {
        let rate = self
            .answers_per_second
            .filter(|answers| *answers > 0)
            .map(|answers| Rate { burst: answers.saturating_mul(2), per_second: answers.into() });
        let limits = engine::SessionLimits { rate, ..engine::SessionLimits::default() };
        let mut limits = self.times.limits(limits);
        if let Some(seconds) = self.remembered_seconds {
            limits.bounds.retention = Duration::from_secs(seconds);
        }
        let flows = Interaction::builder().limits(limits);
        let mut flows = flows.call_inactivity(self.times.call_wait());
        if !self.no_examples {
            flows = flows.flows(mcp_flow_examples::flows());
        }
        if let Some(path) = &self.ledger {
            flows = flows.flows(diagnostics::ledger(path.clone()));
        }
        if self.no_interaction {
            let server = flows.disabled().build().add_to(server);
            let (sessions, store) = (None, "none".to_owned());
            return Ok(Offered { server, sessions, kept: None, store, workflows });
        }
        let Kept { store, keys, guard, is_lasting, place } =
            match self.stateless && !self.replay_guard {
                true => crate::store::keys_only(self.store.as_ref())?,
                false => crate::store::open(self.store.as_ref(), door)?,
            };
        let kept = store.clone();
        let flows = match (store, self.stateless) {
            (_, true) => flows.stateless(keys.clone(), self.replay_guard.then_some(guard)),
            (Some(store), false) => flows.store(store),
            (None, false) => flows,
        };
        let flows = if is_lasting { flows } else { flows.in_memory() };
        let runs = self.workflows.runs(&workflows, keys.clone(), door.confirmed(&place));
        let run = runs.flow();
        let flows = flows.engine(move |engine| engine.flow(run)).build();
        let server = flows.add_to(server).sealing_keys(keys);
        // A run lives in the journal; what clients carry is none.
        let server = if self.stateless { server } else { runs.add_to(flows.engine(), server) };
        let sessions = (!self.stateless).then_some(flows);
        let store = if self.stateless { "carried by clients".to_owned() } else { place };
        Ok(Offered { server, sessions, kept, store, workflows })
    }
}

/// Who can come to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The one client that started it.
    Single,
    /// Anyone it lets in, the command line as well.
    Open,
}

impl Door {
    /// Where a person confirms what a client cannot ask, for the agent, and how, for the person. The
    /// agent is not told how: it could do so itself.
    fn confirmed(self, place: &str) -> [String; 2] {
        match (self, place.strip_prefix("redb:")) {
            (Self::Open, _) => [
                "Ask the user to confirm run `{run}` in this server's console, or on the command \
                 line, as the server's log says. Only a person may do so."
                    .to_owned(),
                "Confirm with `mcp-flow sessions answer {run} true --url URL` (or false), where URL \
                 is this server's, or in its console"
                    .to_owned(),
            ],
            // The file is the server's own as long as it runs.
            (Self::Single, Some(path)) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
                [
                    "This client cannot ask the user. Ask them to confirm run `{run}` on the \
                     machine of this server, as its log on standard error says, or to use a client \
                     that supports elicitation. Only a person may do so."
                        .to_owned(),
                    format!(
                        "End this server, confirm with `mcp-flow sessions answer {{run}} true \
                         --store redb:{}` (or false), and start it again",
                        path.display()
                    ),
                ]
            }
            (Self::Single, None) => [
                "This client cannot ask the user, and the run is kept in memory only, so nobody \
                 else can either. Ask the user to start this server with `--store redb:PATH`, or \
                 to use a client that supports elicitation, and begin again there."
                    .to_owned(),
                "It is kept in memory only and nobody can: start this server with `--store \
                 redb:PATH`, or use a client that supports elicitation"
                    .to_owned(),
            ],
        }
    }
}

/// A server with all it offers, and what is known of its conversations.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) server: ServerBuilder,
    /// Those whose sessions are kept here.
    pub(crate) sessions: Option<Interaction>,
    /// What they are kept in, if that outlives the process.
    pub(crate) kept: Option<Arc<dyn Store>>,
    /// Where they are kept, for people.
    pub(crate) store: String,
    pub(crate) workflows: LookupTools,
}

/// Nobody answers faster than this, and no program has to.
const ANSWERS_PER_SECOND: u32 = 10;

/// A revision that begins with a handshake, by its name.
pub(crate) fn handshake_revision(name: &str) -> Result<Revision, String> {
    Revision::handshake().find(|revision| revision.name() == name).ok_or_else(|| {
        let names: Vec<_> = Revision::handshake().map(Revision::name).collect();
        format!("use one of {}", names.join(", "))
    })
}
