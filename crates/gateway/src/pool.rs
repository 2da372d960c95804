//! Connections to one upstream, leased to calls.
//!
//! Where the transport tells which call a question of the upstream belongs to, and with stateless
//! upstreams, one connection serves all calls. Otherwise a call whose caller can be asked has its
//! connection to itself, so that a question cannot reach somebody else. Those of one principal are
//! limited, and there is always one more connection for all other calls, so that nobody has to wait for
//! the answers of others. The lowest free connection is taken, so callers that take turns always use
//! the same one, which has the subscriptions as well.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use mcp_flow_client::{ChangeFilter, Client, Revision, ServerInfo};
use mcp_flow_proto::RpcError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::breaker::{Breaker, backoff};
use crate::error;
use crate::settings::UpstreamSettings;

/// Connections for callers that share them.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Mutex<Slots>,
    freed: Notify,
    /// Serializes attempts to connect.
    starting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Slots {
    slots: Vec<Slot>,
    last_used: Instant,
    is_closed: bool,
}

#[derive(Debug)]
struct Slot {
    instance: Arc<Instance>,
    /// Principal of the call that has the connection to itself, because it may be asked.
    exclusive: Option<Arc<str>>,
    /// Other calls.
    shared: usize,
    /// Subscriptions, which never ask.
    subscriptions: usize,
}

/// Purpose that a connection is leased for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<'a> {
    /// A call of a caller with this principal, which can be asked.
    AskedCall(&'a str),
    /// Any other request.
    Request,
    /// A subscription.
    Subscription,
}

/// Claim of a lease on its connection.
#[derive(Clone, Debug)]
enum Claim {
    Exclusive(Arc<str>),
    Shared,
    Subscription,
}

/// One connection to an upstream.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) client: Client,
    /// True if questions on this connection cannot be attributed to calls.
    needs_exclusion: AtomicBool,
    /// The connection whose lists were read last.
    read: Mutex<Option<ReadLists>>,
    /// Serializes reading the lists.
    reading: tokio::sync::Mutex<()>,
    /// Listens for changes of a stateless upstream.
    listening: Mutex<Option<AbortOnDrop>>,
    /// Subscriptions to changes that ended early, in a row.
    unheard: Arc<AtomicU32>,
    _events: AbortOnDrop,
}

/// A connection whose lists were read, or are about to be.
#[derive(Clone, Debug)]
struct ReadLists {
    /// Identifies the connection.
    server: Arc<ServerInfo>,
    /// Tools on this connection that pins do not allow; `None` if they were not compared yet.
    refused: Option<Arc<HashSet<String>>>,
}

impl Instance {
    /// Creates an instance, not connected yet, with the task that follows its events.
    pub(crate) fn new(client: Client, events: AbortOnDrop) -> Self {
        Self {
            client,
            needs_exclusion: AtomicBool::new(true),
            read: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            listening: Mutex::default(),
            unheard: Arc::default(),
            _events: events,
        }
    }

    /// Listens for changes of the lists of a stateless upstream, unless a subscription lasts. When it
    /// ends, the lists are read again after a while, which listens again.
    async fn listen(&self, changed: &Arc<Notify>) {
        let is_listening = |task: &AbortOnDrop| !task.0.is_finished();
        if self.listening.lock().as_ref().is_some_and(is_listening) {
            return;
        }
        let filter = ChangeFilter::new().tools().prompts().resources();
        let subscribed = tokio::time::timeout(LISTEN_TIME, self.client.listen(filter)).await;
        // One that does not support this is not asked again before its lists are read again.
        let Ok(Ok(mut changes)) = subscribed else { return };
        let (changed, unheard, begun) = (changed.clone(), self.unheard.clone(), Instant::now());
        let task = tokio::spawn(async move {
            while let Some(Ok(_)) = changes.next().await {
                changed.notify_one();
            }
            if begun.elapsed() > LASTING {
                unheard.store(0, Ordering::Relaxed);
            }
            let ended = unheard.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(backoff(ended.saturating_add(1))).await;
            changed.notify_one();
        });
        *self.listening.lock() = Some(AbortOnDrop(task.abort_handle()));
    }
}

/// Task that ends with its owner.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Use of an open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    occupied: Occupied,
    pub(crate) server: Arc<ServerInfo>,
}

/// Use of a connection that may not be open yet.
#[derive(Debug)]
struct Occupied {
    pool: Arc<Pool>,
    instance: Arc<Instance>,
    claim: Claim,
}

impl Lease {
    pub(crate) fn client(&self) -> &Client {
        &self.occupied.instance.client
    }

    /// Makes sure that changes of the upstream's lists are noticed. An older upstream announces them
    /// unasked.
    pub(crate) async fn listen(&self, changed: &Arc<Notify>) {
        if self.revision().is_stateless() {
            self.occupied.instance.listen(changed).await;
        }
    }

    /// Lets one caller at a time read the lists over this connection.
    pub(crate) async fn begin_reading(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.occupied.instance.reading.lock().await
    }

    /// Notes that the lists are read over this connection, with the tools that pins do not allow.
    /// Returns whether it is a new connection.
    pub(crate) fn note_read(&self, refused: Option<HashSet<String>>) -> bool {
        let mut read = self.occupied.instance.read.lock();
        let is_new = !read.as_ref().is_some_and(|read| Arc::ptr_eq(&read.server, &self.server));
        if is_new || refused.is_some() {
            *read = Some(ReadLists { server: self.server.clone(), refused: refused.map(Arc::new) });
        }
        is_new
    }

    /// The tools that pins do not allow on this connection; `None` if that is not known.
    pub(crate) fn refused_tools(&self) -> Option<Arc<HashSet<String>>> {
        let read = self.occupied.instance.read.lock();
        let read = read.as_ref().filter(|read| Arc::ptr_eq(&read.server, &self.server));
        read?.refused.clone()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.server.revision
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let mut slots = self.pool.slots.lock();
        slots.last_used = Instant::now();
        let own = slots.slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.instance, &self.instance));
        if let Some(slot) = own {
            match self.claim {
                Claim::Exclusive(_) => slot.exclusive = None,
                Claim::Shared => slot.shared = slot.shared.saturating_sub(1),
                Claim::Subscription => slot.subscriptions = slot.subscriptions.saturating_sub(1),
            }
        }
        drop(slots);
        self.pool.freed.notify_waiters();
    }
}

impl Pool {
    pub(crate) fn new() -> Self {
        let slots = Slots { slots: Vec::new(), last_used: Instant::now(), is_closed: false };
        Self {
            slots: Mutex::new(slots),
            freed: Notify::new(),
            starting: tokio::sync::Mutex::default(),
        }
    }

    /// Leases a connection, connecting if needed. `create` prepares a new one.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        settings: &UpstreamSettings,
        breaker: &Breaker,
        purpose: Purpose<'_>,
        create: impl Fn() -> Instance + Send + Sync,
    ) -> Result<Lease, RpcError> {
        // The first connection shows whether the others are needed.
        let first = self.first(settings, &create)?;
        self.connect(&first, settings, breaker).await?;
        let begun = tokio::time::Instant::now();
        loop {
            // Registered before the check, so that no release is missed.
            let freed = self.freed.notified();
            if let Some((instance, claim)) = self.take(settings, purpose, &create)? {
                // Released again if connecting fails or is given up.
                let use_of = Occupied { pool: self.clone(), instance, claim };
                let server = self.connect(&use_of.instance, settings, breaker).await?;
                return Ok(Lease { occupied: use_of, server });
            }
            let limit = settings.call_timeout.min(MAX_QUEUE_TIME);
            if tokio::time::timeout_at(begun + limit, freed).await.is_err() {
                let what = format!(
                    "{} calls of this caller wait for answers already, or {MAX_EXCLUSIVE} of all \
                     callers; `instances` allows more",
                    settings.instances
                );
                return Err(error::unavailable(&settings.name, &what, Some(limit)));
            }
        }
    }

    /// The first connection, which is created if there is none.
    fn first(
        &self,
        settings: &UpstreamSettings,
        create: &impl Fn() -> Instance,
    ) -> Result<Arc<Instance>, RpcError> {
        let mut slots = self.open_slots(settings)?;
        if slots.slots.is_empty() {
            slots.slots.push(Slot::new(create()));
        }
        let first = slots.slots.first().map(|slot| slot.instance.clone());
        first.ok_or_else(RpcError::internal)
    }

    /// Takes the lowest connection that is free for this, or a new one; `None` if the principal, or all
    /// of them together, have calls that wait on as many as they may.
    fn take(
        &self,
        settings: &UpstreamSettings,
        purpose: Purpose<'_>,
        create: &impl Fn() -> Instance,
    ) -> Result<Option<(Arc<Instance>, Claim)>, RpcError> {
        let mut slots = self.open_slots(settings)?;
        let slots = &mut slots.slots;
        let needs_exclusion = slots.first().is_none_or(Slot::needs_exclusion);
        let claim = match purpose {
            Purpose::AskedCall(principal) if needs_exclusion => Claim::Exclusive(principal.into()),
            Purpose::AskedCall(_) | Purpose::Request => Claim::Shared,
            Purpose::Subscription => Claim::Subscription,
        };
        if let Claim::Exclusive(principal) = &claim {
            let waiting = || slots.iter().filter_map(|slot| slot.exclusive.as_ref());
            let own = waiting().filter(|known| *known == principal).count();
            if own >= settings.instances.max(1) || waiting().count() >= MAX_EXCLUSIVE {
                return Ok(None);
            }
        }
        let at = slots.iter().position(|slot| slot.is_free(&claim)).unwrap_or_else(|| {
            slots.push(Slot::new(create()));
            slots.len() - 1
        });
        let slot = &mut slots[at];
        slot.occupy(&claim);
        Ok(Some((slot.instance.clone(), claim)))
    }

    fn open_slots(
        &self,
        settings: &UpstreamSettings,
    ) -> Result<parking_lot::MutexGuard<'_, Slots>, RpcError> {
        let mut slots = self.slots.lock();
        if slots.is_closed {
            return Err(error::unavailable(&settings.name, "it was removed", None));
        }
        slots.last_used = Instant::now();
        Ok(slots)
    }

    /// Connects an instance, unless it is connected. Concurrent callers share one attempt.
    async fn connect(
        &self,
        instance: &Instance,
        settings: &UpstreamSettings,
        breaker: &Breaker,
    ) -> Result<Arc<ServerInfo>, RpcError> {
        if let Some(server) = instance.client.known_server() {
            return Ok(server);
        }
        let asked = Instant::now();
        let _one_at_a_time = self.starting.lock().await;
        if let Some(server) = instance.client.known_server() {
            return Ok(server);
        }
        breaker.check(&settings.name, asked)?;
        let connecting = async {
            let server = instance.client.server().await?;
            let attributes = match instance.client.transport().await {
                Ok(transport) => transport.attributes_messages(),
                Err(_) => false,
            };
            Ok((server, attributes))
        };
        // Attempts are limited by the client. This one is also for those that wait for the lock.
        let limit = settings.connect_timeout + GRACE;
        let connected = tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| {
            let what = "the attempt to connect".to_owned();
            Err(mcp_flow_client::Error::Timeout { what, limit })
        });
        match connected {
            Ok((server, attributes)) => {
                breaker.succeeded();
                let needed = !attributes && !server.revision.is_stateless();
                instance.needs_exclusion.store(needed, Ordering::Release);
                Ok(server)
            }
            // The account of one user says nothing about those of others.
            Err(failure) if settings.accounts.is_some() && error::is_unauthorized(&failure) => {
                Err(error::from_client(settings, failure))
            }
            Err(failure) => Err(breaker.failed(settings, &failure)),
        }
    }

    /// Number of connections that are open.
    pub(crate) fn open(&self) -> usize {
        let slots = self.slots.lock();
        slots.slots.iter().filter(|slot| slot.instance.client.known_server().is_some()).count()
    }

    /// Number of connections, open or about to be.
    pub(crate) fn size(&self) -> usize {
        self.slots.lock().slots.len()
    }

    /// Has the tools of all connections compared with the pins again.
    pub(crate) fn compare_again(&self) {
        for slot in &self.slots.lock().slots {
            if let Some(read) = &mut *slot.instance.read.lock() {
                read.refused = None;
            }
        }
    }

    /// Takes the connections out if none was used for this long.
    pub(crate) fn take_idle(&self, limit: Duration) -> Vec<Client> {
        let mut slots = self.slots.lock();
        let is_used = slots.slots.iter().any(Slot::is_used);
        if is_used || slots.last_used.elapsed() < limit {
            return Vec::new();
        }
        slots.slots.drain(..).map(|slot| slot.instance.client.clone()).collect()
    }

    /// Takes all connections out; there will be no others.
    pub(crate) fn close(&self) -> Vec<Client> {
        let mut slots = self.slots.lock();
        slots.is_closed = true;
        slots.slots.drain(..).map(|slot| slot.instance.client.clone()).collect()
    }
}

impl Slot {
    fn new(instance: Instance) -> Self {
        Self { instance: Arc::new(instance), exclusive: None, shared: 0, subscriptions: 0 }
    }

    fn needs_exclusion(&self) -> bool {
        self.instance.needs_exclusion.load(Ordering::Acquire)
    }

    fn is_used(&self) -> bool {
        self.exclusive.is_some() || self.shared > 0 || self.subscriptions > 0
    }

    fn is_free(&self, claim: &Claim) -> bool {
        match claim {
            Claim::Exclusive(_) => self.exclusive.is_none() && self.shared == 0,
            Claim::Shared => self.exclusive.is_none(),
            Claim::Subscription => true,
        }
    }

    fn occupy(&mut self, claim: &Claim) {
        match claim {
            Claim::Exclusive(principal) => self.exclusive = Some(principal.clone()),
            Claim::Shared => self.shared += 1,
            Claim::Subscription => self.subscriptions += 1,
        }
    }
}

/// Time beyond the limit of the client in which an attempt to connect has to end.
const GRACE: Duration = Duration::from_secs(1);

/// Time for an upstream to acknowledge that it announces changes.
const LISTEN_TIME: Duration = Duration::from_secs(5);

/// A subscription that lasts this long ended for another reason than those before it.
const LASTING: Duration = Duration::from_secs(60);

/// Longest time that a call waits while others occupy all connections: people answer slowly.
const MAX_QUEUE_TIME: Duration = Duration::from_secs(10);

/// Limit on connections with calls that may be asked, of all principals.
const MAX_EXCLUSIVE: usize = 64;
