//! What the engine does by itself: end what is overdue, take up what was interrupted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashSet;
use mcp_flow_session::store::{Filter, Page, Phase};
use mcp_flow_session::{Command, SessionId, State, StoreError, Timestamp};

use crate::change::Change;
use crate::engine::Core;
use crate::error::EngineError;

impl Core {
    /// Sweeps until the engine stops, after having taken up what was interrupted.
    pub(crate) async fn keep_house(self: Arc<Self>) {
        if let Err(error) = self.find_interrupted().await {
            tracing::error!(%error, "interrupted sessions could not be found");
        }
        loop {
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "sessions could not be swept");
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    pub(crate) async fn sweep(self: &Arc<Self>) -> Result<(), EngineError> {
        let now = self.clock.now();
        self.hub.sweep(now);
        self.live.sweep(self.limits.linger);
        if let Some(rate) = self.limits.rate {
            self.rates.sweep(rate, tokio::time::Instant::now().into_std());
        }
        self.take_up_stalled().await;
        loop {
            let due = self.store.due(now, PAGE).await?;
            let mut done = 0;
            for id in &due {
                match self.settle_due(*id).await {
                    Ok(settled) => done += usize::from(settled),
                    // Its time is over, and nobody will ever know more of it than that.
                    Err(EngineError::Store(StoreError::Damaged(id))) => {
                        tracing::error!(session = %id, "a damaged session is overdue, and erased");
                        self.store.erase(id).await?;
                        self.counts.forget_all();
                        done += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
            // What could not be settled will come up again; there may be more behind it, but
            // looking again at once would find the same.
            if due.len() < PAGE || done == 0 {
                return Ok(());
            }
        }
    }

    /// Ends an overdue session, or forgets one that was over. Whether anything was done.
    async fn settle_due(self: &Arc<Self>, id: SessionId) -> Result<bool, EngineError> {
        let Some(slot) = self.any_slot(id).await? else {
            self.store.erase(id).await?;
            return Ok(true);
        };
        let turn = self.take_turn(&slot).await;
        if slot.is_dead() {
            return Ok(false);
        }
        if slot.is_over() {
            let until = slot.shared.lock().session.deadline();
            let fades = until.is_some_and(|until| until <= self.clock.now());
            if fades {
                self.store.erase(id).await?;
                self.hub.watchers.tell(|| Change::Forgotten(id));
                self.live.remove(&slot);
            }
            return Ok(fades);
        }
        match self.expire(&slot, &turn).await {
            Ok(()) => Ok(false),
            Err(EngineError::Expired(_)) => Ok(true),
            Err(EngineError::Store(StoreError::Conflict(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes a session that has ended, and forgets the oldest beyond the limit.
    pub(crate) async fn buried(&self, id: SessionId, until: Timestamp) {
        let now = self.clock.now();
        if let Some(oldest) = self.graves.add(id, until, now, self.limits.tombstones) {
            // If this fails its time will come anyway.
            let _ = self.store.erase(oldest).await;
            self.hub.watchers.tell(|| Change::Forgotten(oldest));
        }
    }

    /// Finds the sessions that were at work when the last process ended.
    async fn find_interrupted(&self) -> Result<(), EngineError> {
        let mut after = None;
        loop {
            let filter = Filter { owner: None, phase: Phase::Working };
            let found = self.store.list(filter, Page { after, most: PAGE }).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = Some(last.id);
            for listed in found {
                self.stalled.add(listed.id);
            }
        }
    }

    /// Goes on with sessions that were interrupted, as long as there is room.
    async fn take_up_stalled(self: &Arc<Self>) {
        while let Some(id) = self.stalled.take() {
            if let Err(error) = self.take_up(id).await {
                tracing::warn!(session = %id, %error, "a session could not be taken up again");
                // Later there may be room, or a disk that works again.
                if matches!(error, EngineError::Busy | EngineError::Store(StoreError::Full)) {
                    self.stalled.add(id);
                    return;
                }
            }
        }
    }

    pub(crate) async fn take_up(self: &Arc<Self>, id: SessionId) -> Result<(), EngineError> {
        let Some(slot) = self.any_slot(id).await? else { return Ok(()) };
        let turn = self.take_turn(&slot).await;
        if slot.is_dead() || slot.is_over() || slot.is_driven() {
            return Ok(());
        }
        slot.prepare()?;
        if slot.shared.lock().session.state == State::Idle {
            slot.shared.command(Command::Begin)?;
        }
        self.advance(&slot, &turn).await
    }

    /// A session in memory, whoever it belongs to.
    async fn any_slot(&self, id: SessionId) -> Result<Option<Arc<crate::run::Slot>>, EngineError> {
        if let Some(slot) = self.live.get(id) {
            return Ok(Some(slot));
        }
        match self.read_any(id).await? {
            Some((events, session)) => self.revive(id, &events, session).map(Some),
            None => Ok(None),
        }
    }
}

/// The ends of sessions that are remembered, oldest first, as far as this process saw them.
#[derive(Debug, Default)]
pub(crate) struct Graves(Mutex<VecDeque<(SessionId, Timestamp)>>);

impl Graves {
    /// Adds one, and says which is one too many.
    fn add(
        &self,
        id: SessionId,
        until: Timestamp,
        now: Timestamp,
        most: usize,
    ) -> Option<SessionId> {
        let mut graves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sweeping forgets these without being told.
        while graves.front().is_some_and(|(_, until)| *until <= now) {
            graves.pop_front();
        }
        graves.push_back((id, until));
        if graves.len() > most { graves.pop_front().map(|(id, _)| id) } else { None }
    }
}

/// Sessions with work to do that nobody is at.
#[derive(Debug, Default)]
pub(crate) struct Stalled(Mutex<HashSet<SessionId>>);

impl Stalled {
    pub(crate) fn add(&self, id: SessionId) {
        self.lock().insert(id);
    }

    fn take(&self) -> Option<SessionId> {
        let mut stalled = self.lock();
        let id = *stalled.iter().next()?;
        stalled.remove(&id);
        Some(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many sessions are looked at together.
const PAGE: usize = 256;

/// How long the engine rests between sweeps.
const PAUSE: Duration = Duration::from_millis(500);
