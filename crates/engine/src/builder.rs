//! Builder of an engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_flow_session::Store;

use crate::clock::{Clock, SystemClock};
use crate::definition::Definition;
use crate::engine::Engine;
use crate::limits::SessionLimits;

/// Builds an [`Engine`].
#[must_use]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    flows: BTreeMap<String, Arc<Definition>>,
    limits: SessionLimits,
    clock: Arc<dyn Clock>,
}

impl EngineBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let (flows, limits) = (BTreeMap::new(), SessionLimits::default());
        Self { store, flows, limits, clock: Arc::new(SystemClock) }
    }

    /// Adds a flow. It replaces an earlier one of the same name.
    pub fn flow(mut self, definition: Definition) -> Self {
        self.flows.insert(definition.name().to_owned(), Arc::new(definition));
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
        Engine::new(self.store, Arc::new(self.flows), Arc::new(self.limits), self.clock)
    }
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EngineBuilder").field("flows", &self.flows).finish_non_exhaustive()
    }
}
