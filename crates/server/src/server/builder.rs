//! Builder of a server.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{CacheHint, ContentForm, Icon, Implementation, is_website};
use mcp_flow_rate::Buckets;
use parking_lot::RwLock;
use serde_json::Value;

use super::{Declared, Inner, Server};
use crate::catalog_source::CatalogSource;
use crate::connections::Connections;
use crate::context::Context;
use crate::endpoint::{Endpoint, Endpoints};
use crate::event::{Hook, Shutdown};
use crate::extensions::Extensions;
use crate::handler::Handler;
use crate::input::Sealing;
use crate::limits::Limits;
use crate::load::Load;
use crate::methods;
use crate::observe::{Denials, Observer};
use crate::output_filter::OutputFilter;
use crate::permissions::Permissions;
use crate::prompt::AddPromptsError;
use crate::prompt::catalog::PromptList;
use crate::registry::Registry;
use crate::resource::catalog::Catalog;
use crate::resource::{AddResourcesError, BadResource, Offered};
use crate::revision::{Dialect, VersionPolicy};
use crate::router::{Era, Router};
use crate::signing::Signing;
use crate::tap::MessageTap;
use crate::task::{TaskSource, Tasks};
use crate::tool::direct::Direct;
use crate::tool::is_app_uri;
use crate::tool::{AddToolsError, BadTool, Tool, ToolNames, ToolOutput};

/// Builds a server. Starts with limits that are safe on an open network.
#[must_use]
pub struct ServerBuilder {
    info: Implementation,
    instructions: Option<String>,
    versions: VersionPolicy,
    accepts_unsolicited_answers: bool,
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
    shutdown: Vec<Box<Shutdown>>,
    observers: Vec<Box<dyn Observer>>,
    tap: Option<Arc<dyn MessageTap>>,
    content_form: ContentForm,
    dialect: Dialect,
    output_filters: Vec<Box<OutputFilter>>,
    extensions: Extensions,
    sealing: Sealing,
    signing: Option<Signing>,
    declared: Vec<Declared>,
    pub(crate) source: Option<Arc<dyn CatalogSource>>,
    tasks: Tasks,
    endpoints: Endpoints,
    cache_hints: Vec<(&'static str, CacheHint)>,
}

impl ServerBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            versions: VersionPolicy::default(),
            accepts_unsolicited_answers: false,
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
            shutdown: Vec::new(),
            observers: Vec::new(),
            tap: None,
            content_form: ContentForm::default(),
            dialect: Dialect::default(),
            output_filters: Vec::new(),
            extensions: Extensions::default(),
            sealing: Sealing::default(),
            signing: None,
            declared: Vec::new(),
            source: None,
            tasks: Tasks::default(),
            endpoints: Endpoints::default(),
            cache_hints: Vec::new(),
        }
    }

    pub(crate) fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    /// Describes the server to clients whose revision has a field for it.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Sets the display name, for clients whose revision has a field for it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Adds an icon of the server: an image in an `https:` or `data:` URI.
    pub fn icon(mut self, icon: impl Into<Icon>) -> Self {
        self.info.icons.push(icon.into());
        self
    }

    /// Sets the URL of the server's website.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.info.website_url = Some(url.into());
        self
    }

    /// Sets how long clients may cache the results of a method, and whether they may share them
    /// (2026-07-28). The methods are `server/discover`, `tools/list`, `prompts/list`,
    /// `resources/list`, `resources/templates/list` and `resources/read`; a resource can have a hint
    /// of its own.
    ///
    /// By default lists are fresh for five minutes, and contents of resources are not cached.
    /// Results are private, whatever is said here, where callers may get different ones.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mcp_flow_server::Server;
    /// use mcp_flow_server::proto::model::CacheHint;
    ///
    /// let hint = CacheHint::public(Duration::from_secs(3600));
    /// assert!(Server::builder("x", "1").cache("tools/list", hint).build().is_ok());
    /// assert!(Server::builder("x", "1").cache("tools/call", hint).build().is_err());
    /// ```
    pub fn cache(mut self, method: &'static str, hint: CacheHint) -> Self {
        self.cache_hints.retain(|(name, _)| *name != method);
        self.cache_hints.push((method, hint));
        self
    }

    /// Tells a model how to use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets the protocol revisions to serve. Defaults to negotiating the nearest one.
    pub fn versions(mut self, versions: VersionPolicy) -> Self {
        self.versions = versions;
        self
    }

    /// Accepts `inputResponses` to questions that were not asked yet; by default they are ignored
    /// (C-62).
    ///
    /// Enable it only on a server where no consent is needed: callers can then answer in place of
    /// their users.
    pub fn unsolicited_answers(mut self, accepted: bool) -> Self {
        self.accepts_unsolicited_answers = accepted;
        self
    }

    /// Replaces the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Restricts principals to what these rules allow. The rules can be replaced while the server
    /// runs. Without rules, every principal may use everything.
    ///
    /// ```
    /// use mcp_flow_server::permissions::{Names, AccessRule};
    /// use mcp_flow_server::{Permissions, Server};
    ///
    /// let everyone = AccessRule {
    ///     principals: Names::all(),
    ///     tools: Names::new(["calculator.*"]),
    ///     ..AccessRule::default()
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

    /// Accepts only messages signed with a key shared with the client, and signs the server's own
    /// (MCP-073). Only clients of this workspace support it. Off by default.
    pub fn signing(mut self, signing: Signing) -> Self {
        self.signing = Some(signing);
        self
    }

    /// Adds a custom method.
    pub fn method(mut self, method: &'static str, era: Era, handler: impl Handler) -> Self {
        self.router.add(method, era, handler);
        self
    }

    /// Adds a custom method that is also served before `initialize`.
    pub fn early_method(mut self, method: &'static str, era: Era, handler: impl Handler) -> Self {
        self.router.add_early(method, era, handler);
        self
    }

    /// Declares a protocol extension: under one name among the `experimental` capabilities of
    /// handshake revisions, under another among the `extensions` of later ones. The second begins
    /// with a domain of the extension's author.
    pub fn declare(
        mut self,
        experimental: &'static str,
        extension: &'static str,
        value: Value,
    ) -> Self {
        let (extension, era) = (extension.into(), Era::Both);
        self.declared.push(Declared { experimental: Some(experimental), extension, era, value });
        self
    }

    /// Declares an extension of the protocol that has an identifier of its own, among the
    /// `extensions` of every revision. Its settings are an object.
    ///
    /// A handler learns from [`Context::client_extension`] whether its caller supports it.
    ///
    /// ```
    /// use mcp_flow_server::Server;
    /// use serde_json::json;
    ///
    /// let server = Server::builder("maps", "1.0.0")
    ///     .extension("com.example/tiles", json!({"formats": ["png"]}))
    ///     .build()
    ///     .unwrap();
    /// ```
    pub fn extension(self, name: impl Into<Cow<'static, str>>, settings: Value) -> Self {
        self.extension_in(Era::Both, name, settings)
    }

    /// Declares an extension that only some revisions can use.
    pub fn extension_in(
        mut self,
        era: Era,
        name: impl Into<Cow<'static, str>>,
        settings: Value,
    ) -> Self {
        let extension = name.into();
        self.declared.push(Declared { experimental: None, extension, era, value: settings });
        self
    }

    /// Sets the source of status notifications about tasks.
    pub fn task_source(mut self, source: impl TaskSource) -> Self {
        self.tasks = Tasks { source: Some(Arc::new(source)) };
        self
    }

    /// Adds an endpoint beside MCP, which transports serve over HTTP: the paths that begin with `prefix`.
    pub fn endpoint(mut self, prefix: &'static str, endpoint: impl Endpoint) -> Self {
        self.endpoints.0.push((prefix, Box::new(endpoint)));
        self
    }

    /// Adds a hook that sees every event of every connection, and may veto some.
    ///
    /// ```
    /// use mcp_flow_server::{ConnectionInfo, ConnectionEvent, Server, Veto};
    ///
    /// let server = Server::builder("quiet", "1.0.0")
    ///     .hook(|connection: &ConnectionInfo, event: &ConnectionEvent<'_>| match event {
    ///         ConnectionEvent::Connected if connection.transport != "stdio" => {
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

    /// Adds what ends work beside the connections, such as that of flows, when the server shuts down.
    /// It is given the drain time.
    pub fn on_shutdown<F>(mut self, end: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.shutdown.push(Box::new(move |drain_time| Box::pin(end(drain_time))));
        self
    }

    /// Adds an observer of every call.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Sets the tap, which sees every message.
    pub fn tap(mut self, tap: impl MessageTap) -> Self {
        self.tap = Some(Arc::new(tap));
        self
    }

    /// Sets the form in which content is written. Defaults to the official one.
    pub fn content_form(mut self, form: ContentForm) -> Self {
        self.content_form = form;
        self
    }

    /// Sets the wording of errors and capabilities. Defaults to the official one.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Adds a filter that sees the output of every tool, failures included, and may change it
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

    /// Adds a value that handlers get from [`Context::state`].
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
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
        let has_app = self.resources.iter().any(|resource| is_app_uri(resource.uri()));
        self.catalog.add(self.resources).map_err(AddResourcesError::from)?;
        let has_app_tool = tools.iter().any(|tool| tool.has_app_metadata());
        // Apps of other sources may become known later.
        let missing = tools.iter().find(|tool| {
            tool.app().is_some_and(|uri| !self.catalog.is_known(uri) && self.source.is_none())
        });
        if let Some(tool) = missing {
            let (tool, uri) = (tool.definition().name.clone(), tool.app().unwrap_or_default());
            return Err(BuildError::App { tool, uri: uri.to_owned() });
        }
        if let Some((method, _)) =
            self.cache_hints.iter().find(|(method, _)| !methods::CACHEABLE.contains(method))
        {
            return Err(BuildError::Cache(method));
        }
        if let Some(icon) = self.info.icons.iter().find(|icon| !icon.is_displayable()) {
            return Err(BuildError::Icon(icon.src.clone()));
        }
        if let Some(url) = self.info.website_url.as_deref().filter(|url| !is_website(url)) {
            return Err(BuildError::Website(url.to_owned()));
        }
        let mut extensions =
            self.declared.iter().filter(|declared| declared.experimental.is_none());
        if let Some(declared) = extensions.find(|declared| !declared.value.is_object()) {
            return Err(BuildError::Extension(declared.extension.to_string()));
        }
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
                accepts_unsolicited_answers: self.accepts_unsolicited_answers,
                limits: RwLock::new(Arc::new(self.limits)),
                load: Load::default(),
                rates: Buckets::default(),
                sharing: OnceLock::new(),
                nodes: AtomicU32::new(1),
                router: self.router,
                permissions: self.permissions,
                has_tools: AtomicBool::new(self.source.is_some() || !tools.is_empty()),
                has_apps: AtomicBool::new(self.source.is_some() || has_app || has_app_tool),
                cache_hints: self.cache_hints,
                tools: RwLock::new(tools),
                tool_names: self.tool_names,
                direct: self.direct,
                catalog: self.catalog,
                prompts: self.prompts.finish(self.source.is_some())?,
                connections: Connections::default(),
                hooks: self.hooks,
                shutdown: self.shutdown,
                observers: self.observers,
                tap: self.tap,
                denials: Denials::default(),
                content_form: self.content_form,
                dialect: self.dialect,
                output_filters: self.output_filters,
                extensions: self.extensions,
                sealing: self.sealing,
                signing: self.signing,
                declared: self.declared,
                source: self.source,
                tasks: self.tasks,
                endpoints: self.endpoints,
            }),
        })
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerBuilder").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Error while building a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool is invalid.
    #[error(transparent)]
    Tools(#[from] AddToolsError),
    /// A prompt is invalid.
    #[error(transparent)]
    Prompts(#[from] AddPromptsError),
    /// A resource is invalid.
    #[error(transparent)]
    Resources(#[from] AddResourcesError),
    /// The app of a tool is not among the resources.
    #[error(
        "the tool {tool} is shown in {uri}, which is not a resource of the server; add it with App::builder({uri:?})"
    )]
    App {
        /// The tool.
        tool: String,
        /// URI of the app.
        uri: String,
    },
    /// A caching hint is for a method whose results are not cached.
    #[error(
        "results of {0} are not cached; a hint can be given for server/discover, the lists and resources/read"
    )]
    Cache(&'static str),
    /// An icon has a URI that clients do not show.
    #[error("the icon {0:?} of the server must be an image in an https: or data: URI")]
    Icon(String),
    /// The settings of an extension are not an object.
    #[error("the settings of the extension {0:?} must be an object; use {{}} if it has none")]
    Extension(String),
    /// The website is not a URL.
    #[error("the website {0:?} of the server must be an https: or http: URL")]
    Website(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{BuildError, Server};

    #[test]
    fn settings_of_extensions_are_objects() {
        for settings in [json!(null), json!(true), json!("x"), json!(["x"]), json!(1)] {
            let server = Server::builder("maps", "1.0.0").extension("com.example/tiles", settings);
            let error = server.build().unwrap_err();
            assert!(matches!(&error, BuildError::Extension(name) if name == "com.example/tiles"));
        }
    }
}
