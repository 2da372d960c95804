//! The engine: the public operations on sessions.

mod load;
mod request;
mod respond;
mod start;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_rate::Buckets;
use mcp_flow_session::event::{Ending, FlowFault};
use mcp_flow_session::store::{Census, Filter, Listed, NodeInfo, PageRequest, Phase};
use mcp_flow_session::{
    Command, JournalEvent, Owner, Session, SessionId, Store, StoreError, Timestamp,
};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::{EngineBuilder, StepHook};
use crate::clock::Clock;
use crate::definition::{Definition, Definitions};
use crate::due::Wakeups;
use crate::error::EngineError;
use crate::limits::SessionLimits;
use crate::maintenance::{Stalled, Tombstones};
use crate::membership::Membership;
use crate::notice::{ExpirySender, Hub, SessionSubscription};
use crate::quota::SessionCounts;
use crate::session_changes::SessionChanges;
use crate::slot::Slot;
use crate::slots::Slots;
use crate::view::{SessionStatus, View};

pub(crate) use start::new_id;

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
    pub(crate) flows: Arc<Definitions>,
    pub(crate) limits: Arc<SessionLimits>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) slots: Slots,
    pub(crate) counts: SessionCounts,
    pub(crate) rates: Buckets<SessionId>,
    pub(crate) tombstones: Tombstones,
    pub(crate) stalled: Stalled,
    pub(crate) wakeups: Wakeups,
    /// Tasks that drive flows.
    pub(crate) drivers: TaskTracker,
    /// All other tasks.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when steps may end, and none begin.
    pub(crate) draining: CancellationToken,
    pub(crate) stopping: CancellationToken,
    pub(crate) denied: AtomicU64,
    pub(crate) failed_writes: AtomicU64,
    /// Set once maintenance was started.
    pub(crate) is_maintained: AtomicBool,
    /// Membership among the nodes that share the store.
    pub(crate) membership: Option<Arc<Membership>>,
    step_hook: Option<StepHook>,
}

impl Engine {
    /// Returns a builder for an engine on this store.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    pub(crate) fn new(
        store: Arc<dyn Store>,
        flows: Arc<Definitions>,
        limits: Arc<SessionLimits>,
        clock: Arc<dyn Clock>,
        node: NodeInfo,
        step_hook: Option<StepHook>,
    ) -> Self {
        let membership = store.shared().map(|_| Arc::new(Membership::new(node)));
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
            wakeups: Wakeups::default(),
            drivers: TaskTracker::new(),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            denied: AtomicU64::new(0),
            failed_writes: AtomicU64::new(0),
            is_maintained: AtomicBool::new(false),
            membership,
            step_hook,
        };
        let engine = Self { inner: Arc::new(inner) };
        engine.share_progress();
        engine
    }

    /// Creates an engine of the same flows, limits and clock on another store.
    pub(crate) fn with_store(&self, store: Arc<dyn Store>) -> Self {
        let EngineInner { flows, limits, clock, step_hook, .. } = &*self.inner;
        let (flows, limits) = (Arc::clone(flows), Arc::clone(limits));
        let node = NodeInfo::default();
        Self::new(store, flows, limits, Arc::clone(clock), node, step_hook.clone())
    }

    /// Returns the flows that can be started, ordered by name.
    pub fn flows(&self) -> Vec<Arc<Definition>> {
        self.inner.flows.all()
    }

    /// Returns the flow of this name.
    pub fn flow(&self, name: &str) -> Option<Arc<Definition>> {
        self.inner.flows.get(name)
    }

    /// Adds a flow while the engine runs. It replaces one of the same name; sessions in memory keep
    /// theirs.
    pub fn add_flow(&self, definition: Definition) {
        self.inner.flows.insert(definition);
        self.inner.wakeups.retry();
    }

    /// Removes a flow while the engine runs. Its sessions end by themselves, if they are in memory or
    /// their journal defines the flow ([`EngineBuilder::recorded_flows`]). Returns whether it existed.
    pub fn remove_flow(&self, name: &str) -> bool {
        self.inner.flows.remove(name)
    }

    /// Starts a session and runs its flow until it asks, ends, or waits for a step.
    pub async fn start(&self, start: StartRequest) -> Result<View, EngineError> {
        self.start_session(start).await
    }

    /// Answers the open question of a session, or the one that the request names.
    ///
    /// A flow may ask several questions at once: [`View::questions`] has all that wait, and
    /// [`AnswerRequest::for_question`] answers any of them. The flow gets the answers in the order
    /// of the questions, so an answer to a queued one is recorded until its turn comes.
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
            if matches!(replied, Err(EngineError::UnknownFlow(_))) {
                let forwarded = self.forward_to_any(id, owner, &response).await;
                return forwarded.unwrap_or(replied);
            }
            if !is_conflict(&replied) {
                return replied;
            }
            if let Some(holder) = self.other_holder(id).await? {
                let forwarded = self.forward_answer(holder, id, owner, &response).await;
                // Meanwhile the session may have been released.
                if !matches!(forwarded, Err(EngineError::Busy)) {
                    return forwarded;
                }
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
        let is_settled = |view: &View| {
            !matches!(view.status, SessionStatus::Working(_))
                || view.stuck.is_some()
                || self.sleeps_beyond(view, until)
        };
        if is_settled(&view) {
            return Ok(view);
        }
        // Subscribed before the status is read, so that no notice is missed in between.
        let mut subscription = self.subscribe(id, owner).await?;
        loop {
            let view = self.view(id, owner).await?;
            if is_settled(&view) {
                return Ok(view);
            }
            match timeout_at(until, subscription.next()).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.view(id, owner).await,
                Err(_) => return Ok(view),
            }
        }
    }

    /// Waits until a question is closed. Returns whether the flow withdrew it, as opposed to it
    /// having been answered or the session having ended.
    pub async fn wait_withdrawn(&self, id: SessionId, owner: &Owner, number: u32) -> bool {
        let Ok(mut subscription) = self.subscribe(id, owner).await else { return false };
        loop {
            let Ok(session) = self.inspect(id, owner).await else { return false };
            let is_answered = session.history.iter().any(|turn| turn.number == number);
            if session.ended.is_some() || is_answered {
                return false;
            }
            if !session.is_open(number) && session.unanswered(number).is_none() {
                return true;
            }
            if subscription.next().await.is_none() {
                return false;
            }
        }
    }

    /// Returns whether the flow of a session sleeps until after a time, so that waiting for it until
    /// then would be in vain.
    fn sleeps_beyond(&self, view: &View, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        view.is_asleep() && view.wakes.is_some_and(|wakes| wakes > self.now().after(left))
    }

    /// Subscribes to the notices of a session from now on.
    pub async fn subscribe(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<SessionSubscription, EngineError> {
        let session = self.inspect(id, owner).await?;
        let lead = self.warning_lead(session.started.inactivity);
        let subscription = self.inner.hub.subscribe(id, &session, lead);
        self.wake_for_expiry(id);
        Ok(subscription)
    }

    /// Sends the expiry notices of a session to a channel that many sessions share, which is
    /// cheaper than a subscription for each. Only sessions with an inactivity timeout are warned
    /// of.
    pub fn watch_expiry(&self, view: &View, notices: &ExpirySender) {
        if let (Some(at), Some(_)) = (view.deadline, view.inactivity) {
            self.inner.hub.watch_expiry(view.id, at, self.warning_lead(view.inactivity), notices);
            self.wake_for_expiry(view.id);
        }
    }

    /// Wakes maintenance in time for the next warning or end of a session with subscribers.
    fn wake_for_expiry(&self, id: SessionId) {
        let now = self.now();
        if let Some(at) = self.inner.hub.next_expiry(id, now) {
            self.inner.wakeups.add(at, now);
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

    /// Reads the journal of a session. Of an ended one it has the end only.
    pub async fn journal(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<Vec<JournalEvent>, EngineError> {
        Ok(self.read_journal(id, owner).await?.0)
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

    /// Returns the time by the engine's clock, or by that of a shared store if it is behind.
    pub fn now(&self) -> Timestamp {
        let now = self.inner.clock.now();
        self.inner.membership.as_ref().map_or(now, |membership| membership.correct(now))
    }

    /// Returns the number of sessions in memory.
    pub fn live(&self) -> usize {
        self.inner.slots.len()
    }

    /// Returns the number of accesses to sessions of another owner that were denied.
    pub fn denied_accesses(&self) -> u64 {
        self.inner.denied.load(Ordering::Relaxed)
    }

    /// Returns the number of turns that could not be written to the store. One that another writer
    /// came before was not tried.
    pub fn failed_writes(&self) -> u64 {
        self.inner.failed_writes.load(Ordering::Relaxed)
    }

    /// Lets the steps in progress end, within a time limit, and begins nothing else: requests that
    /// change sessions fail with [`EngineError::ShuttingDown`].
    ///
    /// To be called before [`shutdown`](Engine::shutdown), which interrupts steps: an interrupted step
    /// runs again where its session is resumed.
    pub async fn drain(&self, limit: Duration) {
        self.inner.draining.cancel();
        self.inner.drivers.close();
        if timeout(limit, self.inner.drivers.wait()).await.is_err() {
            let steps = self.inner.drivers.len();
            tracing::warn!(flows = steps, "steps have not ended in {limit:?}; they will run again");
        }
    }

    /// Stops all work and waits until it has stopped. The next engine on the same store resumes the
    /// sessions.
    pub async fn shutdown(&self) {
        self.inner.draining.cancel();
        self.inner.stopping.cancel();
        for tasks in [&self.inner.drivers, &self.inner.tasks] {
            tasks.close();
            tasks.wait().await;
        }
        self.end_membership().await;
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
pub(crate) fn is_conflict<T>(done: &Result<T, EngineError>) -> bool {
    matches!(done, Err(EngineError::Store(StoreError::Conflict(_))))
}

/// Attempts at an operation that meets conflicts.
pub(crate) const CONFLICT_ATTEMPTS: usize = 4;

/// Characters of a reason for cancelling that are kept.
const REASON_LIMIT: usize = 1000;
