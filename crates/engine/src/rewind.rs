//! Rewinding: changing an earlier answer.

use mcp_flow_session::session::RewindError;
use mcp_flow_session::store::{Append, Fence};
use mcp_flow_session::{Owner, Session, SessionId, State, StoreError};

use crate::engine::{CONFLICT_ATTEMPTS, Engine, is_conflict};
use crate::error::EngineError;
use crate::view::View;

impl Engine {
    /// Rewinds a session to its last answered question of this key: it goes on from there as if
    /// nothing had happened since, and asks the question again.
    ///
    /// Fails if a step with effects has run since, which the error names. Lookups, timers and
    /// answers in between do not count any more; answers that name an earlier turn are rejected.
    pub async fn rewind(
        &self,
        id: SessionId,
        owner: &Owner,
        key: &str,
    ) -> Result<View, EngineError> {
        let mut rewound = self.try_rewind(id, owner, key).await;
        for _ in 1..CONFLICT_ATTEMPTS {
            if !is_conflict(&rewound) {
                break;
            }
            rewound = self.try_rewind(id, owner, key).await;
        }
        rewound?;
        // If this fails, maintenance resumes the session.
        self.inner.stalled.add(id);
        self.resume(id).await?;
        self.view(id, owner).await
    }

    async fn try_rewind(&self, id: SessionId, owner: &Owner, key: &str) -> Result<(), EngineError> {
        let slot = self.owned_slot(id, owner).await?;
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Err(StoreError::Conflict(id).into());
        }
        self.expire(&slot, &turn).await?;
        if slot.definition.is_none() {
            return Err(EngineError::UnknownFlow(slot.session().started.flow));
        }
        let mut events = self.inner.store.read(id).await?;
        let replay = |events: &[_]| match Session::replay(events) {
            Ok(Some(session)) => Ok(session),
            Ok(None) | Err(_) => Err(StoreError::Damaged(id)),
        };
        let session = replay(&events)?;
        if session.state.is_final() || session.closing.is_some() {
            let (from, to) = (session.state, State::WaitingUser);
            return Err(EngineError::Transition { from, to });
        }
        // Of a step that is running nobody knows how far it got.
        if let Some(step) = slot.execution.operation() {
            return Err(RewindError::Effect(step).into());
        }
        let rewound = session.decide_rewind(&events, key, self.now())?;
        let length = events.len();
        events.push(rewound.clone());
        let session = replay(&events)?;
        let epoch = slot.execution.epoch();
        let holder = slot.execution.lease.as_ref().map(|lease| lease.epoch);
        let append = Append {
            id,
            length,
            events: vec![rewound],
            summary: session.summary(),
            replace: false,
            fence: Fence { by: epoch, holder, steal: false },
        };
        let written = self.inner.store.append(append).await;
        // Its flow has gone on further than the journal now.
        self.invalidate(&slot);
        drop(turn);
        written?;
        self.inner.hub.publish_turn(id, &session, Vec::new());
        Ok(())
    }
}
