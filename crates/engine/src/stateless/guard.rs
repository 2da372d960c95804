//! One turn at a time, and none twice, for sessions that clients carry.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashSet;
use mcp_flow_session::SessionId;
use mcp_flow_session::store::{LastTurn, ReplayGuard};

use crate::error::EngineError;

/// Tells old tokens from the newest.
#[derive(Debug)]
pub(super) struct Guard {
    kept: Arc<dyn ReplayGuard>,
    /// Sessions with a turn under way.
    under_way: Mutex<HashSet<SessionId>>,
}

impl Guard {
    pub(super) fn new(kept: Arc<dyn ReplayGuard>) -> Self {
        Self { kept, under_way: Mutex::default() }
    }

    /// Refuses a token that had so many events, if its session has moved on.
    pub(super) async fn check(&self, id: SessionId, events: u64) -> Result<(), EngineError> {
        match self.kept.last_turn(id).await? {
            Some(last) if last > events => Err(EngineError::Outdated),
            _ => Ok(()),
        }
    }

    /// Takes the turn after so many events, if nobody has.
    pub(super) async fn take(&self, id: SessionId, events: u64) -> Result<Taken<'_>, EngineError> {
        if !self.lock().insert(id) {
            return Err(EngineError::Outdated);
        }
        let taken = Taken { guard: self, id };
        self.check(id, events).await?;
        Ok(taken)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that is taken; given back when dropped, so that a request that failed can be repeated.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    guard: &'a Guard,
    id: SessionId,
}

impl Taken<'_> {
    /// The turn is over. Nobody is told what came of it before this is durable: whoever has the next
    /// token can be sure that the one before is not good any more.
    pub(super) async fn keep(self, turn: LastTurn) -> Result<(), EngineError> {
        Ok(self.guard.kept.keep_turn(turn).await?)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.guard.lock().remove(&self.id);
    }
}
