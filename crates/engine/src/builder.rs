//! Builder of an engine.

use std::sync::Arc;

use mcp_flow_session::store::NodeInfo;
use mcp_flow_session::{JournalEvent, Store};

use crate::clock::{Clock, SystemClock};
use crate::definition::{Definition, Definitions};
use crate::engine::Engine;
use crate::limits::SessionLimits;

/// Builds an [`Engine`].
#[must_use]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    flows: Definitions,
    limits: SessionLimits,
    clock: Arc<dyn Clock>,
    node: NodeInfo,
    step_hook: Option<StepHook>,
}

/// Function called with the key of each step and lookup before its work runs. If it returns an
/// error, the work does not run, and the step fails with that.
pub type StepHook = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

impl EngineBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let (flows, limits) = (Definitions::default(), SessionLimits::default());
        let name = format!("process {}", std::process::id());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let node = NodeInfo { name, url: None, version };
        Self { store, flows, limits, clock: Arc::new(SystemClock), node, step_hook: None }
    }

    /// Adds a flow. It replaces an earlier one of the same name.
    pub fn flow(self, definition: Definition) -> Self {
        self.flows.insert(definition);
        self
    }

    /// Sets how the flow of a session is defined by its journal, if there is no flow of its name any
    /// more. For flows that are data, and record themselves.
    pub fn recorded_flows(
        mut self,
        define: impl Fn(&str, &[JournalEvent]) -> Option<Definition> + Send + Sync + 'static,
    ) -> Self {
        self.flows.define_recorded(define);
        self
    }

    /// Sets the limits of sessions. Defaults to those of [`SessionLimits`].
    pub fn limits(mut self, limits: SessionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the clock. Defaults to [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets what this process tells the other nodes about itself, if its store is shared.
    pub fn node(mut self, node: NodeInfo) -> Self {
        self.node = node;
        self
    }

    /// Sets a function that can let steps fail, for tests.
    pub fn step_hook(mut self, hook: StepHook) -> Self {
        self.step_hook = Some(hook);
        self
    }

    /// Builds the engine, resumes interrupted sessions and starts maintenance.
    ///
    /// Must be called within a tokio runtime. [`Engine::shutdown`] stops what it starts.
    pub fn start(self) -> Engine {
        let engine = self.build();
        engine.start_maintenance();
        engine
    }

    /// Builds an engine without background work: interrupted sessions are not resumed and overdue
    /// ones not expired until [`Engine::start_maintenance`].
    pub fn build(self) -> Engine {
        let (flows, limits) = (Arc::new(self.flows), Arc::new(self.limits));
        Engine::new(self.store, flows, limits, self.clock, self.node, self.step_hook)
    }
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EngineBuilder").field("flows", &self.flows).finish_non_exhaustive()
    }
}
