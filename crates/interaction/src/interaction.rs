//! Flows with their engine, and their registration with a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{
    ClientHeldSessions, Definition, Engine, EngineBuilder, SessionLimits, StartRequest,
};
use mcp_flow_seal::KeyRing;
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::router::Era;
use mcp_flow_server::tool::without_null;
use mcp_flow_server::{
    AddToolsError, BadTool, ConnectionEvent, ConnectionInfo, Context, Server, ServerBuilder, Tool,
};
use mcp_flow_session::store::ReplayGuard;
use mcp_flow_session::{MemoryStore, Owner, Store};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};

use crate::backend::SessionBackend;
use crate::delivered_turns::DeliveredTurns;
use crate::expiry::ExpiryClients;
use crate::offer::{Customize, IntoFlows, OfferedFlow};
use crate::task::{self, TaskMode};
use crate::tool::Unanswered;
use crate::{methods, tool};

/// Flows and the engine that runs them. A handle: clones share one engine.
#[derive(Clone)]
pub struct Interaction {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) backend: SessionBackend,
    flows: RwLock<BTreeMap<String, Arc<Offered>>>,
    pub(crate) is_enabled: bool,
    is_offline: bool,
    pub(crate) is_persistent: bool,
    pub(crate) timeouts: ResponseTimeouts,
    /// Time after which a call continues as a task.
    pub(crate) task_after: Duration,
    /// Inactivity timeout of flows called as tools.
    pub(crate) call_inactivity: Duration,
    pub(crate) expiry: ExpiryClients,
    pub(crate) delivered: DeliveredTurns,
}

impl Inner {
    /// Returns the flow of this name, as it is offered.
    pub(crate) fn offered(&self, name: &str) -> Option<Arc<Offered>> {
        self.flows.read().get(name).cloned()
    }
}

/// A flow as it is offered, beside its definition in the engine.
pub(crate) struct Offered {
    pub(crate) asks_after_start: bool,
    pub(crate) task: TaskMode,
    /// Set if its data is the output of a tool.
    pub(crate) is_tool: bool,
    /// Keys of the listed questions.
    keys: Vec<String>,
    /// Parts of its tool.
    tool: ToolParts,
}

impl Offered {
    /// Splits a flow into its definition for the engine, and what else is offered.
    fn of(flow: OfferedFlow) -> (Definition, Self) {
        let schema = flow.input_schema();
        let OfferedFlow { definition, asks_after_start, keys, task, is_tool, .. } = flow;
        let (title, description, customize) = (flow.title, flow.description, flow.customize);
        let listed = without_null(schema.clone());
        let tool = ToolParts { title, description, schema, listed, customize };
        (definition, Self { asks_after_start, task, is_tool, keys, tool })
    }

    /// Returns the kind of permission that its callers need.
    pub(crate) fn kind(&self) -> PermissionKind {
        if self.is_tool { PermissionKind::Tool } else { PermissionKind::Flow }
    }

    /// Returns the listed questions that nothing was given for. The flow decides which it asks.
    pub(crate) fn unanswered<'a>(
        &'a self,
        definition: Option<&'a Definition>,
        given: &Map<String, Value>,
    ) -> impl Iterator<Item = Unanswered<'a>> {
        let properties = &self.tool.listed["properties"];
        let is_given = |key: &String| given.get(key).is_some_and(|value| !value.is_null());
        let keys = self.keys.iter().filter(move |key| !is_given(key));
        keys.map(move |key| Unanswered {
            key,
            schema: &properties[key],
            declared: definition.and_then(|definition| definition.declared(key)),
        })
    }
}

struct ToolParts {
    title: Option<String>,
    description: Option<String>,
    schema: Value,
    /// The schema as it is listed.
    listed: Value,
    customize: Customize,
}

/// Time a request waits for a working flow before it is answered without the next question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseTimeouts {
    pub(crate) start: Duration,
    pub(crate) poll: Duration,
}

impl Interaction {
    /// Returns a builder, with sessions in memory.
    pub fn builder() -> InteractionBuilder {
        InteractionBuilder {
            flows: Vec::new(),
            store: None,
            limits: SessionLimits::default(),
            client_held: None,
            change: None,
            is_enabled: true,
            is_offline: false,
            is_persistent: false,
            timeouts: ResponseTimeouts { start: START_TIMEOUT, poll: POLL_TIMEOUT },
            task_after: TASK_AFTER,
            call_inactivity: CALL_INACTIVITY,
        }
    }

    /// Returns the engine that runs the flows.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Adds the methods, the flows as tools, and the declaration of both to a server.
    ///
    /// Maintenance starts with the first connection; [`Engine::start_maintenance`] starts it
    /// before.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let (engine, ending) = (self.engine().clone(), self.engine().clone());
        let server = task::add_to(self, methods::add_to(self, server))
            .declare("interaction", EXTENSION, self.capabilities())
            .tools(self.tools())
            .on_shutdown(move |drain_time| {
                let engine = ending.clone();
                async move {
                    engine.drain(drain_time).await;
                    engine.shutdown().await;
                }
            });
        if !self.inner.is_enabled || self.inner.is_offline {
            return server;
        }
        server.hook(move |_: &ConnectionInfo, event: &ConnectionEvent<'_>| {
            if matches!(event, ConnectionEvent::Connected) {
                engine.start_maintenance();
            }
            Ok(())
        })
    }

    /// Adds a flow while the server runs, which must be the one of these flows.
    pub fn add_flow(&self, server: &Server, flow: OfferedFlow) -> Result<(), AddToolsError> {
        let (definition, offered) = Offered::of(flow);
        let name = definition.name().to_owned();
        server.add_tools(self.tool(&name, &offered))?;
        self.inner.flows.write().insert(name, Arc::new(offered));
        self.engine().add_flow(definition);
        Ok(())
    }

    /// Removes a flow while the server runs; its sessions continue. Returns whether it existed.
    pub fn remove_flow(&self, server: &Server, name: &str) -> bool {
        self.engine().remove_flow(name);
        let existed = self.inner.flows.write().remove(name).is_some();
        existed && server.remove_tool(name)
    }

    /// Returns the declared capabilities (INT-091).
    pub fn capabilities(&self) -> Value {
        let on = self.inner.is_enabled;
        json!({
            "interactive": on,
            "version": VERSION,
            "features": {
                "statefulSessions": on && !self.inner.backend.is_client_held(),
                "progressTracking": on,
                "validation": on,
                "multiplePromptTypes": on,
                "sessionPersistence": on && self.inner.is_persistent,
            }
        })
    }

    fn tools(&self) -> Vec<Result<Tool, BadTool>> {
        let flows = self.inner.flows.read();
        flows.iter().map(|(name, offered)| self.tool(name, offered)).collect()
    }

    fn tool(&self, name: &str, offered: &Offered) -> Result<Tool, BadTool> {
        let parts = &offered.tool;
        let mut builder = Tool::builder(name).derived_schema(parts.schema.clone());
        if self.inner.is_enabled && !offered.is_tool {
            builder = builder.meta("interactive", true);
        }
        builder = builder.granted_as(offered.kind());
        if let Some(title) = &parts.title {
            builder = builder.title(title);
        }
        if let Some(description) = &parts.description {
            builder = builder.description(description);
        }
        let (interaction, flow) = (self.clone(), name.to_owned());
        parts.customize.apply(builder).handler(move |context: Context, arguments| {
            tool::call(interaction.clone(), flow.clone(), context, arguments)
        })
    }
}

impl fmt::Debug for Interaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.inner.flows.read().keys().cloned().collect();
        formatter.debug_struct("Interaction").field("flows", &names).finish_non_exhaustive()
    }
}

/// Extension of [`ServerBuilder`] with flows.
pub trait ServeFlows: Sized {
    /// Adds flows with sessions in memory. [`Interaction::builder`] has more options.
    fn flows(self, flows: impl IntoFlows) -> Self;
}

impl ServeFlows for ServerBuilder {
    fn flows(self, flows: impl IntoFlows) -> Self {
        Interaction::builder().flows(flows).build().add_to(self)
    }
}

/// Returns the owner of sessions that a call starts.
pub(crate) fn owner(context: &Context) -> Owner {
    Owner::new(context.principal().name())
}

/// Creates the request that starts a session for a call, in the name and with the scopes of its
/// principal.
pub(crate) fn start_request(context: &Context, flow: &str) -> StartRequest {
    let depth = context.state::<CallDepth>().map_or(0, |depth| depth.0);
    StartRequest::new(flow, owner(context)).scopes(context.principal().scopes()).depth(depth)
}

/// Number of sessions whose calls led to the calls of a connection, in the extensions of one that a
/// flow opens.
#[derive(Clone, Copy, Debug)]
pub struct CallDepth(pub u32);

/// Builds an [`Interaction`].
#[must_use]
pub struct InteractionBuilder {
    flows: Vec<OfferedFlow>,
    store: Option<Arc<dyn Store>>,
    limits: SessionLimits,
    client_held: Option<(KeyRing, Option<Arc<dyn ReplayGuard>>)>,
    change: Option<Box<dyn FnOnce(EngineBuilder) -> EngineBuilder>>,
    is_enabled: bool,
    is_offline: bool,
    is_persistent: bool,
    timeouts: ResponseTimeouts,
    task_after: Duration,
    call_inactivity: Duration,
}

impl InteractionBuilder {
    /// Adds flows: one, or several in a list. A flow replaces an earlier one of the same name.
    pub fn flows(mut self, flows: impl IntoFlows) -> Self {
        self.flows.extend(flows.into_flows());
        self
    }

    /// Stores sessions in memory, where they are lost with the process.
    pub fn in_memory(mut self) -> Self {
        (self.store, self.is_persistent) = (None, false);
        self
    }

    /// Stores sessions in a store that survives the process.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        (self.store, self.is_persistent) = (Some(store), true);
        self
    }

    /// Sets the limits of sessions.
    pub fn limits(mut self, limits: SessionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Stores no sessions: clients hold them in tokens signed with these keys (C-43).
    ///
    /// With a guard, old tokens are rejected; without it a session can be continued from any of its
    /// tokens. Sessions survive as long as the keys: call [`in_memory`](Self::in_memory) after this
    /// if those are lost with the process. A guard should live as long as the keys.
    pub fn client_held(
        mut self,
        keys: KeyRing,
        replay_guard: Option<Arc<dyn ReplayGuard>>,
    ) -> Self {
        self.client_held = Some((keys, replay_guard));
        self.is_persistent = true;
        self
    }

    /// Customizes the engine, such as its clock.
    pub fn engine(mut self, change: impl FnOnce(EngineBuilder) -> EngineBuilder + 'static) -> Self {
        self.change = Some(Box::new(change));
        self
    }

    /// Sets how long `interaction.start` waits for the first question, and `interaction.continue`
    /// for the next one. Defaults to 100 ms and 1 s.
    pub fn response_timeouts(mut self, start: Duration, poll: Duration) -> Self {
        self.timeouts = ResponseTimeouts { start, poll };
        self
    }

    /// Sets how long a call waits for a working flow before it continues as a task, with
    /// [`TaskMode::Auto`]. Defaults to 1 s.
    pub fn task_after(mut self, duration: Duration) -> Self {
        self.task_after = duration;
        self
    }

    /// Sets the inactivity timeout of flows called as tools that set none themselves. Defaults to a
    /// day: unlike `interaction.start` (INT-022), `tools/call` has no timeout that clients know.
    pub fn call_inactivity(mut self, duration: Duration) -> Self {
        self.call_inactivity = duration;
        self
    }

    /// Runs no maintenance: interrupted sessions are not resumed, and overdue ones not expired. For
    /// inspecting an offline store.
    pub fn offline(mut self) -> Self {
        self.is_offline = true;
        self
    }

    /// Disables interaction: `interaction.*` fails (C-44), and flows are plain tools that need
    /// every value as an argument, whatever the client supports.
    pub fn disabled(mut self) -> Self {
        self.is_enabled = false;
        self
    }

    /// Builds the flows and their engine.
    pub fn build(self) -> Interaction {
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let mut engine = Engine::builder(store).limits(self.limits);
        if let Some(change) = self.change {
            engine = change(engine);
        }
        let mut flows = BTreeMap::new();
        for flow in self.flows {
            let (definition, offered) = Offered::of(flow);
            flows.insert(definition.name().to_owned(), Arc::new(offered));
            engine = engine.flow(definition);
        }
        let engine = engine.build();
        let backend = match self.client_held {
            None => SessionBackend::Stored(engine.clone()),
            Some((keys, guard)) => {
                let sessions = ClientHeldSessions::new(&engine, keys);
                SessionBackend::ClientHeld(match guard {
                    Some(guard) => sessions.replay_guard(guard),
                    None => sessions,
                })
            }
        };
        let inner = Inner {
            engine,
            flows: RwLock::new(flows),
            is_enabled: self.is_enabled,
            is_offline: self.is_offline,
            is_persistent: self.is_persistent,
            backend,
            timeouts: self.timeouts,
            task_after: self.task_after,
            call_inactivity: self.call_inactivity,
            expiry: ExpiryClients::default(),
            delivered: DeliveredTurns::default(),
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

/// Eras in which the methods are available.
pub(crate) const ERA: Era = Era::Both;

/// Version of the interaction protocol.
const VERSION: &str = "0.1.0";

/// Name of the extension that a server declares.
const EXTENSION: &str = "io.mcp-flow/interaction";

const START_TIMEOUT: Duration = Duration::from_millis(100);
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
const TASK_AFTER: Duration = Duration::from_secs(1);
const CALL_INACTIVITY: Duration = Duration::from_secs(24 * 60 * 60);
