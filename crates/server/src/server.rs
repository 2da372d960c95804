//! A server: what all its connections share.

mod builder;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Instant;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{
    ContentForm, Implementation, ListCapability, ResourceCapability, ServerCapabilities, Topics,
};
use mcp_flow_rate::Buckets;
use serde_json::{Map, Value};

use crate::connection::{Connection, ConnectionInfo};
use crate::connections::{Change, Connections};
use crate::event::{Event, Hook, Veto};
use crate::extensions::Extensions;
use crate::identity::Principal;
use crate::input::Sealing;
use crate::limits::Limits;
use crate::load::Load;
use crate::observe::{Denial, Denials, Detail, Observer};
use crate::output_filter::OutputFilter;
use crate::permissions::{Kind, Permissions};
use crate::prompt::catalog::PromptCatalog;
use crate::registry::Registry;
use crate::resource::catalog::Catalog;
use crate::revision::{Dialect, VersionPolicy};
use crate::router::Router;
use crate::signing::Signing;
use crate::tool::direct::Direct;
use crate::tool::registry::alias;
use crate::tool::{Tool, ToolNames};

pub use builder::{BuildError, ServerBuilder};

/// A server: tools, limits and hooks, shared by all its connections. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

/// A server that is not kept alive by this.
#[derive(Clone, Debug)]
pub struct WeakServer {
    inner: Weak<Inner>,
}

impl WeakServer {
    /// Returns the server, unless it has gone.
    pub fn upgrade(&self) -> Option<Server> {
        self.inner.upgrade().map(|inner| Server { inner })
    }
}

struct Inner {
    info: Implementation,
    info_value: Value,
    info_text: String,
    instructions: Option<String>,
    versions: VersionPolicy,
    takes_unasked_answers: bool,
    /// Exchanged as a whole; a connection keeps those it was opened with.
    limits: RwLock<Arc<Limits>>,
    load: Load,
    rates: Buckets<String>,
    router: Router,
    permissions: Option<Permissions>,
    tools: RwLock<Registry<Tool>>,
    /// Set with the first tool; what a server has once offered it does not take back.
    has_tools: AtomicBool,
    tool_names: ToolNames,
    direct: Direct,
    catalog: Catalog,
    prompts: PromptCatalog,
    connections: Connections,
    hooks: Vec<Box<dyn Hook>>,
    observers: Vec<Box<dyn Observer>>,
    denials: Denials,
    content_form: ContentForm,
    dialect: Dialect,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
    sealing: Sealing,
    signing: Option<Signing>,
    declared: Vec<Declared>,
}

/// An addition to the protocol that the server declares.
struct Declared {
    experimental: &'static str,
    extension: &'static str,
    value: Value,
}

impl Server {
    /// Begins a server that calls itself by this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(name.into(), version.into())
    }

    /// Opens a connection for a transport, unless a hook refuses it.
    pub fn connect(&self, info: ConnectionInfo) -> Result<Connection, Veto> {
        Connection::open(self.clone(), info)
    }

    /// Returns a reference that does not keep the server alive, for what the server itself owns.
    pub fn downgrade(&self) -> WeakServer {
        WeakServer { inner: Arc::downgrade(&self.inner) }
    }

    /// The bounds a connection has that is opened now.
    pub fn limits(&self) -> Arc<Limits> {
        self.inner.limits.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets other bounds, for connections that are opened from now on.
    pub fn set_limits(&self, limits: Limits) {
        let limits = Arc::new(limits);
        *self.inner.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// What its connections hold together.
    pub fn load(&self) -> &Load {
        &self.inner.load
    }

    /// How often each principal may still ask.
    pub(crate) fn rates(&self) -> &Buckets<String> {
        &self.inner.rates
    }

    /// Who may use what, where there are rules.
    pub fn permissions(&self) -> Option<&Permissions> {
        self.inner.permissions.as_ref()
    }

    /// Whether a principal may use something, by the rules there are.
    pub fn may(&self, principal: &Principal, kind: Kind, name: &str) -> bool {
        self.permissions().is_none_or(|rules| rules.may(principal, kind, name))
    }

    /// Has clients look again at what they may use, after the rules have changed.
    pub fn permissions_changed(&self) {
        self.announce(&Change { topics: self.topics(), names: None });
    }

    /// Who the server says it is.
    pub fn info(&self) -> &Implementation {
        &self.inner.info
    }

    /// Which revisions it agrees to.
    pub fn versions(&self) -> VersionPolicy {
        self.inner.versions
    }

    /// Returns whether answers count that come before their question.
    pub(crate) fn takes_unasked_answers(&self) -> bool {
        self.inner.takes_unasked_answers
    }

    /// Whose way of writing content it follows.
    pub fn content_form(&self) -> ContentForm {
        self.inner.content_form
    }

    /// Whose words it uses.
    pub fn dialect(&self) -> Dialect {
        self.inner.dialect
    }

    /// Who answers, as results that stand alone say it.
    pub(crate) fn info_value(&self) -> &Value {
        &self.inner.info_value
    }

    /// The same as JSON.
    pub(crate) fn info_text(&self) -> &str {
        &self.inner.info_text
    }

    pub(crate) fn instructions(&self) -> Option<&str> {
        self.inner.instructions.as_deref()
    }

    pub(crate) fn router(&self) -> &Router {
        &self.inner.router
    }

    pub(crate) fn tools(&self) -> RwLockReadGuard<'_, Registry<Tool>> {
        self.inner.tools.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tools_mut(&self) -> RwLockWriteGuard<'_, Registry<Tool>> {
        self.inner.tools.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that there are, or were, tools.
    pub(crate) fn note_tools(&self) {
        self.inner.has_tools.store(true, Ordering::Release);
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.inner.has_tools.load(Ordering::Acquire)
    }

    /// Which tools are methods of their own, too.
    pub(crate) fn direct(&self) -> &Direct {
        &self.inner.direct
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    pub(crate) fn prompts(&self) -> &PromptCatalog {
        &self.inner.prompts
    }

    /// Whether values are suggested for any argument.
    pub(crate) fn has_completions(&self) -> bool {
        self.prompts().has_completions() || self.catalog().has_completions()
    }

    /// The lists that may change here.
    pub(crate) fn topics(&self) -> Topics {
        if self.dialect() == Dialect::Seed004 {
            return Topics::default();
        }
        Topics {
            tools_list_changed: self.has_tools(),
            prompts_list_changed: self.prompts().is_offered(),
            resources_list_changed: self.catalog().is_offered(),
        }
    }

    /// The name a tool is listed under.
    pub(crate) fn listed_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.inner.tool_names {
            ToolNames::AsRegistered => Cow::Borrowed(name),
            ToolNames::Underscore => Cow::Owned(alias(name)),
        }
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.inner.connections
    }

    /// Tells clients that lists have changed, if the server has said that it does so, and if they
    /// may see what has.
    pub(crate) fn announce(&self, change: &Change<'_>) {
        if self.dialect() == Dialect::Official {
            self.connections().announce(change);
        }
    }

    pub(crate) fn output_filters(&self) -> &[Box<OutputFilter>] {
        &self.inner.output_filters
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.inner.extensions
    }

    pub(crate) fn sealing(&self) -> &Sealing {
        &self.inner.sealing
    }

    /// How messages are signed, where they are.
    pub fn signing(&self) -> Option<&Signing> {
        self.inner.signing.as_ref()
    }

    /// Whether the server holds clients to the letter of the one revision it speaks.
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.inner.versions, VersionPolicy::Only(_))
    }

    /// What is really there, and nothing else (PAT-005).
    pub(crate) fn capabilities(&self, revision: Revision) -> ServerCapabilities {
        let list = ListCapability { list_changed: true };
        let completes = revision.features().completions && self.has_completions();
        let declared = |stateless: bool, name: fn(&Declared) -> &'static str| -> Map<_, _> {
            let here = self.inner.declared.iter().filter(|_| stateless == revision.is_stateless());
            here.map(|one| (name(one).to_owned(), one.value.clone())).collect()
        };
        ServerCapabilities {
            tools: self.has_tools().then_some(list),
            prompts: self.prompts().is_offered().then_some(list),
            completions: completes.then(Map::new),
            resources: self
                .catalog()
                .is_offered()
                .then_some(ResourceCapability { subscribe: true, list_changed: true }),
            logging: Some(Map::new()),
            experimental: declared(false, |one| one.experimental),
            extensions: declared(true, |one| one.extension),
        }
    }

    /// How much is to be noted of a request that is taken up now.
    pub(crate) fn detail(&self) -> Detail {
        let details = self.inner.observers.iter().map(|observer| observer.detail());
        details.max().unwrap_or(Detail::Nothing)
    }

    /// For a transport to say that it has not let somebody in, for this reason. Whether that was
    /// told to observers, or is only counted because there are many.
    pub fn denied(&self, transport: &'static str, peer: Option<SocketAddr>, reason: &str) -> bool {
        let Some(others) = self.inner.denials.count(Instant::now()) else { return false };
        let denial = Denial { transport, peer, reason, others };
        self.inner.observers.iter().for_each(|observer| observer.denied(&denial));
        true
    }

    /// Whether what is done can be told to all who want to know.
    pub(crate) fn can_be_observed(&self) -> bool {
        self.inner.observers.iter().all(|observer| observer.has_room())
    }

    pub(crate) fn observers(&self) -> &[Box<dyn Observer>] {
        &self.inner.observers
    }

    pub(crate) fn raise(&self, info: &ConnectionInfo, event: &Event<'_>) -> Result<(), Veto> {
        self.inner.hooks.iter().try_for_each(|hook| hook.on(info, event))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("info", &self.inner.info).finish_non_exhaustive()
    }
}
