//! What is offered, and how it gets into a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Definition, Engine, EngineBuilder, Limits, Stateless};
use mcp_flow_seal::KeyRing;
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::router::Era;
use mcp_flow_server::{BadTool, ConnectionEvent, ConnectionInfo, Context, ServerBuilder, Tool};
use mcp_flow_session::store::ReplayGuard;
use mcp_flow_session::{MemoryStore, Owner, Store};
use serde_json::{Map, Value, json};

use crate::offer::{IntoFlows, OfferedFlow};
use crate::shown::ShownTurns;
use crate::tool::Unanswered;
use crate::warning::Warnings;
use crate::{methods, tool};

/// Flows and what it takes to offer them. A handle; clones are the same.
#[derive(Clone)]
pub struct Interaction {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    /// Set where clients carry their sessions.
    pub(crate) stateless: Option<Stateless>,
    pub(crate) flows: BTreeMap<String, Offered>,
    pub(crate) is_enabled: bool,
    is_at_rest: bool,
    pub(crate) is_persistent: bool,
    pub(crate) patience: Patience,
    /// Time that flows wait for an answer that were called as tools.
    pub(crate) call_inactivity: Duration,
    pub(crate) warnings: Warnings,
    pub(crate) shown: ShownTurns,
}

/// What is known of a flow beside what the engine runs.
pub(crate) struct Offered {
    pub(crate) asks_after_start: bool,
    /// The keys of its questions, as far as they are listed.
    keys: Vec<String>,
    /// What it is as a tool, until it is put into a server.
    tool: ToolParts,
}

impl Offered {
    /// The questions that nothing was given for. The flow decides which of them it asks.
    pub(crate) fn unanswered<'a>(
        &'a self,
        definition: Option<&'a Definition>,
        given: &Map<String, Value>,
    ) -> impl Iterator<Item = Unanswered<'a>> {
        let properties = &self.tool.schema["properties"];
        let is_given = |key: &String| given.get(key).is_some_and(|value| !value.is_null());
        let keys = self.keys.iter().filter(move |key| !is_given(key));
        keys.map(move |key| Unanswered {
            key,
            schema: &properties[key],
            declared: definition.and_then(|definition| definition.declared(key)),
        })
    }
}

#[derive(Clone)]
struct ToolParts {
    title: Option<String>,
    description: Option<String>,
    schema: Value,
}

/// How long a request waits for a flow that is at work before it is answered without its question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) start: Duration,
    pub(crate) poll: Duration,
}

impl Interaction {
    /// Begins to put flows together, with sessions that are kept in memory.
    pub fn builder() -> InteractionBuilder {
        InteractionBuilder {
            flows: Vec::new(),
            store: None,
            limits: Limits::default(),
            stateless: None,
            change: None,
            is_enabled: true,
            is_at_rest: false,
            is_persistent: false,
            patience: Patience { start: START_PATIENCE, poll: POLL_PATIENCE },
            call_inactivity: CALL_INACTIVITY,
        }
    }

    /// The engine that runs the flows.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Adds the methods, the flows as tools, and the declaration of both to a server.
    ///
    /// The engine begins its work with the first connection; [`Engine::run`] has it begin before.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let engine = self.engine().clone();
        let server = methods::add_to(self, server)
            .declare("interaction", EXTENSION, self.capabilities())
            .tools(self.tools());
        if !self.inner.is_enabled || self.inner.is_at_rest {
            return server;
        }
        server.hook(move |_: &ConnectionInfo, event: &ConnectionEvent<'_>| {
            if matches!(event, ConnectionEvent::Connected) {
                engine.run();
            }
            Ok(())
        })
    }

    /// What the server can do (INT-091). The flags are true of what is really there.
    pub fn capabilities(&self) -> Value {
        let on = self.inner.is_enabled;
        json!({
            "interactive": on,
            "version": VERSION,
            "features": {
                "statefulSessions": on && self.inner.stateless.is_none(),
                "progressTracking": on,
                "validation": on,
                "multiplePromptTypes": on,
                "sessionPersistence": on && self.inner.is_persistent,
            }
        })
    }

    fn tools(&self) -> Vec<Result<Tool, BadTool>> {
        let flows = self.inner.flows.iter();
        flows.map(|(name, offered)| self.tool(name, &offered.tool)).collect()
    }

    fn tool(&self, name: &str, parts: &ToolParts) -> Result<Tool, BadTool> {
        let mut builder = Tool::builder(name).derived_schema(parts.schema.clone());
        if self.inner.is_enabled {
            builder = builder.meta("interactive", true);
        }
        builder = builder.granted_as(PermissionKind::Flow);
        if let Some(title) = &parts.title {
            builder = builder.title(title);
        }
        if let Some(description) = &parts.description {
            builder = builder.description(description);
        }
        let (interaction, flow) = (self.clone(), name.to_owned());
        builder.handler(move |context: Context, arguments| {
            tool::call(interaction.clone(), flow.clone(), context, arguments)
        })
    }
}

impl fmt::Debug for Interaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.inner.flows.keys().collect();
        formatter.debug_struct("Interaction").field("flows", &names).finish_non_exhaustive()
    }
}

/// Servers that have flows beside their tools.
pub trait ServeFlows: Sized {
    /// Adds flows whose sessions are kept in memory. [`Interaction::builder`] has more to choose.
    fn flows(self, flows: impl IntoFlows) -> Self;
}

impl ServeFlows for ServerBuilder {
    fn flows(self, flows: impl IntoFlows) -> Self {
        Interaction::builder().flows(flows).build().add_to(self)
    }
}

/// Whom the sessions of a call belong to.
pub(crate) fn owner(context: &Context) -> Owner {
    Owner::new(context.principal().name())
}

/// Flows being put together.
#[must_use]
pub struct InteractionBuilder {
    flows: Vec<OfferedFlow>,
    store: Option<Arc<dyn Store>>,
    limits: Limits,
    stateless: Option<(KeyRing, Option<Arc<dyn ReplayGuard>>)>,
    change: Option<Box<dyn FnOnce(EngineBuilder) -> EngineBuilder>>,
    is_enabled: bool,
    is_at_rest: bool,
    is_persistent: bool,
    patience: Patience,
    call_inactivity: Duration,
}

impl InteractionBuilder {
    /// Adds flows: one, or several in a list. Of two with one name the later counts.
    pub fn flows(mut self, flows: impl IntoFlows) -> Self {
        self.flows.extend(flows.into_flows());
        self
    }

    /// Keeps sessions in memory, where they are lost with the process.
    pub fn in_memory(mut self) -> Self {
        (self.store, self.is_persistent) = (None, false);
        self
    }

    /// Keeps sessions in a store that survives the process.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        (self.store, self.is_persistent) = (Some(store), true);
        self
    }

    /// Sets how much sessions may take.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps nothing of sessions here: clients carry them in tokens signed with these keys (C-43).
    ///
    /// With a guard, one small number is kept for each session, by which old tokens are told and
    /// refused; without it a session can be gone on with from any of its tokens. Sessions survive as
    /// long as the keys do: say [`in_memory`](Self::in_memory) if these die with the process. A guard
    /// should live as long as the keys.
    pub fn stateless(mut self, keys: KeyRing, replay_guard: Option<Arc<dyn ReplayGuard>>) -> Self {
        self.stateless = Some((keys, replay_guard));
        self.is_persistent = true;
        self
    }

    /// Changes something else about the engine, such as its clock.
    pub fn engine(mut self, change: impl FnOnce(EngineBuilder) -> EngineBuilder + 'static) -> Self {
        self.change = Some(Box::new(change));
        self
    }

    /// How long `interaction.start` waits for the first question of a flow that has to think, and
    /// `interaction.continue` for what is next. 100 ms and a second.
    pub fn patience(mut self, start: Duration, poll: Duration) -> Self {
        self.patience = Patience { start, poll };
        self
    }

    /// Time that a flow that was called as a tool waits for an answer, unless the flow says. A day:
    /// `interaction.start` has a timeout that clients know of (INT-022), `tools/call` has none.
    pub fn call_inactivity(mut self, duration: Duration) -> Self {
        self.call_inactivity = duration;
        self
    }

    /// Leaves sessions alone that no request names: what was interrupted is not taken up, and what is
    /// overdue is not ended. For looking into a store that no server uses.
    pub fn at_rest(mut self) -> Self {
        self.is_at_rest = true;
        self
    }

    /// Switches conversations off: `interaction.*` says so (C-44), and flows are plain tools that
    /// need every value upfront. Nobody is asked, whatever the client can do.
    pub fn disabled(mut self) -> Self {
        self.is_enabled = false;
        self
    }

    /// Finishes them.
    pub fn build(self) -> Interaction {
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let mut engine = Engine::builder(store).limits(self.limits);
        if let Some(change) = self.change {
            engine = change(engine);
        }
        let mut flows = BTreeMap::new();
        for flow in self.flows {
            let schema = flow.input_schema();
            let tool = ToolParts { title: flow.title, description: flow.description, schema };
            let (asks_after_start, keys) = (flow.asks_after_start, flow.keys);
            let offered = Offered { asks_after_start, keys, tool };
            flows.insert(flow.definition.name().to_owned(), offered);
            engine = engine.flow(flow.definition);
        }
        let engine = engine.build();
        let stateless = self.stateless.map(|(keys, guard)| {
            let stateless = Stateless::new(&engine, keys);
            match guard {
                Some(guard) => stateless.replay_guard(guard),
                None => stateless,
            }
        });
        let inner = Inner {
            engine,
            flows,
            is_enabled: self.is_enabled,
            is_at_rest: self.is_at_rest,
            is_persistent: self.is_persistent,
            stateless,
            patience: self.patience,
            call_inactivity: self.call_inactivity,
            warnings: Warnings::default(),
            shown: ShownTurns::default(),
        };
        Interaction { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for InteractionBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = &self.flows;
        formatter.debug_struct("InteractionBuilder").field("flows", flows).finish_non_exhaustive()
    }
}

/// The methods a conversation is held by.
pub(crate) const ERA: Era = Era::Both;

/// The version of the interaction protocol.
const VERSION: &str = "0.1.0";

/// Its name among the extensions a server declares.
const EXTENSION: &str = "io.mcp-flow/interaction";

const START_PATIENCE: Duration = Duration::from_millis(100);
const POLL_PATIENCE: Duration = Duration::from_secs(1);
const CALL_INACTIVITY: Duration = Duration::from_secs(24 * 60 * 60);
