//! Membership of this process among the nodes that share a store: its lease, its heartbeats, and
//! the sessions it takes over from nodes that are gone.
//!
//! A flow is polled, and a step begun, only while the lease is valid: the last successful heartbeat
//! was sent less than [`TRUSTED`] ago. The store lets others take over after [`LEASE`], which is
//! later, so a node that was paused or cut off stops before others begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_session::store::{LEASE, Node, NodeInfo, SharedStore, StoreError};
use mcp_flow_session::{Epoch, SessionId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::cluster::Receivers;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::forward::Forwards;
use crate::slot::Slot;

/// Membership of this process in its store.
#[derive(Debug)]
pub(crate) struct Membership {
    info: Mutex<NodeInfo>,
    lease: watch::Sender<Lease>,
    nodes: Mutex<Vec<Node>>,
    /// Set once heartbeats were started.
    is_started: AtomicBool,
    /// Set while sessions are being claimed.
    is_claiming: AtomicBool,
    pub(crate) forwards: Forwards,
    /// Milliseconds by which the clock of the store is behind that of this process, if it is.
    behind: AtomicU64,
    pub(crate) receivers: Receivers,
}

/// Lease of this process.
#[derive(Clone, Copy, Debug)]
struct Lease {
    /// Epoch of this process; [`Epoch::NONE`] while it is not a member.
    epoch: Epoch,
    /// Time until which it can be relied on.
    until: Instant,
}

/// The lease under which a session was loaded.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    membership: Arc<Membership>,
    pub(crate) epoch: Epoch,
}

impl HeldLease {
    /// Returns whether this process is certain to be a member under this epoch.
    pub(crate) fn is_valid(&self) -> bool {
        self.membership.lease.borrow().covers(self.epoch)
    }

    /// Waits until the lease is valid. False if it has expired, or is not renewed in time.
    async fn wait_valid(&self) -> bool {
        let mut lease = self.membership.lease.subscribe();
        let settled = |lease: &Lease| lease.epoch != self.epoch || lease.covers(self.epoch);
        let waited = timeout(LEASE, lease.wait_for(settled)).await;
        waited.is_ok() && self.is_valid()
    }
}

impl Lease {
    fn covers(&self, epoch: Epoch) -> bool {
        self.epoch == epoch && self.epoch != Epoch::NONE && Instant::now() < self.until
    }
}

impl Membership {
    pub(crate) fn new(info: NodeInfo) -> Self {
        let (lease, _) = watch::channel(Lease { epoch: Epoch::NONE, until: Instant::now() });
        Self {
            info: Mutex::new(info),
            lease,
            nodes: Mutex::default(),
            is_started: AtomicBool::new(false),
            is_claiming: AtomicBool::new(false),
            forwards: Forwards::default(),
            behind: AtomicU64::new(0),
            receivers: Receivers::default(),
        }
    }

    /// Returns the epoch of this process; [`Epoch::NONE`] while it is not a member.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lease.borrow().epoch
    }

    /// Returns the epoch of this process while its lease can be relied on.
    pub(crate) fn valid_epoch(&self) -> Option<Epoch> {
        let lease = *self.lease.borrow();
        lease.covers(lease.epoch).then_some(lease.epoch)
    }

    /// Returns the nodes that were alive at the last heartbeat.
    pub(crate) fn known_nodes(&self) -> Vec<Node> {
        self.nodes.lock().clone()
    }

    /// Sets the URL at which other nodes reach this one. They learn of it when it joins.
    pub(crate) fn set_url(&self, url: String) {
        self.info.lock().url = Some(url);
    }

    /// Corrects a time by the clock of this process: sessions expire only when the clock of the
    /// store has come that far, too. So a jump of either clock expires nothing.
    pub(crate) fn correct(&self, now: Timestamp) -> Timestamp {
        let behind = self.behind.load(Ordering::Relaxed);
        Timestamp::from_millis(now.as_millis().saturating_sub(behind))
    }

    fn compare_clocks(&self, store: Timestamp, local: Timestamp) {
        let behind = local.as_millis().saturating_sub(store.as_millis());
        let behind = if behind > CLOCK_TOLERANCE { behind } else { 0 };
        if self.behind.swap(behind, Ordering::Relaxed).abs_diff(behind) > CLOCK_TOLERANCE {
            tracing::warn!(
                milliseconds = behind,
                "the clock of the store differs from the one of this node; the earlier time counts"
            );
        }
    }

    /// Returns the position of this node among the live ones, oldest first, and their number.
    pub(crate) fn rank(&self) -> (u128, u128) {
        let epoch = self.epoch();
        let nodes = self.nodes.lock();
        let rank = nodes.iter().take_while(|node| node.epoch < epoch).count();
        let number = nodes.len().max(rank + 1);
        (rank as u128, number as u128)
    }

    fn set(&self, epoch: Epoch, sent: Instant) {
        self.lease.send_replace(Lease { epoch, until: sent + TRUSTED });
    }

    async fn wait_joined(self: &Arc<Self>) -> Option<HeldLease> {
        let mut lease = self.lease.subscribe();
        let joined = timeout(JOIN_TIMEOUT, lease.wait_for(|lease| lease.covers(lease.epoch))).await;
        let epoch = joined.ok()?.ok()?.epoch;
        Some(HeldLease { membership: Arc::clone(self), epoch })
    }
}

impl Engine {
    /// Returns the lease of this process if its store is shared, after joining it.
    pub(crate) async fn held_lease(&self) -> Result<Option<HeldLease>, EngineError> {
        let Some(membership) = &self.inner.membership else { return Ok(None) };
        if self.inner.draining.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        self.start_membership();
        match membership.wait_joined().await {
            Some(lease) => Ok(Some(lease)),
            None => Err(unavailable("this node has lost its lease").into()),
        }
    }

    /// Returns the live nodes that share the store, oldest first; none if it is not shared.
    pub async fn nodes(&self) -> Result<Vec<Node>, EngineError> {
        match self.inner.store.shared() {
            Some(shared) => Ok(shared.nodes().await?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the epoch of this process if its store is shared and it has joined.
    pub fn epoch(&self) -> Option<Epoch> {
        let epoch = self.inner.membership.as_ref()?.epoch();
        (epoch != Epoch::NONE).then_some(epoch)
    }

    /// Waits until this process may poll the flow of a slot. If it may not, the slot is dropped and
    /// its session is resumed from the journal, here or elsewhere.
    pub(crate) async fn await_lease(&self, slot: &Arc<Slot>) -> Result<(), EngineError> {
        let Some(lease) = &slot.execution.lease else { return Ok(()) };
        if lease.is_valid() || lease.wait_valid().await {
            return Ok(());
        }
        self.abandon_turn(slot);
        Err(unavailable("this node has lost its lease").into())
    }

    /// Starts heartbeats in the background, unless they are running or the store is not shared.
    pub(crate) fn start_membership(&self) {
        let Some(membership) = &self.inner.membership else { return };
        if !membership.is_started.swap(true, Ordering::AcqRel) {
            let (engine, membership) = (self.clone(), Arc::clone(membership));
            self.inner.tasks.spawn(async move {
                tokio::select! {
                    () = engine.keep_membership(&membership) => {}
                    () = engine.inner.stopping.cancelled() => {}
                }
            });
        }
    }

    /// Gives the lease back after all work has stopped, so that others need not wait for it.
    pub(crate) async fn end_membership(&self) {
        let Some((membership, shared)) = self.inner.membership.as_ref().zip(self.shared()) else {
            return;
        };
        let epoch = membership.epoch();
        if epoch != Epoch::NONE {
            membership.lease.send_replace(Lease { epoch: Epoch::NONE, until: Instant::now() });
            // If this fails, the lease expires by itself.
            let _ = timeout(LEASE, shared.leave(epoch)).await;
        }
    }

    /// Returns whether other nodes may work on the sessions of the store.
    pub fn is_shared(&self) -> bool {
        self.inner.store.shared().is_some()
    }

    pub(crate) fn shared(&self) -> Option<&dyn SharedStore> {
        self.inner.store.shared()
    }

    /// Joins the store, and joins again whenever the lease was lost.
    async fn keep_membership(&self, membership: &Arc<Membership>) {
        let Some(shared) = self.shared() else { return };
        loop {
            let (sent, info) = (Instant::now(), membership.info.lock().clone());
            match timeout(JOIN_TIMEOUT, shared.join(info)).await {
                Ok(Ok(epoch)) => {
                    membership.set(epoch, sent);
                    tracing::debug!(%epoch, "joined the nodes that share the store");
                    let lost = self.renew_lease(shared, membership, epoch);
                    tokio::select! {
                        () = lost => {}
                        () = self.follow_changes(shared, epoch) => {}
                    }
                    membership.lease.send_replace(Lease { epoch: Epoch::NONE, until: sent });
                    tracing::warn!(%epoch, "lost the lease; other nodes take over the sessions");
                    for slot in self.inner.slots.all() {
                        self.invalidate(&slot);
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot join the nodes that share the store; retrying");
                    sleep(BEAT).await;
                }
                Err(_) => tracing::warn!("the store does not respond; retrying"),
            }
        }
    }

    /// Sends heartbeats until another node has noticed that the lease expired.
    async fn renew_lease(
        &self,
        shared: &dyn SharedStore,
        membership: &Arc<Membership>,
        epoch: Epoch,
    ) {
        let mut beats: u32 = 0;
        let mut next = Instant::now();
        loop {
            let sent = Instant::now();
            match timeout_at(sent + LEASE, shared.beat(epoch)).await {
                Ok(Ok(beat)) if !beat.is_member => return,
                Ok(Ok(beat)) => {
                    membership.set(epoch, sent);
                    if let Some(clock) = beat.clock {
                        membership.compare_clocks(clock, self.inner.clock.now());
                    }
                    if sent.elapsed() > TRUSTED {
                        tracing::warn!(
                            milliseconds = sent.elapsed().as_millis(),
                            "the store took too long for a heartbeat; this node does nothing meanwhile"
                        );
                    }
                    // The next heartbeat does not wait for this.
                    let surveyed = self.survey(shared, membership, epoch, beats);
                    match timeout_at(next.max(Instant::now()) + BEAT, surveyed).await {
                        Ok(Ok(())) => beats = beats.wrapping_add(1),
                        Ok(Err(error)) => tracing::warn!(%error, "cannot list the nodes; retrying"),
                        Err(_) => tracing::debug!("the store is slow to list the nodes; retrying"),
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "a heartbeat failed; retrying"),
                Err(_) => tracing::warn!("the store did not respond to a heartbeat; retrying"),
            }
            next = (next + BEAT).max(sent);
            tokio::time::sleep_until(next).await;
        }
    }

    /// Looks for nodes that came or went, and for sessions to take over.
    async fn survey(
        &self,
        shared: &dyn SharedStore,
        membership: &Arc<Membership>,
        epoch: Epoch,
        beats: u32,
    ) -> Result<(), StoreError> {
        let (nodes, has_orphans) = tokio::try_join!(shared.nodes(), shared.has_orphans())?;
        *membership.nodes.lock() = nodes;
        membership.receivers.heard();
        let is_maintained =
            self.inner.is_maintained.load(Ordering::Acquire) && !self.inner.draining.is_cancelled();
        if is_maintained && (has_orphans || beats.is_multiple_of(RECHECK)) {
            self.start_claiming(membership, epoch);
        }
        Ok(())
    }

    fn start_claiming(&self, membership: &Arc<Membership>, epoch: Epoch) {
        if membership.is_claiming.swap(true, Ordering::AcqRel) {
            return;
        }
        let (engine, membership) = (self.clone(), Arc::clone(membership));
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.claim_sessions(epoch).await {
                tracing::warn!(%error, "cannot take over sessions; retrying");
            }
            membership.is_claiming.store(false, Ordering::Release);
        });
    }

    /// Takes over sessions with work that no live node holds, and those that this node holds
    /// without working on them: the reply to a claim was lost, or an append of this node reached
    /// the store after the node had given up on it.
    async fn claim_sessions(&self, epoch: Epoch) -> Result<(), StoreError> {
        let Some(shared) = self.shared() else { return Ok(()) };
        loop {
            let except = self.inner.wakeups.unwakeable();
            let claimed = shared.claim(epoch, CLAIMED, except).await?;
            let is_last = claimed.len() < CLAIMED;
            let held = if is_last { shared.held(epoch).await? } else { Vec::new() };
            let stalled = held.into_iter().filter(|id| !self.inner.slots.is_driven(*id));
            let resumed = claimed.into_iter().chain(stalled).map(|id| {
                let engine = self.clone();
                self.inner.tasks.spawn(async move { engine.resume_held(id, epoch).await })
            });
            let resumed: Vec<_> = resumed.collect();
            for task in resumed {
                let _ = task.await;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Resumes a session that this node holds, from what the store has of it. If this program
    /// cannot run it, another node gets it.
    async fn resume_held(&self, id: SessionId, epoch: Epoch) {
        let resumed = match self.refresh(id).await {
            Ok(()) => self.resume(id).await,
            Err(error) => Err(error),
        };
        let Err(error) = resumed else { return };
        tracing::warn!(session = %id, %error, "cannot resume a session");
        if may_pass(&error) {
            self.inner.stalled.add(id);
            return;
        }
        self.inner.wakeups.add_unwakeable(id);
        if let Some(shared) = self.shared()
            && let Err(error) = shared.release(epoch, id).await
        {
            tracing::warn!(session = %id, %error, "cannot leave a session to other nodes");
        }
    }

    /// Drops the slot of a session if the store has other events than it. A slot at work notices
    /// that by its next append.
    async fn refresh(&self, id: SessionId) -> Result<(), EngineError> {
        if let Some(slot) = self.inner.slots.get(id) {
            let _turn = self.lock_turn(&slot).await;
            if !slot.is_stale() && !slot.is_driven() {
                self.is_current(&slot).await?;
            }
        }
        Ok(())
    }

    /// Fails with a conflict, and drops the slot, if another node has changed the session. What a
    /// slot says is told to callers only after an append or this check, unless the session has ended.
    pub(crate) async fn check_current(&self, slot: &Arc<Slot>) -> Result<(), EngineError> {
        let Some(shared) = self.shared() else { return Ok(()) };
        let head = shared.head(slot.id).await?;
        let (length, is_ended) = slot.execution.durable();
        if head.is_some_and(|head| head.length == length && head.is_ended == is_ended) {
            return Ok(());
        }
        self.invalidate(slot);
        Err(StoreError::Conflict(slot.id).into())
    }
}

/// Returns whether the error is one of the store or of this process, rather than of the session.
fn may_pass(error: &EngineError) -> bool {
    match error {
        EngineError::Store(error) => {
            !matches!(error, StoreError::Damaged(_) | StoreError::Newer(_))
        }
        EngineError::Busy | EngineError::ShuttingDown => true,
        _ => false,
    }
}

pub(crate) fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable(reason.to_owned())
}

/// Milliseconds by which clocks may differ without being corrected.
const CLOCK_TOLERANCE: u64 = 1000;

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_millis(300);

/// Time after sending a heartbeat for which the lease is relied on: less than [`LEASE`], by more
/// than clocks drift apart in a second.
const TRUSTED: Duration = Duration::from_millis(900);

/// Heartbeats after which a node looks for sessions it holds without working on them.
const RECHECK: u32 = 10;

/// Longest time to wait for a membership.
const JOIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Sessions claimed at a time.
const CLAIMED: usize = 64;
