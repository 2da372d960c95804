//! Workflow runs: sessions of a workflow whose steps cannot be skipped.
//!
//! `executor` is the flow of a run: it asks for the output of one step at a time, and continues
//! when the output is valid and, where the step requires it, a person has confirmed it. `position`
//! tracks completed steps and loop rounds. `tools` are the MCP tools for agents, `responses` the
//! JSON they return, `token` the sealed step token, `record` the stored and exported result.
//!
//! A confirmation is a prompt of the session that no tool answers. The client asks its user, or the
//! user answers with `interaction.respond` or on the command line.

mod executor;
mod position;
mod record;
mod responses;
mod token;
mod tools;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Definition, Engine, View};
use mcp_flow_seal::KeyRing;
use mcp_flow_server::{Context, ServerBuilder};

use crate::library::Library;

pub use record::{Briefing, CompletedStep, RunRecord};

/// Workflow runs of the workflows in a library.
///
/// Register [`flow`](Self::flow) with an engine, and the tools with the server of that engine.
#[derive(Clone)]
pub struct Runs {
    library: Library,
    keys: KeyRing,
    retention: Duration,
    /// Instructions for the agent: where a person confirms if the client cannot ask.
    confirmed_at: Arc<str>,
    /// Instructions for the person, with the command.
    confirmed_by: Arc<str>,
    sending: Arc<OnSending>,
}

type OnSending = dyn Fn(&Context, &View) + Send + Sync;

impl Runs {
    /// Creates runs whose tokens are sealed with these keys. Tokens survive a restart with the same
    /// keys.
    pub fn new(library: Library, keys: KeyRing) -> Self {
        let (confirmed_at, confirmed_by) = (CONFIRMED_AT.into(), CONFIRMED_BY.into());
        let sending = Arc::new(|_: &Context, _: &View| ());
        Self { library, keys, retention: RETENTION, confirmed_at, confirmed_by, sending }
    }

    /// Sets a function to call before a tool replies with the status of a run. Where runs are
    /// confirmed with `interaction.respond`, it must be told what clients know.
    #[must_use]
    pub fn on_sending(mut self, call: impl Fn(&Context, &View) + Send + Sync + 'static) -> Self {
        self.sending = Arc::new(call);
        self
    }

    /// Sets the sentences that tell an agent where a person confirms a step if the client cannot
    /// ask. `{run}` is replaced by the run id. Do not name a command: an agent might run it.
    #[must_use]
    pub fn confirmed_at(mut self, sentences: impl Into<Arc<str>>) -> Self {
        self.confirmed_at = sentences.into();
        self
    }

    /// Sets the sentences that tell a person how to confirm a step if the client cannot ask, with
    /// the command. `{run}` is replaced by the run id. They are logged as a warning and sent to no
    /// client.
    #[must_use]
    pub fn confirmed_by(mut self, sentences: impl Into<Arc<str>>) -> Self {
        self.confirmed_by = sentences.into();
        self
    }

    /// Sets how long outputs are kept after a run has ended in any way. Defaults to 30 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Returns the flow of every run. It has no inactivity timeout, and its outputs are retained
    /// after its end (C-11).
    pub fn flow(&self) -> Definition {
        let library = self.library.clone();
        Definition::new(FLOW, move |flow, start| executor::execute(library.clone(), flow, start))
            .description("A workflow whose steps cannot be skipped")
            .no_timeout()
            .retention_with_data(self.retention)
            .max_prompts(MAX_QUESTIONS)
    }

    /// Adds `workflow_start`, `workflow_continue` and `workflow_status` to a server.
    pub fn add_to(&self, engine: &Engine, server: ServerBuilder) -> ServerBuilder {
        server.tools(tools::tools(self, engine))
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, retention, .. } = self;
        write!(formatter, "Runs({library:?}, {retention:?})")
    }
}

/// Name of the flow.
pub const FLOW: &str = "workflow_run";

const CONFIRMED_AT: &str =
    "Ask the user to confirm it with the administration tools of this server.";

const CONFIRMED_BY: &str = "Answer the pending prompt of session `{run}` with true or false";

const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Limit on the prompts of one run. Loops ask often.
const MAX_QUESTIONS: u32 = 4_000;
