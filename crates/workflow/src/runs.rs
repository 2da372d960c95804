//! Runs: workflows whose steps cannot be skipped.
//!
//! A run is a flow on the journal, so it survives its server. `walk` is that flow: it shows one
//! step at a time and asks for its output, and goes on only when the output keeps to the rules of
//! the step and, where a person has to agree, when one has; `place` is how far it has come.
//! `tools` lets an agent start, continue and look at runs, `told` is what it hears of them, `token`
//! what it carries from one step to the next; `record` is what is kept.
//!
//! A confirmation is a question of the session that no tool answers. The person behind the client
//! is asked by whatever way it has, or answers by `interaction.respond` or the command line.

mod place;
mod record;
mod token;
mod told;
mod tools;
mod walk;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Definition, Engine};
use mcp_flow_seal::KeyRing;
use mcp_flow_server::ServerBuilder;

use crate::library::Library;

pub use record::{Briefing, Done, Record};

/// Runs of the workflows in a library.
///
/// The flow goes into an engine, and the tools into the server that the engine serves.
#[derive(Clone, Debug)]
pub struct Runs {
    library: Library,
    keys: KeyRing,
    retention: Duration,
    /// Where a person confirms if the client cannot ask one, for the agent.
    confirmed_at: Arc<str>,
    /// How, for the person.
    confirmed_by: Arc<str>,
}

impl Runs {
    /// Runs whose tokens are sealed with these keys; with the same keys they survive a restart.
    pub fn new(library: Library, keys: KeyRing) -> Self {
        let (confirmed_at, confirmed_by) = (CONFIRMED_AT.into(), CONFIRMED_BY.into());
        Self { library, keys, retention: RETENTION, confirmed_at, confirmed_by }
    }

    /// Where a person confirms a step if the client cannot ask one, as one or more sentences to the
    /// agent. `{run}` stands for the run. Name no command here: an agent might run it.
    #[must_use]
    pub fn confirmed_at(mut self, sentences: impl Into<Arc<str>>) -> Self {
        self.confirmed_at = sentences.into();
        self
    }

    /// How a person confirms a step if the client cannot ask one, the command included. `{run}`
    /// stands for the run. It goes to the log, as a warning, and to no client.
    #[must_use]
    pub fn confirmed_by(mut self, sentences: impl Into<Arc<str>>) -> Self {
        self.confirmed_by = sentences.into();
        self
    }

    /// How long outputs are kept after the end of a run, however it ended. Defaults to 30 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// The flow behind every run. It waits as long as it takes, and its outputs outlive it (C-11).
    pub fn flow(&self) -> Definition {
        let library = self.library.clone();
        Definition::new(FLOW, move |flow, start| walk::walk(library.clone(), flow, start))
            .description("A workflow whose steps cannot be skipped")
            .patient()
            .kept_for(self.retention)
            .most_prompts(MOST_QUESTIONS)
    }

    /// Adds `workflow_start`, `workflow_continue` and `workflow_status` to a server.
    pub fn add_to(&self, engine: &Engine, server: ServerBuilder) -> ServerBuilder {
        server.tools(tools::tools(self, engine))
    }
}

/// The name of the flow.
pub const FLOW: &str = "workflow_run";

const CONFIRMED_AT: &str = "Ask the user to confirm it where this server is looked after.";

const CONFIRMED_BY: &str = "Answer the question of session `{run}` with true or false";

const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Loops ask often.
const MOST_QUESTIONS: u32 = 4_000;
