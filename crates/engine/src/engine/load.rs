//! Loading sessions: from a slot in memory, or from the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcp_flow_session::event::Ending;
use mcp_flow_session::{JournalEvent, Owner, Session, SessionId, StoreError};

use super::Engine;
use crate::definition::Definition;
use crate::error::EngineError;
use crate::execution::{Execution, ExecutionContext};
use crate::membership::HeldLease;
use crate::slot::Slot;

impl Engine {
    /// Reads a session from its slot, or from the store. Only an ended session gets a slot then: its
    /// result never changes, and clients that poll read it again.
    pub(super) async fn read_with<T>(
        &self,
        id: SessionId,
        owner: &Owner,
        from_slot: impl FnOnce(&Slot) -> T,
        from_session: impl FnOnce(&Session) -> T,
    ) -> Result<T, EngineError> {
        if let Some(slot) = self.inner.slots.get(id) {
            if slot.owner != *owner {
                return Err(self.deny_access());
            }
            // Between turns everything in the slot is durable, and only that may be read.
            let _turn = slot.turn.lock().await;
            if !slot.is_stale() && (self.is_final(&slot) || self.is_current(&slot).await?) {
                let expired = self.expired(&slot.execution.lock().session);
                return Ok(
                    expired.map_or_else(|| from_slot(&slot), |session| from_session(&session))
                );
            }
        }
        let (events, session) = self.read_journal(id, owner).await?;
        let read = from_session(self.expired(&session).as_ref().unwrap_or(&session));
        if session.ended.is_some() && !self.inner.limits.linger.is_zero() {
            // A full table is no reason to fail: it is read from the store again.
            let _ = self.insert_slot(id, &events, session, None);
        }
        Ok(read)
    }

    /// Returns whether the session of a slot has ended and its tombstone may not be erased yet: no node
    /// changes it any more, so polls of its result need not ask the store.
    fn is_final(&self, slot: &Slot) -> bool {
        let now = self.now();
        slot.execution.lock().session.ended.as_ref().is_some_and(|ended| now < ended.until)
    }

    /// Returns whether no other node has changed the session of a slot.
    pub(crate) async fn is_current(&self, slot: &Arc<Slot>) -> Result<bool, EngineError> {
        match self.check_current(slot).await {
            Ok(()) => Ok(true),
            Err(EngineError::Store(StoreError::Conflict(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the expired form of a session past its deadline that maintenance has yet to expire.
    pub(crate) fn expired(&self, session: &Session) -> Option<Session> {
        let now = self.now();
        let limit = session.overdue(now)?;
        let mut expired = session.clone();
        let at = session.deadline().unwrap_or(now);
        let ended = session.end(Ending::Expired(limit), at, &self.inner.limits.bounds);
        expired.apply(ended).ok()?;
        Some(expired)
    }

    /// Returns the slot of a session of this owner, loading it if it is not in memory.
    pub(crate) async fn owned_slot(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<Arc<Slot>, EngineError> {
        if let Some(slot) = self.inner.slots.get(id) {
            return if slot.owner == *owner { Ok(slot) } else { Err(self.deny_access()) };
        }
        let lease = self.held_lease().await?;
        let (events, session) = self.read_journal(id, owner).await?;
        self.insert_slot(id, &events, session, lease)
    }

    /// Returns the slot of a session of any owner, loading it if it is not in memory.
    pub(crate) async fn slot(&self, id: SessionId) -> Result<Option<Arc<Slot>>, EngineError> {
        if let Some(slot) = self.inner.slots.get(id) {
            return Ok(Some(slot));
        }
        let lease = self.held_lease().await?;
        match self.read_any_journal(id).await? {
            Some((events, session)) => self.insert_slot(id, &events, session, lease).map(Some),
            None => Ok(None),
        }
    }

    fn insert_slot(
        &self,
        id: SessionId,
        events: &[JournalEvent],
        session: Session,
        lease: Option<HeldLease>,
    ) -> Result<Arc<Slot>, EngineError> {
        let definition = self.inner.flows.find(&session.started.flow, events);
        let context = self.execution_context(definition.as_ref(), lease);
        let execution = Execution::new(id, events, session, context);
        let slot = Slot::new(execution, definition);
        self.inner.slots.insert(slot).ok_or(EngineError::Busy)
    }

    pub(crate) fn execution_context(
        &self,
        definition: Option<&Arc<Definition>>,
        lease: Option<HeldLease>,
    ) -> ExecutionContext {
        let mut limits = Arc::clone(&self.inner.limits);
        if let Some(prompts) = definition.and_then(|definition| definition.prompts()) {
            Arc::make_mut(&mut limits).bounds.prompts = prompts;
        }
        ExecutionContext {
            clock: Arc::clone(&self.inner.clock),
            limits,
            hub: Arc::clone(&self.inner.hub),
            definition: definition.cloned(),
            lease,
            draining: self.inner.draining.clone(),
            step_hook: self.inner.step_hook.clone(),
            link_base: Arc::clone(&self.inner.link_base),
            is_check: false,
        }
    }

    pub(super) async fn read_journal(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<(Vec<JournalEvent>, Session), EngineError> {
        match self.read_any_journal(id).await? {
            Some(found) if found.1.started.owner == *owner => Ok(found),
            Some(_) => Err(self.deny_access()),
            None => Err(EngineError::NotFound),
        }
    }

    pub(crate) async fn read_any_journal(
        &self,
        id: SessionId,
    ) -> Result<Option<(Vec<JournalEvent>, Session)>, EngineError> {
        let events = self.inner.store.read(id).await?;
        let session = Session::replay(&events).map_err(|_| StoreError::Damaged(id))?;
        Ok(session.map(|session| (events, session)))
    }

    /// Counts an access to a session of another owner, and reports it as not found (C-53).
    pub(crate) fn deny_access(&self) -> EngineError {
        self.inner.denied.fetch_add(1, Ordering::Relaxed);
        EngineError::NotFound
    }
}
