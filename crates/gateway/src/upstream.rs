//! One upstream: its connections, its definitions, and whether it can be started.

mod failures;
mod lists;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use mcp_flow_client::transport::{Connector, Spool};
use mcp_flow_client::{Client, ClientEvent, ServerInfo, sanitize};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::LogLevel;
use mcp_flow_server::context::Client as CallerClient;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::accounts::offered;
use crate::breaker::{Breaker, MAX_FAILURES, Reason};
use crate::definitions::Definitions;
use crate::error;
use crate::isolation::{Caller, PoolKey};
use crate::maintenance::maintain;
use crate::metrics::{UpstreamCalls, UpstreamFailure, UpstreamMetrics};
use crate::pins::Pins;
use crate::pool::{AbortOnDrop, Instance, Lease, Pool, Purpose};
use crate::question::ConnectionHost;
use crate::resources::SeenLinks;
use crate::settings::{Isolation, UpstreamSettings};
use crate::url_questions::{COMPLETE, UrlQuestions};

/// One upstream.
pub(crate) struct Upstream {
    pub(crate) settings: UpstreamSettings,
    /// Prefix of its tools and prompts.
    pub(crate) prefix: String,
    /// Links in its results.
    pub(crate) links: SeenLinks,
    pub(crate) metrics: UpstreamMetrics,
    pub(crate) url_questions: Arc<UrlQuestions>,
    /// Large content of its results.
    pub(crate) spool: Arc<Spool>,
    /// Resources and templates whose URIs another upstream has.
    pub(crate) collisions: AtomicUsize,
    pins: Arc<Pins>,
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
    breaker: Breaker,
    /// Definitions that are served.
    definitions: RwLock<Arc<Definitions>>,
    /// The server as it introduced itself last.
    server: RwLock<Option<Arc<ServerInfo>>>,
    /// Everything it listed last.
    listed: Mutex<Option<Arc<Definitions>>>,
    /// The error of the last attempt to list it, if that failed.
    listing_failure: Mutex<Option<RpcError>>,
    /// True once it was listed, or could not be, or if its definitions are known.
    pub(crate) was_tried: watch::Sender<bool>,
    /// Time of the first start.
    begun: OnceLock<tokio::time::Instant>,
    /// Wakes the maintenance to list again.
    changed: Arc<Notify>,
    maintenance: Mutex<Option<AbortHandle>>,
    /// Called with this upstream when its definitions have changed.
    on_change: OnChange,
    /// Reason of the last failed attempt to connect, while others follow, for the operator.
    pub(crate) retrying: watch::Sender<Option<String>>,
    log_level: Mutex<Option<LogLevel>>,
    /// The last failure of a request, as callers and as operators see it.
    last_failure: Mutex<Option<Reason>>,
    /// Principal whose account lists the definitions, where each has its own.
    lister: Mutex<Option<String>>,
}

/// Called with an upstream whose definitions have changed.
type OnChange = Box<dyn Fn(&Arc<Upstream>, &Definitions) + Send + Sync>;

/// State of an upstream, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// Name in the configuration.
    pub name: String,
    /// Address or command.
    pub target: String,
    /// State.
    pub state: UpstreamState,
    /// Open connections, or processes.
    pub connections: usize,
    /// Tools it listed last.
    pub tools: usize,
    /// Tools that are quarantined.
    pub quarantined: usize,
    /// Resources and templates that are served under other URIs, because another upstream has theirs.
    pub collisions: usize,
    /// Failed attempts to start it since the last success.
    pub failures: u32,
    /// The last failure since the last success.
    pub last_error: Option<String>,
    /// Requests to it.
    pub calls: UpstreamCalls,
    /// The last errors, the latest first.
    pub errors: Vec<UpstreamFailure>,
}

/// State of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamState {
    /// Not started, or stopped while nobody used it.
    Stopped,
    /// Connected.
    Running,
    /// The last attempt to start it failed.
    Failing,
    /// Starts have failed so often that calls fail at once.
    Unavailable,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Upstream").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Upstream {
    pub(crate) fn new(
        settings: UpstreamSettings,
        prefix: String,
        pins: Arc<Pins>,
        on_change: impl Fn(&Arc<Self>, &Definitions) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let known = pins.last_known(&settings.name, settings.pins);
        let was_listed = known.is_some();
        let known = offered(known.unwrap_or_default(), &settings, &prefix);
        Arc::new(Self {
            spool: Spool::new(std::env::temp_dir(), settings.spool_limit),
            settings,
            prefix,
            links: SeenLinks::default(),
            metrics: UpstreamMetrics::default(),
            url_questions: Arc::default(),
            collisions: AtomicUsize::new(0),
            pins,
            pools: Mutex::default(),
            breaker: Breaker::default(),
            definitions: RwLock::new(Arc::new(known)),
            server: RwLock::default(),
            listed: Mutex::default(),
            listing_failure: Mutex::default(),
            was_tried: watch::Sender::new(was_listed),
            begun: OnceLock::new(),
            changed: Arc::default(),
            maintenance: Mutex::default(),
            on_change: Box::new(on_change),
            retrying: watch::Sender::new(None),
            log_level: Mutex::default(),
            last_failure: Mutex::default(),
            lister: Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The definitions it listed last.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        self.definitions.read().clone()
    }

    /// Returns whether anything is known that it lists.
    pub(crate) fn is_listed(&self) -> bool {
        *self.definitions() != Definitions::default()
    }

    /// The server as it introduced itself last; `None` before the first connection.
    pub(crate) fn server(&self) -> Option<Arc<ServerInfo>> {
        self.server.read().clone()
    }

    /// Lists the definitions again, at once, even if earlier attempts failed.
    pub(crate) fn refresh_now(self: &Arc<Self>) {
        self.breaker.succeeded();
        self.changed.notify_one();
        self.begin();
    }

    /// Waits until it was listed or failed to, and starts it if needed; `None` if that is over. The time
    /// limit counts from its first start; by default it ends with the time for connecting.
    pub(crate) fn pending(
        self: &Arc<Self>,
        limit: Option<Duration>,
    ) -> Option<impl Future<Output = Arc<Self>> + Send + 'static> {
        self.begin();
        // Callers are told why it failed, so they wait until that is noted.
        let longest = self.settings.connect_timeout + GRACE;
        let limit = limit.map_or(longest, |limit| limit.min(longest));
        let until = *self.begun.get_or_init(tokio::time::Instant::now) + limit;
        if *self.was_tried.borrow() || tokio::time::Instant::now() >= until {
            return None;
        }
        let (upstream, mut tried) = (self.clone(), self.was_tried.subscribe());
        Some(async move {
            let _ = tokio::time::timeout_at(until, tried.wait_for(|tried| *tried)).await;
            upstream
        })
    }

    /// Waits until it was listed or could not be, and starts it if needed.
    pub(crate) async fn tried(self: &Arc<Self>) {
        self.begin();
        // The sender is a field.
        let _ = self.was_tried.subscribe().wait_for(|tried| *tried).await;
    }

    /// Starts the maintenance, which lists the definitions.
    pub(crate) fn begin(self: &Arc<Self>) {
        let mut maintenance = self.maintenance.lock();
        if maintenance.is_none() {
            let task = tokio::spawn(maintain(Arc::downgrade(self), self.changed.clone()));
            *maintenance = Some(task.abort_handle());
        }
    }

    /// Leases a connection for a caller, to call a tool if one is named: on each connection, its
    /// definition has to be the one that was approved.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        caller: &Caller,
        tool: Option<&str>,
    ) -> Result<Lease, RpcError> {
        let purpose = match caller.may_be_asked {
            true => Purpose::AskedCall(&caller.principal),
            false => Purpose::Request,
        };
        let lease = self.lease_for(caller, purpose).await?;
        let is_shared = self.settings.isolation == Isolation::Shared;
        if self.settings.accounts.is_some() {
            self.note_principal(&caller.principal);
        } else if lease.note_read(None) && is_shared {
            // The program may have changed since it was connected last.
            self.changed.notify_one();
            self.begin();
        }
        if let Some(tool) = tool.filter(|_| self.settings.pins) {
            self.check_pin(&lease, tool).await?;
        }
        self.lower_log_level(&lease, caller).await;
        Ok(lease)
    }

    /// Leases a connection that the calls of a caller use as well, to subscribe.
    pub(crate) async fn subscription_lease(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<Lease, RpcError> {
        self.lease_for(caller, Purpose::Subscription).await
    }

    /// Leases a connection for the gateway itself; `None` if it needs an account, and nobody has used
    /// one yet.
    pub(crate) async fn own_lease(self: &Arc<Self>) -> Result<Option<Lease>, RpcError> {
        let lister = self.lister.lock().clone();
        let (pool, connector) = match (&self.settings.accounts, &lister) {
            (None, _) => (self.pool(PoolKey::Shared).0, self.settings.connector.clone()),
            (Some(_), None) => return Ok(None),
            (Some(accounts), Some(principal)) => {
                let key = PoolKey::Principal(principal.clone());
                (self.pool(key).0, accounts.connector(principal))
            }
        };
        let host = || ConnectionHost { owner: None };
        let create = || self.create_instance(connector.clone(), true, host());
        let lease = pool.lease(&self.settings, &self.breaker, Purpose::Request, create).await;
        if lease.as_ref().is_err_and(|failure| failure.has(error::UNAUTHORIZED)) {
            // Whoever uses it next has a valid one.
            self.lister.lock().take_if(|known| lister.as_ref() == Some(known));
        }
        lease.map(Some)
    }

    /// Lists the definitions with the account of a principal that is logged in, if that of nobody else
    /// does.
    pub(crate) fn note_principal(self: &Arc<Self>, principal: &str) {
        let mut lister = self.lister.lock();
        if lister.is_none() {
            *lister = Some(principal.to_owned());
            self.changed.notify_one();
            self.begin();
        }
    }

    async fn lease_for(
        self: &Arc<Self>,
        caller: &Caller,
        purpose: Purpose<'_>,
    ) -> Result<Lease, RpcError> {
        let settings = &self.settings;
        let key = PoolKey::of(caller, settings);
        let (pool, is_new) = self.pool(key.clone());
        if is_new && let Some(client) = caller.ends_with(&key) {
            self.close_after(client.clone(), key.clone());
        }
        let create = || {
            let host = ConnectionHost { owner: caller.roots(&key) };
            let connector = match &settings.accounts {
                Some(accounts) => accounts.connector(&caller.principal),
                None => settings.connector.clone(),
            };
            self.create_instance(connector, settings.isolation == Isolation::Shared, host)
        };
        pool.lease(settings, &self.breaker, purpose, create).await
    }

    /// Prepares a connection.
    fn create_instance(
        self: &Arc<Self>,
        connector: Arc<dyn Connector>,
        lists_changes: bool,
        host: ConnectionHost,
    ) -> Instance {
        let settings = &self.settings;
        let client = Client::builder()
            .host(host)
            .with(|options| {
                options.revision = settings.revision;
                options.connect_timeout = settings.connect_timeout;
                options.request_timeout = settings.call_timeout;
                options.total_timeout = MAX_CALL_DURATION;
                options.frame_limit = settings.result_limit;
                options.spool = (settings.spool_limit > 0).then(|| self.spool.clone());
                options.max_pages = MAX_PAGES;
                options.max_entries = MAX_ENTRIES;
                options.max_unsolicited = MAX_UNSOLICITED;
                options.log_level = *self.log_level.lock();
                // The breaker decides about further attempts.
                options.backoff = settings.reconnect;
            })
            .prepare(connector);
        let events = self.follow_events(&client, lists_changes);
        Instance::new(client, events)
    }

    fn pool(&self, key: PoolKey) -> (Arc<Pool>, bool) {
        let mut pools = self.pools.lock();
        let is_new = !pools.contains_key(&key);
        (pools.entry(key).or_insert_with(|| Arc::new(Pool::new())).clone(), is_new)
    }

    /// Closes the connections of a session when it ends.
    fn close_after(self: &Arc<Self>, client: CallerClient, key: PoolKey) {
        let upstream = Arc::downgrade(self);
        tokio::spawn(async move {
            client.closed().await;
            let Some(upstream) = upstream.upgrade() else { return };
            let pool = upstream.pools.lock().remove(&key);
            if let Some(pool) = pool {
                close_all(pool.close()).await;
            }
        });
    }

    /// Asks the upstream for the log messages that a caller wants, if others wanted fewer.
    async fn lower_log_level(&self, lease: &Lease, caller: &Caller) {
        let Some(wanted) = caller.log_level else { return };
        if lease.server.capabilities.logging.is_none() {
            return;
        }
        {
            let mut level = self.log_level.lock();
            if level.is_some_and(|level| level <= wanted) {
                return;
            }
            *level = Some(wanted);
        }
        // A call does not depend on its log messages.
        let _ = tokio::time::timeout(LOG_LEVEL_TIME, lease.client().set_log_level(wanted)).await;
    }

    /// Follows the events of a connection.
    fn follow_events(self: &Arc<Self>, client: &Client, lists_changes: bool) -> AbortOnDrop {
        let (changed, name) = (self.changed.clone(), self.name().to_owned());
        let (url_questions, retrying) = (self.url_questions.clone(), self.retrying.clone());
        let mut events = client.events();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match &event {
                    ClientEvent::Retrying { reason, .. } => {
                        retrying.send_replace(Some(sanitize::shorten(reason, 500)));
                    }
                    ClientEvent::Connected { .. } => drop(retrying.send_replace(None)),
                    _ => {}
                }
                match event {
                    ClientEvent::Connected { again: true, .. } => changed.notify_one(),
                    ClientEvent::ToolsChanged
                    | ClientEvent::PromptsChanged
                    | ClientEvent::ResourcesChanged
                        if lists_changes =>
                    {
                        changed.notify_one();
                    }
                    ClientEvent::Other { method, params } if method == COMPLETE => {
                        url_questions.complete(&params);
                    }
                    event => log_event(&name, event),
                }
            }
        });
        AbortOnDrop(task.abort_handle())
    }

    /// Returns whether calls of a tool need approval.
    pub(crate) fn needs_approval(&self, tool: &str) -> bool {
        let Self { settings, prefix, .. } = self;
        let only_reads = || {
            let definitions = self.definitions();
            let definition = definitions.tools.iter().find(|known| known.name == tool);
            let annotations = definition.and_then(|known| known.annotations.as_ref());
            annotations.is_some_and(|annotations| annotations.read_only_hint == Some(true))
        };
        let only_reads = settings.trust_annotations && only_reads();
        settings.approve.apply_to(
            [prefix, &settings.name],
            &[tool, settings.served_name(tool)],
            only_reads,
        )
    }

    /// Returns whether a call of a tool may be sent again if it is not known whether it took effect.
    pub(crate) fn may_run_again(&self, tool: &str) -> bool {
        let Self { settings, prefix, .. } = self;
        settings.rerun.contains([prefix, &settings.name], &[tool, settings.served_name(tool)])
    }

    /// Closes connections that nobody has used for a while.
    pub(crate) async fn close_idle(&self) {
        let limit = self.settings.idle_timeout;
        let pools: Vec<_> = self.pools.lock().values().cloned().collect();
        let idle: Vec<_> = pools.iter().flat_map(|pool| pool.take_idle(limit)).collect();
        self.pools.lock().retain(|key, pool| *key == PoolKey::Shared || pool.size() > 0);
        if !idle.is_empty() {
            tracing::info!(server = self.name(), "stopping the idle upstream server");
            close_all(idle).await;
        }
    }

    /// Closes all connections for good.
    pub(crate) async fn close(&self) {
        if let Some(maintenance) = self.maintenance.lock().take() {
            maintenance.abort();
        }
        self.was_tried.send_replace(true);
        let pools: Vec<_> = self.pools.lock().drain().map(|(_, pool)| pool).collect();
        close_all(pools.iter().flat_map(|pool| pool.close()).collect()).await;
    }

    /// Notes whether it could be listed.
    pub(crate) fn note_listing(&self, failure: Option<&RpcError>) {
        *self.listing_failure.lock() = failure.cloned();
    }

    /// Returns whether it was never listed, now or by an earlier process.
    pub(crate) fn is_unknown(&self) -> bool {
        !self.is_listed() && self.listed.lock().is_none()
    }

    pub(crate) fn status(&self) -> UpstreamStatus {
        let breaker = self.breaker.state.lock();
        let connections = self.pools.lock().values().map(|pool| pool.open()).sum();
        UpstreamStatus {
            name: self.settings.name.clone(),
            target: sanitize::shorten(self.settings.connector.target(), 500),
            state: match (breaker.failures, connections) {
                (0, 0) => UpstreamState::Stopped,
                (0, _) => UpstreamState::Running,
                (failures, _) if failures < MAX_FAILURES => UpstreamState::Failing,
                _ => UpstreamState::Unavailable,
            },
            connections,
            tools: self.definitions().tools.len(),
            quarantined: match self.settings.pins {
                true => self.pins.quarantined(self.name()).len(),
                false => 0,
            },
            collisions: self.collisions.load(Ordering::Relaxed),
            failures: breaker.failures,
            last_error: breaker.last.as_ref().map(|(_, reason)| reason.full.clone()),
            calls: self.metrics.calls(),
            errors: self.metrics.errors(),
        }
    }
}

/// Logs an event of an upstream for the operator.
fn log_event(server: &str, event: ClientEvent) {
    let shorten = |text: &str| sanitize::shorten(text, 500);
    match event {
        ClientEvent::Warning(problem) => tracing::warn!(server, "{}", shorten(&problem)),
        ClientEvent::Disconnected { reason } => {
            tracing::info!(server, "the upstream server was lost: {}", shorten(&reason));
        }
        ClientEvent::Log { level, data, .. } => {
            tracing::debug!(server, %level, "{}", shorten(&data.to_string()));
        }
        _ => {}
    }
}

async fn close_all(clients: Vec<Client>) {
    join_all(clients.iter().map(Client::close)).await;
}

/// Time beyond the one for connecting until a failure to connect is noted.
const GRACE: Duration = Duration::from_secs(1);

/// Limit on a call with progress or questions.
const MAX_CALL_DURATION: Duration = Duration::from_secs(3600);

/// Limit on the messages of an upstream in ten seconds while it has nothing to do.
const MAX_UNSOLICITED: u32 = 10_000;

/// Limit on the pages of an upstream's list.
const MAX_PAGES: usize = 200;

/// Limit on the entries of an upstream's list.
const MAX_ENTRIES: usize = 10_000;

/// Time that a call waits for the upstream to take a log level.
const LOG_LEVEL_TIME: Duration = Duration::from_secs(2);
