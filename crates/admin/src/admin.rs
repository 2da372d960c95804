//! What the methods share, and how they get into a server.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::methods;
use crate::recorder::Recorder;

/// The admin extension of one server. A handle; clones are the same.
#[derive(Clone)]
pub struct Admin {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    may: Box<dyn Fn(&Principal) -> bool + Send + Sync>,
    engine: OnceLock<Engine>,
    /// What whoever runs the server says of it.
    pub(crate) about: OnceLock<Value>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) connections: Arc<ConnectionCounts>,
    pub(crate) started: u64,
    watches: Mutex<Watches>,
}

#[derive(Default)]
struct Watches {
    open: HashMap<u64, (Principal, CancellationToken)>,
    last: u64,
}

impl Admin {
    /// Begins with who may see what is not their own.
    pub fn new(may: impl Fn(&Principal) -> bool + Send + Sync + 'static) -> Self {
        let connections = Arc::<ConnectionCounts>::default();
        let inner = Inner {
            may: Box::new(may),
            engine: OnceLock::new(),
            about: OnceLock::new(),
            recorder: Arc::new(Recorder::new(connections.clone())),
            connections,
            started: now(),
            watches: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Shows the sessions of these flows. To be said once; without, there are none.
    #[must_use]
    pub fn sessions_of(self, interaction: &Interaction) -> Self {
        let _ = self.inner.engine.set(interaction.engine().clone());
        self
    }

    /// Says what `admin/server` is to tell beside what is known here, such as where the server
    /// listens. To be said once, at any time.
    pub fn describe(&self, about: Value) {
        let _ = self.inner.about.set(about);
    }

    /// Adds the methods, and what they need to know, to a server.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let connections = self.inner.connections.clone();
        methods::add_to(self, server)
            .declare("admin", EXTENSION, json!({"version": VERSION}))
            .observer(Recording(self.inner.recorder.clone()))
            .hook(move |connection: &ConnectionInfo, event: &ConnectionEvent<'_>| {
                connections.note(connection.transport, event);
                Ok(())
            })
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.inner.engine.get()
    }

    /// Whether a principal may see what is not their own.
    pub(crate) fn may_see_all(&self, principal: &Principal) -> bool {
        (self.inner.may)(principal)
    }

    /// Refuses callers that may see only what is their own.
    pub(crate) fn check(&self, context: &Context) -> Result<(), RpcError> {
        if self.may_see_all(context.principal()) {
            return Ok(());
        }
        Err(RpcError::new(ACCESS_DENIED)
            .with("principal", context.principal().name())
            .details("Only those who look after this server may see this."))
    }

    /// Notes a watch, unless there are too many, and gives its number and what ends it.
    pub(crate) fn open_watch(
        &self,
        principal: &Principal,
    ) -> Result<(u64, CancellationToken), RpcError> {
        let mut watches = self.watches();
        let own = watches.open.values().filter(|(owner, _)| owner == principal).count();
        if own >= MOST_OWN_WATCHES || watches.open.len() >= MOST_WATCHES {
            return Err(RpcError::invalid_request(
                "too many watches are open; end one with admin/unwatch",
            ));
        }
        watches.last += 1;
        let (number, stop) = (watches.last, CancellationToken::new());
        watches.open.insert(number, (principal.clone(), stop.clone()));
        Ok((number, stop))
    }

    /// Ends a watch of this principal. Whether there was one.
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
        self.inner.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admin").finish_non_exhaustive()
    }
}

struct Recording(Arc<Recorder>);

impl Observer for Recording {
    fn detail(&self) -> Detail {
        if self.0.is_on() { Detail::Full } else { Detail::Nothing }
    }

    fn observe(&self, exchange: &Observed<'_>) {
        // Another may watch while nobody does here.
        if self.0.is_on() {
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

/// Its name among the extensions a server declares.
const EXTENSION: &str = "io.mcp-flow/admin";

const MOST_WATCHES: usize = 256;
const MOST_OWN_WATCHES: usize = 64;
