//! Putting a server together.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{
    ContentForm, Implementation, ListCapability, ResourceCapability, ServerCapabilities, Topics,
};
use serde_json::{Map, Value};

use crate::connection::{Connection, ConnectionInfo};
use crate::connections::{Change, Connections};
use crate::context::Context;
use crate::event::{Event, Hook, Veto};
use crate::extensions::Extensions;
use crate::handler::Handler;
use crate::identity::Principal;
use crate::input::Sealing;
use crate::limits::Limits;
use crate::methods;
use crate::observe::{Detail, Observer};
use crate::output_filter::OutputFilter;
use crate::permissions::{Kind, Permissions};
use crate::prompt::AddPromptsError;
use crate::prompt::catalog::{PromptCatalog, PromptList};
use crate::registry::Registry;
use crate::resource::catalog::Catalog;
use crate::resource::{AddResourcesError, BadResource, Offered};
use crate::revision::{Dialect, VersionPolicy};
use crate::router::{Era, Router};
use crate::tool::direct::Direct;
use crate::tool::registry::alias;
use crate::tool::{AddToolsError, BadTool, Tool, ToolNames, ToolOutput};

/// A server: tools, limits and hooks, shared by all its connections. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

/// A server that is not kept alive by this.
#[derive(Clone)]
pub(crate) struct WeakServer {
    inner: Weak<Inner>,
}

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        self.inner.upgrade().map(|inner| Server { inner })
    }
}

struct Inner {
    info: Implementation,
    info_value: Value,
    info_text: String,
    instructions: Option<String>,
    versions: VersionPolicy,
    /// Exchanged as a whole; a connection keeps those it was opened with.
    limits: RwLock<Arc<Limits>>,
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
    content_form: ContentForm,
    dialect: Dialect,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
    sealing: Sealing,
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
        ServerBuilder {
            info: Implementation::new(name, version),
            instructions: None,
            versions: VersionPolicy::default(),
            limits: Limits::default(),
            router: Router::default(),
            permissions: None,
            tools: Vec::new(),
            bad_tool: None,
            tool_names: ToolNames::default(),
            direct: Direct::default(),
            resources: Vec::new(),
            bad_resource: None,
            catalog: Catalog::default(),
            prompts: PromptList::default(),
            hooks: Vec::new(),
            observers: Vec::new(),
            content_form: ContentForm::default(),
            dialect: Dialect::default(),
            output_filters: Vec::new(),
            extensions: Extensions::default(),
            sealing: Sealing::default(),
            declared: Vec::new(),
        }
    }

    /// Opens a connection for a transport, unless a hook refuses it.
    pub fn connect(&self, info: ConnectionInfo) -> Result<Connection, Veto> {
        Connection::open(self.clone(), info)
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
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

    /// Who may use what, where there are rules.
    pub fn permissions(&self) -> Option<&Permissions> {
        self.inner.permissions.as_ref()
    }

    /// Whether a principal may use something, by the rules there are.
    pub fn may(&self, principal: &Principal, kind: Kind, name: &str) -> bool {
        self.permissions().is_none_or(|rules| rules.of(principal).may(kind, name))
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

/// A server being put together. Starts with limits that are safe on an open network.
#[must_use]
pub struct ServerBuilder {
    info: Implementation,
    instructions: Option<String>,
    versions: VersionPolicy,
    limits: Limits,
    router: Router,
    permissions: Option<Permissions>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) bad_tool: Option<BadTool>,
    pub(crate) tool_names: ToolNames,
    pub(crate) direct: Direct,
    pub(crate) resources: Vec<Offered>,
    pub(crate) bad_resource: Option<BadResource>,
    pub(crate) catalog: Catalog,
    pub(crate) prompts: PromptList,
    hooks: Vec<Box<dyn Hook>>,
    observers: Vec<Box<dyn Observer>>,
    content_form: ContentForm,
    dialect: Dialect,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
    sealing: Sealing,
    declared: Vec<Declared>,
}

impl ServerBuilder {
    pub(crate) fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    /// What the server is for, told to clients whose revision has a place for it.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// How a model should use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Which handshake revisions to agree to. Defaults to the nearest one.
    pub fn versions(mut self, versions: VersionPolicy) -> Self {
        self.versions = versions;
        self
    }

    /// Replaces the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets principals use only what these rules give them. Rules may be exchanged while the server
    /// runs; without any, everyone may use everything.
    ///
    /// ```
    /// use mcp_flow_server::permissions::{Names, Rule};
    /// use mcp_flow_server::{Permissions, Server};
    ///
    /// let everyone = Rule {
    ///     principals: Names::all(),
    ///     tools: Names::new(["calculator.*"]),
    ///     ..Rule::default()
    /// };
    /// let permissions = Permissions::new(vec![everyone]);
    /// let server = Server::builder("sums", "1.0.0").permissions(permissions.clone()).build().unwrap();
    ///
    /// permissions.replace(&Permissions::new(vec![]));
    /// server.permissions_changed();
    /// ```
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Adds a method of one's own.
    pub fn method(mut self, method: &'static str, era: Era, handler: impl Handler) -> Self {
        self.router.add(method, era, handler);
        self
    }

    /// Adds a method of one's own that is served before `initialize` too.
    pub fn early_method(mut self, method: &'static str, era: Era, handler: impl Handler) -> Self {
        self.router.add_early(method, era, handler);
        self
    }

    /// Declares an addition to the protocol: among the `experimental` capabilities of handshake
    /// revisions under one name, among the `extensions` of later ones under another, which begins
    /// with a domain of its inventor's.
    pub fn declare(
        mut self,
        experimental: &'static str,
        extension: &'static str,
        value: Value,
    ) -> Self {
        self.declared.push(Declared { experimental, extension, value });
        self
    }

    /// Adds a hook that sees every event of every connection, and may veto some.
    ///
    /// ```
    /// use mcp_flow_server::{ConnectionInfo, Event, Server, Veto};
    ///
    /// let server = Server::builder("quiet", "1.0.0")
    ///     .hook(|connection: &ConnectionInfo, event: &Event<'_>| match event {
    ///         Event::Connected if connection.transport != "stdio" => {
    ///             Err(Veto("only pipes here".into()))
    ///         }
    ///         _ => Ok(()),
    ///     })
    ///     .build()
    ///     .unwrap();
    /// assert!(server.connect(ConnectionInfo::new("memory")).is_err());
    /// ```
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Adds one who sees every exchange, while it wants to.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Whose way of writing content to follow. Defaults to the official one.
    pub fn content_form(mut self, form: ContentForm) -> Self {
        self.content_form = form;
        self
    }

    /// Whose words to use where documents differ in words alone. Defaults to the official ones.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Adds a function that sees the output of every tool, failures included, and may change it
    /// before it is sent. Filters run in the order they are added; one that panics fails its call.
    ///
    /// [`strip_control_characters`](crate::strip_control_characters) is one.
    ///
    /// ```
    /// use mcp_flow_server::Server;
    ///
    /// let server = Server::builder("signed", "1.0.0")
    ///     .filter_output(|context, output| {
    ///         output.meta.insert("for".into(), context.principal().name().into());
    ///     })
    ///     .build()
    ///     .unwrap();
    /// ```
    pub fn filter_output(
        mut self,
        filter: impl Fn(&Context, &mut ToolOutput) + Send + Sync + 'static,
    ) -> Self {
        self.output_filters.push(Box::new(filter));
        self
    }

    /// Puts in a value that handlers get from [`Context::extension`](crate::Context::extension).
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Finishes the server.
    pub fn build(mut self) -> Result<Server, BuildError> {
        if let Some(error) = self.bad_tool {
            return Err(AddToolsError::from(error).into());
        }
        let mut tools = Registry::default();
        tools.add(self.tools).map_err(|(error, _unused)| AddToolsError::from(error))?;
        if let Some(error) = self.bad_resource {
            return Err(AddResourcesError::from(error).into());
        }
        self.catalog.add(self.resources).map_err(AddResourcesError::from)?;
        methods::add_to(&mut self.router);
        let info_value = serde_json::to_value(self.info.for_revision(Revision::V2026_07_28))
            .expect("names and texts can be written");
        Ok(Server {
            inner: Arc::new(Inner {
                info: self.info,
                info_text: info_value.to_string(),
                info_value,
                instructions: self.instructions,
                versions: self.versions,
                limits: RwLock::new(Arc::new(self.limits)),
                router: self.router,
                permissions: self.permissions,
                has_tools: AtomicBool::new(!tools.is_empty()),
                tools: RwLock::new(tools),
                tool_names: self.tool_names,
                direct: self.direct,
                catalog: self.catalog,
                prompts: self.prompts.finish()?,
                connections: Connections::default(),
                hooks: self.hooks,
                observers: self.observers,
                content_form: self.content_form,
                dialect: self.dialect,
                output_filters: self.output_filters,
                extensions: self.extensions,
                sealing: self.sealing,
                declared: self.declared,
            }),
        })
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerBuilder").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Why a server cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool cannot be used.
    #[error(transparent)]
    Tools(#[from] AddToolsError),
    /// A prompt cannot be used.
    #[error(transparent)]
    Prompts(#[from] AddPromptsError),
    /// A resource cannot be used.
    #[error(transparent)]
    Resources(#[from] AddResourcesError),
}
