//! Setting up an engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use mcp_flow_rate::Buckets;
use mcp_flow_session::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, SystemClock};
use crate::definition::Definition;
use crate::engine::{Core, Engine};
use crate::limits::Limits;
use crate::live::Live;
use crate::notice::Hub;
use crate::quota::Counts;
use crate::sweep::{Graves, Stalled};

/// Sets up an [`Engine`].
#[must_use]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    flows: BTreeMap<String, Arc<Definition>>,
    limits: Limits,
    clock: Arc<dyn Clock>,
}

impl EngineBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let (flows, limits) = (BTreeMap::new(), Limits::default());
        Self { store, flows, limits, clock: Arc::new(SystemClock) }
    }

    /// Adds a flow. Of two with one name the later counts.
    pub fn flow(mut self, definition: Definition) -> Self {
        self.flows.insert(definition.name().to_owned(), Arc::new(definition));
        self
    }

    /// Sets how much sessions may take.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the clock. Defaults to the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the engine and has it take up what was interrupted and sweep from time to time. To
    /// be called within a tokio runtime; [`Engine::shutdown`] ends what it starts.
    pub fn start(self) -> Engine {
        let engine = self.build();
        engine.run();
        engine
    }

    /// Makes an engine that does nothing by itself: it sweeps only when told to, and leaves alone
    /// what was interrupted, until [`Engine::run`].
    pub fn build(self) -> Engine {
        let core = Core {
            store: self.store,
            flows: Arc::new(self.flows),
            live: Live::new(self.limits.live),
            limits: Arc::new(self.limits),
            clock: self.clock,
            hub: Arc::new(Hub::default()),
            counts: Counts::default(),
            rates: Buckets::default(),
            graves: Graves::default(),
            stalled: Stalled::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            strangers: AtomicU64::new(0),
            running: AtomicBool::new(false),
        };
        Engine { core: Arc::new(core) }
    }
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EngineBuilder").field("flows", &self.flows).finish_non_exhaustive()
    }
}
