//! The gateway: all upstreams of one server.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use mcp_flow_client::ServerInfo;
use mcp_flow_engine::{Definition, Engine};
use mcp_flow_proto::model::CacheHint;
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{CatalogSource, Context, Server, ServerBuilder, Tool, Unlisted, WeakServer};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::definitions::Definitions;
use crate::error;
use crate::naming;
use crate::pins::{ApproveError, PinEntry, Pins};
use crate::registration::Registrations;
use crate::resources::{ProvidedResources, UpstreamResources};
use crate::search;
use crate::session::Sessions;
use crate::settings::UpstreamSettings;
use crate::upstream::{Upstream, UpstreamStatus};

/// Serves upstreams as parts of one server. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use mcp_flow_gateway::{Gateway, UpstreamSettings};
/// use mcp_flow_server::Server;
///
/// # let other = mcp_flow_testkit_fixture::Fixture::new().server;
/// # let connector = Arc::new(mcp_flow_stdio::client::in_process(&other));
/// let gateway = Gateway::new(vec![UpstreamSettings::new("math", connector)]).unwrap();
/// let server = gateway.add_to(Server::builder("gateway", "1.0.0")).build().unwrap();
/// gateway.attach(&server);
/// ```
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    upstreams: Mutex<Vec<Arc<Upstream>>>,
    /// Held while definitions are registered, so that a removed upstream is not registered again.
    registering: Mutex<()>,
    registrations: Registrations,
    resources: Arc<UpstreamResources>,
    sessions: Arc<Sessions>,
    pins: Arc<Pins>,
    /// Tools above which a list has two tools for searching and calling them; 0 for any number.
    search_above: AtomicUsize,
    was_recovered: AtomicBool,
    server: OnceLock<WeakServer>,
}

/// Names of upstreams that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidUpstreams {
    /// Names, each with the problem.
    pub problems: Vec<(String, String)>,
}

impl fmt::Display for InvalidUpstreams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.problems.iter().map(|(_, problem)| problem.as_str()).collect();
        formatter.write_str(&problems.join("\n"))
    }
}

impl std::error::Error for InvalidUpstreams {}

impl Gateway {
    /// Creates a gateway for these upstreams, in order of precedence. Nothing is started yet. Pins
    /// are kept in memory.
    pub fn new(upstreams: Vec<UpstreamSettings>) -> Result<Self, InvalidUpstreams> {
        Self::with_pins(upstreams, Pins::in_memory())
    }

    /// Checks the names of upstreams.
    pub fn check_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), InvalidUpstreams> {
        prefixes(names.into_iter().map(|name| (name, true)).collect()).map(drop)
    }

    /// As [`new`](Self::new), with pins that are kept elsewhere.
    pub fn with_pins(
        upstreams: Vec<UpstreamSettings>,
        pins: Pins,
    ) -> Result<Self, InvalidUpstreams> {
        let prefixes = prefixes(names_of(&upstreams))?;
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let gateway = inner.clone();
            let find = move |name: &str| gateway.upgrade()?.find(name);
            Inner {
                upstreams: Mutex::default(),
                registering: Mutex::default(),
                registrations: Registrations::default(),
                resources: Arc::default(),
                sessions: Arc::new(Sessions::new(find)),
                pins: Arc::new(pins),
                search_above: AtomicUsize::new(0),
                was_recovered: AtomicBool::new(false),
                server: OnceLock::new(),
            }
        });
        let all = upstreams.into_iter().zip(prefixes);
        let all = all.map(|(settings, prefix)| inner.create(settings, prefix)).collect();
        *inner.upstreams.lock() = all;
        Ok(Self { inner })
    }

    /// Adds the gateway to a server that is being built.
    pub fn add_to(&self, server: ServerBuilder) -> ServerBuilder {
        let source = Arc::new(Source { gateway: Arc::downgrade(&self.inner) });
        let resources = self.inner.resources.clone();
        let resources = ProvidedResources(resources, self.inner.sessions.clone());
        // Upstreams start, change and are approved at any time, and callers that are not told of it
        // have to see it when they list again.
        let changing = CacheHint::private(Duration::ZERO);
        let lists = [
            method::TOOLS_LIST,
            method::PROMPTS_LIST,
            method::RESOURCES_LIST,
            method::RESOURCES_TEMPLATES_LIST,
        ];
        let server = lists.into_iter().fold(server, |server, list| server.cache(list, changing));
        server.catalog_source(source).resource_provider(resources)
    }

    /// Lists `search_tools` and `call_tool` instead of the tools of upstreams, for callers that would
    /// see more of those than this. With 0, the default, all are listed.
    pub fn search_above(&self, tools: usize) {
        self.inner.search_above.store(tools, Ordering::Relaxed);
        if tools > 0
            && let Some(server) = self.inner.server()
        {
            self.inner.add_search(&server);
        }
    }

    /// The flow whose sessions are calls that ask, for the engine of the server.
    pub fn flow(&self) -> Definition {
        self.inner.sessions.definition()
    }

    /// Sets the engine that runs [`flow`](Self::flow). Without one, questions are kept in memory.
    pub fn keep_questions_in(&self, engine: &Engine) {
        self.inner.sessions.set_engine(engine.clone());
    }

    /// Connects the gateway with the server that it was added to, and serves the definitions that
    /// are known of an earlier process.
    pub fn attach(&self, server: &Server) {
        let _ = self.inner.server.set(server.downgrade());
        if self.inner.search_above.load(Ordering::Relaxed) > 0 {
            self.inner.add_search(server);
        }
        // Some may have been listed before.
        let upstreams = self.inner.upstreams.lock().clone();
        for upstream in &upstreams {
            self.inner.changed(upstream, &Definitions::default());
        }
    }

    /// Starts the first upstream, and returns how it introduced itself; `None` if it cannot be started
    /// within its time for connecting.
    pub async fn first_server(&self) -> Option<Arc<ServerInfo>> {
        let first = self.inner.upstreams.lock().first().cloned()?;
        if let Some(listed) = first.pending(None) {
            let _ = listed.await;
        }
        first.server()
    }

    /// Waits until an attempt to start the first upstream has failed, though others follow.
    pub(crate) async fn first_failure(&self) {
        let first = self.inner.upstreams.lock().first().cloned();
        match first {
            Some(first) => {
                // The sender is a field.
                let _ = first.retrying.subscribe().wait_for(Option::is_some).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Starts all upstreams, and waits until each has listed what it offers or has failed to, as
    /// [`status`](Self::status) says.
    pub async fn start(&self) {
        let upstreams = self.inner.upstreams.lock().clone();
        join_all(upstreams.iter().map(Upstream::tried)).await;
    }

    /// Lists all upstreams again, at once, even those that failed before.
    pub fn refresh(&self) {
        for upstream in &*self.inner.upstreams.lock() {
            upstream.refresh_now();
        }
    }

    /// Reports calls of an earlier process as lost that cannot be continued. Begins with the first
    /// list at the latest.
    pub fn recover(&self) {
        self.inner.begin_recovery();
    }

    /// The pins of all tools.
    pub fn pins(&self) -> &Pins {
        &self.inner.pins
    }

    /// Approves the definition of a tool, by `NAME.tool`: the one with the digest that was shown, if
    /// one is given. Returns the pin as it was before; `None` if there is no such tool.
    pub fn approve(
        &self,
        name: &str,
        shown: Option<&str>,
    ) -> Result<Option<PinEntry>, ApproveError> {
        let before = self.inner.pins.approve(name, shown)?;
        self.inner.pins_changed();
        Ok(before)
    }

    /// Replaces the upstreams. Those whose name and fingerprint stay the same are not disturbed.
    pub async fn replace(&self, upstreams: Vec<UpstreamSettings>) -> Result<(), InvalidUpstreams> {
        let prefixes = prefixes(names_of(&upstreams))?;
        let inner = &self.inner;
        let (mut now, mut added) = (Vec::new(), Vec::new());
        let removed = {
            let _registering = inner.registering.lock();
            let mut before = inner.upstreams.lock().clone();
            for (settings, prefix) in upstreams.into_iter().zip(prefixes) {
                let same = |known: &Arc<Upstream>| {
                    known.settings.name == settings.name
                        && known.settings.fingerprint == settings.fingerprint
                };
                match before.iter().position(same) {
                    Some(index) => now.push(before.remove(index)),
                    None => {
                        let new = inner.create(settings, prefix);
                        added.push(new.clone());
                        now.push(new);
                    }
                }
            }
            *inner.upstreams.lock() = now;
            if let Some(server) = inner.server() {
                for removed in &before {
                    inner.registrations.remove(&server, removed.name());
                }
            }
            before
        };
        inner.update_resources();
        for removed in &removed {
            tracing::info!(server = removed.name(), "removed the upstream server");
        }
        for upstream in added {
            tracing::info!(server = upstream.name(), "added the upstream server");
            // What it listed before is served until it has started.
            inner.changed(&upstream, &Definitions::default());
            upstream.begin();
        }
        join_all(removed.iter().map(|removed| removed.close())).await;
        Ok(())
    }

    /// The state of each upstream.
    pub fn status(&self) -> Vec<UpstreamStatus> {
        self.inner.upstreams.lock().iter().map(|upstream| upstream.status()).collect()
    }

    /// The state of the upstreams in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        crate::metrics::text(&self.status())
    }

    /// Stops all upstreams.
    pub async fn close(&self) {
        let upstreams = self.inner.upstreams.lock().clone();
        join_all(upstreams.iter().map(|upstream| upstream.close())).await;
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gateway").field("upstreams", &self.status()).finish()
    }
}

impl Inner {
    fn server(&self) -> Option<Server> {
        self.server.get()?.upgrade()
    }

    /// Ends the calls that an earlier process left unfinished, once and in the background.
    fn begin_recovery(&self) {
        if self.was_recovered.swap(true, Ordering::Relaxed) {
            return;
        }
        let sessions = self.sessions.clone();
        tokio::spawn(async move { sessions.recover().await });
    }

    fn find(&self, name: &str) -> Option<Arc<Upstream>> {
        self.upstreams.lock().iter().find(|upstream| upstream.name() == name).cloned()
    }

    fn create(self: &Arc<Self>, settings: UpstreamSettings, prefix: String) -> Arc<Upstream> {
        let gateway = Arc::downgrade(self);
        Upstream::new(settings, prefix, self.pins.clone(), move |upstream, before| {
            if let Some(gateway) = gateway.upgrade() {
                gateway.changed(upstream, before);
            }
        })
    }

    /// Takes over the definitions of an upstream that has listed them.
    fn changed(&self, upstream: &Arc<Upstream>, before: &Definitions) {
        let Some(server) = self.server() else { return };
        let registering = self.registering.lock();
        // It may have been removed meanwhile.
        if !self.upstreams.lock().iter().any(|known| Arc::ptr_eq(known, upstream)) {
            return;
        }
        let now = upstream.definitions();
        self.registrations.update(&server, upstream, &self.sessions, &now);
        drop(registering);
        if (&before.resources, &before.templates) != (&now.resources, &now.templates) {
            self.update_resources();
        }
    }

    /// Tools of upstreams that a caller may call, in the order of their names.
    fn visible_tools(&self, context: &Context) -> Vec<Arc<Tool>> {
        let mut names = self.registrations.tools();
        names.retain(|name| context.may(PermissionKind::Tool, name));
        names.sort_unstable();
        names.iter().filter_map(|name| context.server().find_tool(name)).collect()
    }

    fn add_search(self: &Arc<Self>, server: &Server) {
        if server.find_tool(search::SEARCH).is_some() {
            return;
        }
        let gateway = Arc::downgrade(self);
        let visible = move |context: &Context| {
            gateway.upgrade().map(|gateway| gateway.visible_tools(context)).unwrap_or_default()
        };
        let added = search::tools(visible).map_err(|problem| problem.to_string());
        let added =
            added.and_then(|tools| server.add_tools(tools).map_err(|problem| problem.to_string()));
        if let Err(problem) = added {
            tracing::error!("tools cannot be searched: {problem}");
        }
    }

    fn pins_changed(&self) {
        let upstreams = self.upstreams.lock().clone();
        for upstream in upstreams.iter().filter(|upstream| upstream.settings.pins) {
            upstream.pins_changed();
        }
    }

    fn update_resources(&self) {
        let registering = self.registering.lock();
        let upstreams = self.upstreams.lock().clone();
        self.resources.update(&upstreams);
        drop(registering);
        if let Some(server) = self.server() {
            server.resources_changed();
        }
    }
}

/// The names of upstreams, each with whether it becomes a prefix.
fn names_of(upstreams: &[UpstreamSettings]) -> Vec<(&str, bool)> {
    upstreams.iter().map(|settings| (settings.name.as_str(), settings.is_prefixed)).collect()
}

/// The prefixes of upstreams, which must differ.
fn prefixes(upstreams: Vec<(&str, bool)>) -> Result<Vec<String>, InvalidUpstreams> {
    let (mut found, mut problems) = (Vec::<String>::new(), Vec::new());
    let count = upstreams.len();
    for (name, is_prefixed) in upstreams {
        let prefix = match (is_prefixed, count) {
            (true, _) => naming::check(name),
            (false, 1) => Ok(String::new()),
            (false, _) => Err(format!("{name:?} has no prefix, so it must be the only server")),
        };
        let problem = match prefix {
            Ok(prefix) if !found.contains(&prefix) => {
                found.push(prefix);
                continue;
            }
            Ok(prefix) => format!("{name:?} and another server are both served as {prefix}"),
            Err(problem) => problem,
        };
        problems.push((name.to_owned(), problem));
    }
    if problems.is_empty() { Ok(found) } else { Err(InvalidUpstreams { problems }) }
}

/// Lets the server wait for upstreams that were never listed.
struct Source {
    gateway: Weak<Inner>,
}

impl CatalogSource for Source {
    fn pending(&self, name: Option<&str>) -> Option<BoxFuture<'static, ()>> {
        let gateway = self.gateway.upgrade()?;
        gateway.begin_recovery();
        // Somebody may have approved a definition on the command line meanwhile.
        let is_changed = gateway.pins.reload();
        if is_changed {
            gateway.pins_changed();
        }
        let upstreams = gateway.upstreams.lock().clone();
        let is_named = |upstream: &&Arc<Upstream>| {
            name.is_some_and(|name| naming::own(&upstream.prefix, name).is_some())
        };
        let pending: Vec<_> = match upstreams.iter().find(is_named) {
            Some(upstream) => upstream.pending(None).into_iter().collect(),
            None => {
                let is_any_listed = upstreams.iter().any(|upstream| upstream.is_listed());
                let limit = if is_any_listed { LIST_TIME } else { FIRST_LIST_TIME };
                let pending = |upstream| Upstream::pending(upstream, Some(limit));
                upstreams.iter().filter_map(pending).collect()
            }
        };
        if pending.is_empty() && !is_changed {
            return None;
        }
        Some(Box::pin(async move {
            let mut pending: FuturesUnordered<_> = pending.into_iter().collect();
            let mut until = None;
            loop {
                let next = match until {
                    None => pending.next().await,
                    // An upstream that hangs delays lists only briefly. Its definitions are announced later.
                    Some(until) => timeout_at(until, pending.next()).await.ok().flatten(),
                };
                let Some(upstream) = next else { return };
                if until.is_none() && upstream.is_listed() {
                    until = Some(Instant::now() + LIST_TIME);
                }
            }
        }))
    }

    fn unlisted(&self, context: &Context) -> Option<Unlisted> {
        let gateway = self.gateway.upgrade()?;
        let above = gateway.search_above.load(Ordering::Relaxed);
        let is_search = |name: &str| [search::SEARCH, search::CALL].contains(&name);
        let names = gateway.registrations.tools();
        let visible = names.iter().filter(|name| context.may(PermissionKind::Tool, name)).count();
        if above == 0 || visible <= above {
            return Some(Box::new(is_search));
        }
        let names: HashSet<_> = names.into_iter().collect();
        Some(Box::new(move |name| names.contains(name)))
    }

    fn refuse(
        &self,
        context: &Context,
        kind: PermissionKind,
        name: Option<&str>,
    ) -> Option<RpcError> {
        let gateway = self.gateway.upgrade()?;
        let upstreams = gateway.upstreams.lock().clone();
        let Some(name) = name else {
            // An empty list would say that the only server has nothing.
            let only = upstreams.iter().find(|upstream| upstream.prefix.is_empty())?;
            let starting = || {
                let last = only.retrying.borrow().as_ref().map(|last| format!(": {last}"));
                let what = format!("it has not started yet{}", last.unwrap_or_default());
                error::unavailable(only.name(), &what, None)
            };
            return only.is_unknown().then(|| only.start_failure().unwrap_or_else(starting));
        };
        if kind == PermissionKind::Tool
            && let Some(refused) = refuse_quarantined(&upstreams, context, name)
        {
            return refused;
        }
        // The names of an upstream that never started are unknown, so any of its names may be one.
        let is_its = |upstream: &&Arc<Upstream>| naming::own(&upstream.prefix, name).is_some();
        let is_prefixed = kind != PermissionKind::Resource;
        let upstream = match is_prefixed {
            true => upstreams.iter().find(is_its)?,
            false => upstreams.iter().find(|upstream| upstream.prefix.is_empty())?,
        };
        let known = upstream.definitions();
        let has_some = match kind {
            PermissionKind::Prompt => !known.prompts.is_empty(),
            PermissionKind::Resource => !upstream.is_unknown(),
            _ => !known.tools.is_empty(),
        };
        if has_some || !context.may(kind, name) {
            return None;
        }
        let failure = upstream.start_failure()?;
        context.forwarded_to(upstream.name());
        Some(failure)
    }
}

/// The error for a tool that is quarantined, if it is the only one with this name: none, if the caller
/// cannot tell which one is meant.
fn refuse_quarantined(
    upstreams: &[Arc<Upstream>],
    context: &Context,
    name: &str,
) -> Option<Option<RpcError>> {
    let mut found = upstreams.iter().filter_map(|upstream| {
        let own = naming::own(&upstream.prefix, name).unwrap_or(name);
        let tool = upstream.quarantined_tool(own)?;
        let full = naming::join(&upstream.prefix, upstream.settings.served_name(&tool));
        let is_visible = context.may(PermissionKind::Tool, &full);
        is_visible.then_some((upstream, tool))
    });
    let (upstream, tool) = found.next()?;
    if found.next().is_some() {
        return Some(None);
    }
    context.forwarded_to(upstream.name());
    Some(Some(error::quarantined(upstream.name(), &tool, &upstream.pinned_name(&tool))))
}

/// Time that lists, and calls by names without prefix, wait for an upstream when others are there.
const LIST_TIME: Duration = Duration::from_secs(3);

/// Time that they wait for the first one.
const FIRST_LIST_TIME: Duration = Duration::from_secs(10);
