//! Putting a server together.

use std::sync::Arc;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{ContentForm, Implementation, ListCapability, ServerCapabilities};
use serde_json::{Map, Value};

use crate::connection::{Connection, ConnectionInfo};
use crate::context::Context;
use crate::event::{Event, Hook, Veto};
use crate::extensions::Extensions;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::methods;
use crate::output_filter::OutputFilter;
use crate::revision::VersionPolicy;
use crate::router::{Era, Router};
use crate::tool::registry::{RegisterError, Registry};
use crate::tool::{Tool, ToolOutput};

/// A server: tools, limits and hooks, shared by all its connections. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    info: Implementation,
    instructions: Option<String>,
    versions: VersionPolicy,
    limits: Limits,
    router: Router,
    tools: Registry,
    hooks: Vec<Box<dyn Hook>>,
    content_form: ContentForm,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
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
            tools: Vec::new(),
            hooks: Vec::new(),
            content_form: ContentForm::default(),
            output_filters: Vec::new(),
            extensions: Extensions::default(),
        }
    }

    /// Opens a connection for a transport, unless a hook refuses it.
    pub fn connect(&self, info: ConnectionInfo) -> Result<Connection, Veto> {
        Connection::open(self.clone(), info)
    }

    /// The bounds each connection has.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
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

    pub(crate) fn info_value(&self, revision: Revision) -> Value {
        serde_json::to_value(self.info().for_revision(revision)).unwrap_or_default()
    }

    pub(crate) fn instructions(&self) -> Option<&str> {
        self.inner.instructions.as_deref()
    }

    pub(crate) fn router(&self) -> &Router {
        &self.inner.router
    }

    pub(crate) fn tools(&self) -> &Registry {
        &self.inner.tools
    }

    pub(crate) fn output_filters(&self) -> &[Box<OutputFilter>] {
        &self.inner.output_filters
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.inner.extensions
    }

    /// Whether the server holds clients to the letter of the one revision it speaks.
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.inner.versions, VersionPolicy::Only(_))
    }

    /// What is really there, and nothing else (PAT-005).
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            tools: (!self.inner.tools.is_empty()).then_some(ListCapability::default()),
            logging: Some(Map::new()),
            experimental: Map::new(),
        }
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
    tools: Vec<Tool>,
    hooks: Vec<Box<dyn Hook>>,
    content_form: ContentForm,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
}

impl ServerBuilder {
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

    /// Adds a tool. Tools are listed in the order they are added.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds several tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds a method of one's own.
    pub fn method(mut self, method: &'static str, era: Era, handler: impl Handler) -> Self {
        self.router.add(method, era, handler);
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

    /// Whose way of writing content to follow. Defaults to the official one.
    pub fn content_form(mut self, form: ContentForm) -> Self {
        self.content_form = form;
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
        let mut tools = Registry::default();
        self.tools.into_iter().try_for_each(|tool| tools.add(tool))?;
        methods::add_to(&mut self.router, !tools.is_empty());
        Ok(Server {
            inner: Arc::new(Inner {
                info: self.info,
                instructions: self.instructions,
                versions: self.versions,
                limits: self.limits,
                router: self.router,
                tools,
                hooks: self.hooks,
                content_form: self.content_form,
                output_filters: self.output_filters,
                extensions: self.extensions,
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
    /// Two tools collide.
    #[error(transparent)]
    Tool(#[from] RegisterError),
}
