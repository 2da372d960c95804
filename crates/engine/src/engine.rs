//! The engine: the public operations on sessions.

mod load;
mod request;
mod respond;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_rate::Buckets;
use mcp_flow_session::event::{Ending, FlowFault};
use mcp_flow_session::store::{Census, Filter, Listed, PageRequest, Phase};
use mcp_flow_session::{Command, Owner, Session, SessionId, Store, StoreError, Timestamp};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::EngineBuilder;
use crate::clock::Clock;
use crate::definition::Definition;
use crate::error::EngineError;
use crate::limits::SessionLimits;
use crate::maintenance::{Stalled, Tombstones};
use crate::notice::{ExpirySender, Hub, SessionSubscription};
use crate::quota::SessionCounts;
use crate::session_changes::SessionChanges;
use crate::slot::Slot;
use crate::slots::Slots;
use crate::view::{SessionStatus, View};

pub use request::{AnswerReply, AnswerRequest, SeenTurn, StartRequest};

/// Runs flows and stores their sessions.
///
/// A handle: clones share one engine. Methods on a session take the caller as `owner`; a session of
/// another owner is reported as [`EngineError::NotFound`].
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
}

/// State shared by all clones of an [`Engine`].
pub(crate) struct EngineInner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) flows: Arc<BTreeMap<String, Arc<Definition>>>,
    pub(crate) limits: Arc<SessionLimits>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) slots: Slots,
    pub(crate) counts: SessionCounts,
    pub(crate) rates: Buckets<SessionId>,
    pub(crate) tombstones: Tombstones,
    pub(crate) stalled: Stalled,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    pub(crate) denied: AtomicU64,
    /// Set once maintenance was started.
    pub(crate) is_maintained: AtomicBool,
}

impl Engine {
    /// Returns a builder for an engine on this store.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    pub(crate) fn new(
        store: Arc<dyn Store>,
        flows: Arc<BTreeMap<String, Arc<Definition>>>,
        limits: Arc<SessionLimits>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let inner = EngineInner {
            store,
            flows,
            clock,
            hub: Arc::default(),
            slots: Slots::new(limits.live),
            limits,
            counts: SessionCounts::default(),
            rates: Buckets::default(),
            tombstones: Tombstones::default(),
            stalled: Stalled::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            denied: AtomicU64::new(0),
            is_maintained: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Creates an engine of the same flows, limits and clock on another store.
    pub(crate) fn with_store(&self, store: Arc<dyn Store>) -> Self {
        let EngineInner { flows, limits, clock, .. } = &*self.inner;
        Self::new(store, Arc::clone(flows), Arc::clone(limits), Arc::clone(clock))
    }

    /// Returns the flows that can be started, ordered by name.
    pub fn flows(&self) -> impl Iterator<Item = &Definition> {
        self.inner.flows.values().map(Arc::as_ref)
    }

    /// Returns the flow of this name.
    pub fn flow(&self, name: &str) -> Option<&Definition> {
        self.inner.flows.get(name).map(Arc::as_ref)
    }

    /// Starts a session and runs its flow until it asks, ends, or waits for a step.
    pub async fn start(&self, start: StartRequest) -> Result<View, EngineError> {
        self.start_session(start).await
    }

    /// Answers the open question of a session.
    ///
    /// The flow runs until it asks, ends, or waits for a step. All of that is durable when this
    /// returns.
    pub async fn respond(
        &self,
        id: SessionId,
        owner: &Owner,
        response: AnswerRequest,
    ) -> Result<AnswerReply, EngineError> {
        for _ in 1..CONFLICT_ATTEMPTS {
            let replied = self.try_respond(id, owner, &response).await;
            if !is_conflict(&replied) {
                return replied;
            }
        }
        self.try_respond(id, owner, &response).await
    }

    /// Returns the status of a session. Changes nothing (INT-061).
    pub async fn view(&self, id: SessionId, owner: &Owner) -> Result<View, EngineError> {
        self.read_with(id, owner, Slot::view, |session| View::of(id, session, None)).await
    }

    /// Returns the whole state of a session: history, data, ending. Changes nothing.
    pub async fn inspect(&self, id: SessionId, owner: &Owner) -> Result<Session, EngineError> {
        self.read_with(id, owner, Slot::session, Session::clone).await
    }

    /// Waits until the flow of a session is not working any more, or for `timeout`.
    pub async fn wait(
        &self,
        id: SessionId,
        owner: &Owner,
        timeout: Duration,
    ) -> Result<View, EngineError> {
        let until = Instant::now() + timeout;
        // Mostly there is nothing to wait for, and subscribing has a cost.
        let view = self.view(id, owner).await?;
        if !matches!(view.status, SessionStatus::Working(_)) {
            return Ok(view);
        }
        // Subscribed before the status is read, so that no notice is missed in between.
        let mut subscription = self.subscribe(id, owner).await?;
        loop {
            let view = self.view(id, owner).await?;
            if !matches!(view.status, SessionStatus::Working(_)) {
                return Ok(view);
            }
            match timeout_at(until, subscription.next()).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.view(id, owner).await,
                Err(_) => return Ok(view),
            }
        }
    }

    /// Subscribes to the notices of a session from now on.
    pub async fn subscribe(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<SessionSubscription, EngineError> {
        let session = self.inspect(id, owner).await?;
        Ok(self.inner.hub.subscribe(id, &session, self.warning_lead(session.started.inactivity)))
    }

    /// Sends the expiry notices of a session to a channel that many sessions share, which is
    /// cheaper than a subscription for each. Only sessions with an inactivity timeout are warned
    /// of.
    pub fn watch_expiry(&self, view: &View, notices: &ExpirySender) {
        if let (Some(at), Some(_)) = (view.deadline, view.inactivity) {
            self.inner.hub.watch_expiry(view.id, at, self.warning_lead(view.inactivity), notices);
        }
    }

    /// Stops sending expiry notices of a session.
    pub fn unwatch_expiry(&self, id: SessionId) {
        self.inner.hub.unwatch_expiry(id);
    }

    /// Milliseconds between the warning and the deadline of a session.
    fn warning_lead(&self, inactivity: Option<u64>) -> u64 {
        let warning = u64::try_from(self.inner.limits.warning.as_millis()).unwrap_or(u64::MAX);
        (inactivity.unwrap_or(u64::MAX) / 4).min(warning)
    }

    /// Subscribes to the changes of all sessions from now on, of every owner. For administration:
    /// the caller decides who may see them.
    pub fn changes(&self) -> SessionChanges {
        self.inner.hub.changes.subscribe()
    }

    /// Ends a session in any state. A step in progress is dropped.
    pub async fn cancel(
        &self,
        id: SessionId,
        owner: &Owner,
        reason: Option<String>,
    ) -> Result<View, EngineError> {
        let reason = reason.map(|reason| reason.chars().take(REASON_LIMIT).collect());
        self.end(id, owner, Command::End(Ending::Cancelled { reason })).await
    }

    /// Completes a session with the data gathered so far, if its flow allows that (C-08).
    pub async fn finish(&self, id: SessionId, owner: &Owner) -> Result<View, EngineError> {
        self.end(id, owner, Command::Finish).await
    }

    /// Lists sessions of an owner, ordered by id.
    pub async fn list(
        &self,
        owner: &Owner,
        phase: Phase,
        page: PageRequest,
    ) -> Result<Vec<Listed>, EngineError> {
        self.list_all(Filter { owner: Some(owner.clone()), phase }, page).await
    }

    /// Lists sessions of every owner, ordered by id. For administration.
    pub async fn list_all(
        &self,
        filter: Filter,
        page: PageRequest,
    ) -> Result<Vec<Listed>, EngineError> {
        Ok(self.inner.store.list(filter, page).await?)
    }

    /// Counts the sessions of all owners by phase. Maintenance removes expired sessions from the
    /// count (INT-074).
    pub async fn census(&self) -> Result<Census, EngineError> {
        Ok(self.inner.store.census().await?)
    }

    /// Returns the limits of sessions.
    pub fn limits(&self) -> &SessionLimits {
        &self.inner.limits
    }

    /// Ends a session because of a fault outside its flow.
    pub async fn fail(
        &self,
        id: SessionId,
        owner: &Owner,
        fault: FlowFault,
    ) -> Result<View, EngineError> {
        self.end(id, owner, Command::End(Ending::Failed(fault))).await
    }

    /// Returns the time by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Returns the number of sessions in memory.
    pub fn live(&self) -> usize {
        self.inner.slots.len()
    }

    /// Returns the number of accesses to sessions of another owner that were denied.
    pub fn denied_accesses(&self) -> u64 {
        self.inner.denied.load(Ordering::Relaxed)
    }

    /// Stops all work and waits until it has stopped. The next engine on the same store resumes the
    /// sessions.
    pub async fn shutdown(&self) {
        self.inner.stopping.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    async fn end(
        &self,
        id: SessionId,
        owner: &Owner,
        command: Command,
    ) -> Result<View, EngineError> {
        for _ in 1..CONFLICT_ATTEMPTS {
            let ended = self.try_end(id, owner, command.clone()).await;
            if !is_conflict(&ended) {
                return ended;
            }
        }
        self.try_end(id, owner, command).await
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("live", &self.live()).finish_non_exhaustive()
    }
}

/// Returns whether another writer came first, so that the operation has to be decided again on what
/// it wrote: another process, or a request whose caller went away during the write.
fn is_conflict<T>(done: &Result<T, EngineError>) -> bool {
    matches!(done, Err(EngineError::Store(StoreError::Conflict(_))))
}

/// Attempts at an operation that meets conflicts.
const CONFLICT_ATTEMPTS: usize = 4;

/// Characters of a reason for cancelling that are kept.
const REASON_LIMIT: usize = 1000;
