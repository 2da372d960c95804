//! The server: state shared by all of its connections.
//!
//! It owns what is registered (tools, resources, prompts, methods), the limits, hooks and observers, and
//! knows its open connections. What belongs to one connection is in `connection`, what belongs to one call
//! in `connection::call`; nothing here reads or writes messages.

mod builder;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{
    APP_MIME_TYPE, APPS_EXTENSION, CacheHint, ContentForm, Implementation, ListCapability,
    ResourceCapability, ServerCapabilities, Topics,
};
use mcp_flow_rate::{Buckets, Rate};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::{Map, Value, json};

use crate::catalog_source::CatalogSource;
use crate::connection::{Connection, ConnectionInfo};
use crate::connections::{Change, Connections};
use crate::endpoint::{Endpoint, Endpoints};
use crate::event::{ConnectionEvent, Hook, Shutdown, Veto};
use crate::extensions::Extensions;
use crate::identity::Principal;
use crate::input::Sealing;
use crate::limits::Limits;
use crate::load::Load;
use crate::observe::{Denial, Denials, Detail, Observer};
use crate::output_filter::OutputFilter;
use crate::permissions::{PermissionKind, Permissions};
use crate::prompt::catalog::PromptCatalog;
use crate::registry::Registry;
use crate::resource::catalog::Catalog;
use crate::revision::{Dialect, VersionPolicy};
use crate::router::{Era, Router};
use crate::shared_notice::{Share, SharedNotice};
use crate::signing::Signing;
use crate::tap::MessageTap;
use crate::task::Tasks;
use crate::tool::direct::Direct;
use crate::tool::registry::alias;
use crate::tool::{Tool, ToolNames};

pub use builder::{BuildError, ServerBuilder};

/// A server: tools, limits and hooks, shared by all its connections. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

/// A weak reference to a server.
#[derive(Clone, Debug)]
pub struct WeakServer {
    inner: Weak<Inner>,
}

impl WeakServer {
    /// Returns the server, unless it has been dropped.
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
    accepts_unsolicited_answers: bool,
    /// Replaced as a whole; a connection keeps the limits it was opened with.
    limits: RwLock<Arc<Limits>>,
    load: Load,
    rates: Buckets<String>,
    router: Router,
    permissions: Option<Permissions>,
    tools: RwLock<Registry<Tool>>,
    /// Set with the first tool that has metadata of apps, or the first app, and never cleared.
    has_apps: AtomicBool,
    cache_hints: Vec<(&'static str, CacheHint)>,
    /// Set with the first tool and never cleared: a declared capability is not withdrawn.
    has_tools: AtomicBool,
    tool_names: ToolNames,
    direct: Direct,
    catalog: Catalog,
    prompts: PromptCatalog,
    connections: Connections,
    hooks: Vec<Box<dyn Hook>>,
    shutdown: Vec<Box<Shutdown>>,
    observers: Vec<Box<dyn Observer>>,
    tap: Option<Arc<dyn MessageTap>>,
    denials: Denials,
    content_form: ContentForm,
    dialect: Dialect,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
    sealing: Sealing,
    signing: Option<Signing>,
    declared: Vec<Declared>,
    source: Option<Arc<dyn CatalogSource>>,
    tasks: Tasks,
    endpoints: Endpoints,
    /// Publisher of changes to the clients of other nodes.
    sharing: OnceLock<Box<Share>>,
    /// Number of nodes that serve the same principals.
    nodes: AtomicU32,
}

/// A protocol extension that the server declares.
struct Declared {
    /// The name it has among the `experimental` capabilities of handshake revisions; without one it
    /// is among the `extensions` there as well.
    experimental: Option<&'static str>,
    extension: Cow<'static, str>,
    era: Era,
    value: Value,
}

impl Server {
    /// Starts building a server with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(name.into(), version.into())
    }

    /// Opens a connection for a transport, unless a hook vetoes it.
    pub fn connect(&self, info: ConnectionInfo) -> Result<Connection, Veto> {
        Connection::open(self.clone(), info)
    }

    /// Ends the work beside the connections, such as that of flows: steps in progress may end within
    /// the drain time. To be called when no transport serves any more.
    pub async fn shutdown(&self) {
        let drain_time = self.limits().drain_time;
        for end in &self.inner.shutdown {
            end(drain_time).await;
        }
    }

    /// Returns a weak reference, for values that the server itself owns.
    pub fn downgrade(&self) -> WeakServer {
        WeakServer { inner: Arc::downgrade(&self.inner) }
    }

    /// Returns the endpoint of a path, and the path after its prefix.
    pub fn endpoint<'a>(&self, path: &'a str) -> Option<(&dyn Endpoint, &'a str)> {
        let mut endpoints = self.inner.endpoints.0.iter();
        endpoints.find_map(|(prefix, endpoint)| Some((&**endpoint, path.strip_prefix(prefix)?)))
    }

    /// Tells the endpoints the URL of the server, without a slash at its end. To be called by a
    /// transport that serves them.
    pub fn served_at(&self, url: &str) {
        for (_, endpoint) in &self.inner.endpoints.0 {
            endpoint.served_at(url);
        }
    }

    /// The limits that a connection opened now gets.
    pub fn limits(&self) -> Arc<Limits> {
        self.inner.limits.read().clone()
    }

    /// Replaces the limits for connections opened from now on.
    pub fn set_limits(&self, limits: Limits) {
        let limits = Arc::new(limits);
        *self.inner.limits.write() = limits;
    }

    /// The memory held by all connections together.
    pub fn load(&self) -> &Load {
        &self.inner.load
    }

    /// The rate-limit buckets of all principals.
    pub(crate) fn rates(&self) -> &Buckets<String> {
        &self.inner.rates
    }

    /// The access rules, if any are configured.
    pub fn permissions(&self) -> Option<&Permissions> {
        self.inner.permissions.as_ref()
    }

    /// Returns whether the rules allow a principal to use something.
    pub fn may(&self, principal: &Principal, kind: PermissionKind, name: &str) -> bool {
        self.permissions().is_none_or(|rules| rules.may(principal, kind, name))
    }

    /// Tells clients to list again, after the rules have changed.
    pub fn permissions_changed(&self) {
        self.announce(&Change { topics: self.topics(), names: None });
    }

    /// The server's name, version and description.
    pub fn info(&self) -> &Implementation {
        &self.inner.info
    }

    /// The protocol revisions it serves.
    pub fn versions(&self) -> VersionPolicy {
        self.inner.versions
    }

    /// Returns whether `inputResponses` to questions that were never asked are accepted.
    pub(crate) fn accepts_unsolicited_answers(&self) -> bool {
        self.inner.accepts_unsolicited_answers
    }

    /// The form in which content is written.
    pub fn content_form(&self) -> ContentForm {
        self.inner.content_form
    }

    /// The wording of errors and capabilities.
    pub fn dialect(&self) -> Dialect {
        self.inner.dialect
    }

    /// The server's info, as stateless results carry it.
    pub(crate) fn info_value(&self) -> &Value {
        &self.inner.info_value
    }

    /// [`info_value`](Self::info_value) as JSON text.
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
        self.inner.tools.read()
    }

    pub(crate) fn tools_mut(&self) -> RwLockWriteGuard<'_, Registry<Tool>> {
        self.inner.tools.write()
    }

    /// Records that tools are, or were, registered.
    pub(crate) fn declare_tools(&self) {
        self.inner.has_tools.store(true, Ordering::Release);
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.inner.has_tools.load(Ordering::Acquire)
    }

    /// Records that apps, or tools with apps, are or were registered.
    pub(crate) fn declare_apps(&self) {
        self.inner.has_apps.store(true, Ordering::Release);
    }

    pub(crate) fn has_apps(&self) -> bool {
        self.inner.has_apps.load(Ordering::Acquire)
    }

    /// The author's caching hint for the results of a method.
    pub(crate) fn cache_hint(&self, method: &str) -> Option<CacheHint> {
        let mut hints = self.inner.cache_hints.iter();
        hints.find(|(name, _)| *name == method).map(|(_, hint)| *hint)
    }

    /// The tools that can also be called as methods.
    pub(crate) fn direct(&self) -> &Direct {
        &self.inner.direct
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    pub(crate) fn prompts(&self) -> &PromptCatalog {
        &self.inner.prompts
    }

    /// Returns whether any argument has completions.
    pub(crate) fn has_completions(&self) -> bool {
        self.inner.source.is_some()
            || self.prompts().has_completions()
            || self.catalog().has_completions()
    }

    /// The lists that may change on this server.
    pub(crate) fn topics(&self) -> Topics {
        if !self.dialect().notifies_of_changes() {
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

    pub(crate) fn catalog_source(&self) -> Option<&Arc<dyn CatalogSource>> {
        self.inner.source.as_ref()
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.inner.connections
    }

    /// Notifies clients that lists have changed, if the server declares that, and if they may see
    /// the entries concerned.
    pub(crate) fn announce(&self, change: &Change<'_>) {
        self.announce_here(change);
        self.share(|| SharedNotice::of(change));
    }

    /// Like [`announce`](Self::announce), to the clients of this node only.
    pub(crate) fn announce_here(&self, change: &Change<'_>) {
        if self.dialect().notifies_of_changes() {
            self.connections().announce(change);
        }
    }

    pub(crate) fn sharing(&self) -> &OnceLock<Box<Share>> {
        &self.inner.sharing
    }

    /// Sets the number of nodes that serve the same principals. Limits of a principal are shared
    /// among them.
    pub fn set_nodes(&self, nodes: usize) {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
        self.inner.nodes.store(nodes, Ordering::Relaxed);
    }

    /// The share of this node in a rate limit of all nodes together.
    pub(crate) fn share_of(&self, rate: Rate) -> Rate {
        rate.share(self.inner.nodes.load(Ordering::Relaxed))
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.tasks
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

    /// The message-signing keys, if messages are signed.
    pub fn signing(&self) -> Option<&Signing> {
        self.inner.signing.as_ref()
    }

    /// Returns whether the server serves exactly one revision, to the letter.
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.inner.versions, VersionPolicy::Only(_))
    }

    /// The capabilities the server really has, and no others (PAT-005).
    pub(crate) fn capabilities(&self, revision: Revision) -> ServerCapabilities {
        let list = ListCapability { list_changed: true };
        let completes = revision.features().completions && self.has_completions();
        let (mut experimental, mut extensions) = (Map::new(), Map::new());
        let declared = self.inner.declared.iter().filter(|one| one.era.includes(revision));
        for Declared { experimental: name, extension, value, .. } in declared {
            let (place, name) = match name {
                Some(name) if !revision.is_stateless() => (&mut experimental, *name),
                _ => (&mut extensions, &**extension),
            };
            place.insert(name.to_owned(), value.clone());
        }
        if self.has_apps() {
            let settings = json!({"mimeTypes": [APP_MIME_TYPE]});
            extensions.entry(APPS_EXTENSION).or_insert(settings);
        }
        ServerCapabilities {
            tools: self.has_tools().then_some(list),
            prompts: self.prompts().is_offered().then_some(list),
            completions: completes.then(Map::new),
            resources: self
                .catalog()
                .is_offered()
                .then_some(ResourceCapability { subscribe: true, list_changed: true }),
            logging: Some(Map::new()),
            experimental,
            extensions,
        }
    }

    /// The level of detail to record for a request dispatched now.
    pub(crate) fn detail_of(&self, method: &str) -> Detail {
        let details = self.inner.observers.iter().map(|observer| observer.detail_of(method));
        details.max().unwrap_or(Detail::Nothing)
    }

    /// Reports that a transport rejected a client, with the reason. Returns whether observers were
    /// notified; during a flood of rejections most are only counted.
    pub fn denied(&self, transport: &'static str, peer: Option<SocketAddr>, reason: &str) -> bool {
        let Some(others) = self.inner.denials.count(Instant::now()) else { return false };
        let denial = Denial { transport, peer, reason, others };
        self.inner.observers.iter().for_each(|observer| observer.denied(&denial));
        true
    }

    /// Returns whether all observers can record another request.
    pub(crate) fn can_be_observed(&self) -> bool {
        self.inner.observers.iter().all(|observer| observer.has_room())
    }

    pub(crate) fn tap(&self) -> Option<&Arc<dyn MessageTap>> {
        self.inner.tap.as_ref()
    }

    pub(crate) fn observers(&self) -> &[Box<dyn Observer>] {
        &self.inner.observers
    }

    pub(crate) fn emit(
        &self,
        info: &ConnectionInfo,
        event: &ConnectionEvent<'_>,
    ) -> Result<(), Veto> {
        self.inner.hooks.iter().try_for_each(|hook| hook.on(info, event))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("info", &self.inner.info).finish_non_exhaustive()
    }
}
