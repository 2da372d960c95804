//! State of the admin extension, its permission check, and its registration on a server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use mcp_flow_engine::Engine;
use mcp_flow_interaction::Interaction;
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_server::observe::ConnectionCounts;
use mcp_flow_server::{
    ConnectionEvent, ConnectionInfo, Context, Detail, Observed, Observer, Principal, ServerBuilder,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::methods;
use crate::recorder::Recorder;

/// Admin extension of one server. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Admin {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    is_admin: Box<dyn Fn(&Principal) -> bool + Send + Sync>,
    engine: OnceLock<Engine>,
    /// Description of the server by its operator.
    pub(crate) about: OnceLock<Value>,
    /// Describes the tool files of the server.
    pub(crate) tool_files: OnceLock<Box<dyn Fn() -> Value + Send + Sync>>,
    /// Writes captured exchanges as a cassette.
    pub(crate) cassette: OnceLock<CassetteWriter>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) connections: Arc<ConnectionCounts>,
    pub(crate) started: u64,
    watches: Mutex<Watches>,
}

/// Writes exchanges as the text of a cassette.
type CassetteWriter = Box<dyn Fn(&[Value]) -> String + Send + Sync>;

#[derive(Default)]
struct Watches {
    open: HashMap<u64, (Principal, CancellationToken)>,
    last: u64,
}

impl Admin {
    /// Creates the extension. `is_admin` decides who may see sessions of others, traffic and
    /// metrics.
    pub fn new(is_admin: impl Fn(&Principal) -> bool + Send + Sync + 'static) -> Self {
        let connections = Arc::<ConnectionCounts>::default();
        let inner = Inner {
            is_admin: Box::new(is_admin),
            engine: OnceLock::new(),
            about: OnceLock::new(),
            tool_files: OnceLock::new(),
            cassette: OnceLock::new(),
            recorder: Arc::new(Recorder::new(connections.clone())),
            connections,
            started: now(),
            watches: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sets the flows whose sessions are shown. Can be set once.
    #[must_use]
    pub fn sessions_of(self, interaction: &Interaction) -> Self {
        let _ = self.inner.engine.set(interaction.engine().clone());
        self
    }

    /// Sets the member `about` of `admin/server`, such as the addresses of the server. Can be set
    /// once, at any time.
    pub fn describe(&self, about: Value) {
        let _ = self.inner.about.set(about);
    }

    /// Sets the source of the member `toolFiles` of `admin/server`: the files that declare tools, with
    /// their problems. Can be set once, at any time.
    pub fn tool_files(&self, describe: impl Fn() -> Value + Send + Sync + 'static) {
        let _ = self.inner.tool_files.set(Box::new(describe));
    }

    /// Sets what writes captured exchanges as a cassette, for `admin/cassette`. Can be set once, at any
    /// time.
    pub fn cassettes(&self, write: impl Fn(&[Value]) -> String + Send + Sync + 'static) {
        let _ = self.inner.cassette.set(Box::new(write));
    }

    /// Adds the methods, an observer and a connection counter to a server.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let connections = self.inner.connections.clone();
        methods::add_to(self, server)
            .declare("admin", EXTENSION, json!({"version": VERSION}))
            .observer(RecorderObserver(self.inner.recorder.clone()))
            .hook(move |connection: &ConnectionInfo, event: &ConnectionEvent<'_>| {
                connections.record(connection.transport, event);
                Ok(())
            })
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.inner.engine.get()
    }

    /// Returns whether a principal is an admin.
    pub(crate) fn is_admin(&self, principal: &Principal) -> bool {
        (self.inner.is_admin)(principal)
    }

    /// Rejects callers that are not admins.
    pub(crate) fn check(&self, context: &Context) -> Result<(), RpcError> {
        if self.is_admin(context.principal()) {
            return Ok(());
        }
        Err(RpcError::new(ACCESS_DENIED)
            .with("principal", context.principal().name())
            .details("This needs the admin permission."))
    }

    /// Registers a watch and returns its number and stop token; an error at the limit.
    pub(crate) fn open_watch(
        &self,
        principal: &Principal,
    ) -> Result<(u64, CancellationToken), RpcError> {
        let mut watches = self.watches();
        let own = watches.open.values().filter(|(owner, _)| owner == principal).count();
        if own >= MAX_OWN_WATCHES || watches.open.len() >= MAX_WATCHES {
            return Err(RpcError::invalid_request(
                "too many watches are open; end one with admin/unwatch",
            ));
        }
        watches.last += 1;
        let (number, stop) = (watches.last, CancellationToken::new());
        watches.open.insert(number, (principal.clone(), stop.clone()));
        Ok((number, stop))
    }

    /// Ends a watch of this principal. Returns whether it existed.
    pub(crate) fn end_watch(&self, number: u64, principal: &Principal) -> bool {
        let mut watches = self.watches();
        let is_own = watches.open.get(&number).is_some_and(|(owner, _)| owner == principal);
        let ended = if is_own { watches.open.remove(&number) } else { None };
        ended.inspect(|(_, stop)| stop.cancel()).is_some()
    }

    pub(crate) fn forget_watch(&self, number: u64) {
        self.watches().open.remove(&number);
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.inner.watches.lock()
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admin").finish_non_exhaustive()
    }
}

struct RecorderObserver(Arc<Recorder>);

impl Observer for RecorderObserver {
    fn detail(&self) -> Detail {
        if self.0.is_on() { Detail::Full } else { Detail::Nothing }
    }

    fn detail_of(&self, method: &str) -> Detail {
        if self.0.records(method) { Detail::Full } else { Detail::Nothing }
    }

    fn observe(&self, exchange: &Observed<'_>) {
        // Another observer may have asked for the details.
        if self.0.records(exchange.method) {
            self.0.record(exchange);
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const VERSION: &str = "0.1.0";

/// Name of the declared extension.
const EXTENSION: &str = "io.mcp-flow/admin";

const MAX_WATCHES: usize = 256;
const MAX_OWN_WATCHES: usize = 64;
