//! Turn permits for client-held sessions: one turn at a time, and none from an outdated token.

use std::sync::Arc;

use hashbrown::HashSet;
use mcp_flow_session::SessionId;
use mcp_flow_session::store::{LastTurn, ReplayGuard};
use parking_lot::Mutex;

use crate::error::EngineError;

/// Rejects outdated tokens, and hands out one permit per session at a time.
#[derive(Debug)]
pub(super) struct Guard {
    recorded: Arc<dyn ReplayGuard>,
    /// Sessions whose permit is held.
    in_progress: Mutex<HashSet<SessionId>>,
}

impl Guard {
    pub(super) fn new(recorded: Arc<dyn ReplayGuard>) -> Self {
        Self { recorded, in_progress: Mutex::default() }
    }

    /// Rejects a token with this many events if a later turn of its session was recorded.
    pub(super) async fn check(&self, id: SessionId, events: u64) -> Result<(), EngineError> {
        match self.recorded.last_turn(id).await? {
            Some(last) if last > events => Err(EngineError::Outdated),
            _ => Ok(()),
        }
    }

    /// Acquires the permit for the turn after this many events.
    ///
    /// Fails with [`EngineError::Outdated`] if that turn was recorded or is in progress.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        id: SessionId,
        events: u64,
    ) -> Result<TurnPermit, EngineError> {
        if !self.in_progress.lock().insert(id) {
            return Err(EngineError::Outdated);
        }
        let permit = TurnPermit { guard: Arc::clone(self), id };
        self.check(id, events).await?;
        Ok(permit)
    }
}

/// Permit for one turn of a session. Released on drop, so that a request that failed can be
/// repeated.
#[derive(Debug)]
pub(super) struct TurnPermit {
    guard: Arc<Guard>,
    id: SessionId,
}

impl TurnPermit {
    /// Records the turn. The reply is sent only after this is durable: once a client has the next
    /// token, the one before is rejected.
    pub(super) async fn record(self, turn: LastTurn) -> Result<(), EngineError> {
        Ok(self.guard.recorded.keep_turn(turn).await?)
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.guard.in_progress.lock().remove(&self.id);
    }
}
