//! Starting a session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_flow_session::event::SessionStarted;
use mcp_flow_session::store::{PageRequest, Phase};
use mcp_flow_session::{Command, Owner, Session, SessionId, StoreError};

use super::Engine;
use super::check_size;
use super::request::StartRequest;
use crate::definition::Definition;
use crate::error::EngineError;
use crate::execution::Execution;
use crate::quota::SessionCounts;
use crate::slot::Slot;
use crate::trace;
use crate::turn::TurnGuard;
use crate::view::View;

impl Engine {
    pub(super) async fn start_session(&self, start: StartRequest) -> Result<View, EngineError> {
        let inner = &self.inner;
        if inner.draining.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let Some(definition) = &inner.flows.get(&start.flow) else {
            return Err(EngineError::UnknownFlow(start.flow));
        };
        let given = (&start.params, &start.context);
        check_size("parameters and context", inner.limits.params, &given)?;
        definition.check_given(&start.params)?;
        let (id, owner) = (new_id()?, start.owner.clone());
        let in_background = start.in_background;
        let lease = self.held_lease().await?;
        self.reserve_quota(&owner).await?;
        let session = Session::start(self.started(start, definition));
        let context = self.execution_context(Some(definition), lease);
        let execution = Execution::create(id, session, context);
        let slot = Slot::new(execution, Some(Arc::clone(definition)));
        let reservation = QuotaReservation { counts: &inner.counts, owner: &owner };
        let started = match inner.slots.insert(slot) {
            Some(slot) => self.begin(&slot, in_background).await,
            None => Err(EngineError::Busy),
        };
        std::mem::forget(reservation);
        started.inspect_err(|_| inner.counts.release(&owner))
    }

    async fn begin(&self, slot: &Arc<Slot>, in_background: bool) -> Result<View, EngineError> {
        let turn = self.lock_turn(slot).await;
        let begun = match in_background {
            false => self.begin_now(slot, &turn).await,
            true => self.begin_later(slot, &turn).await,
        };
        if begun.is_err() {
            slot.stale.store(true, Ordering::Release);
            self.inner.slots.remove(slot);
        } else {
            self.release_slot(slot);
        }
        begun
    }

    async fn begin_now(&self, slot: &Arc<Slot>, turn: &TurnGuard<'_>) -> Result<View, EngineError> {
        slot.prepare()?;
        slot.execution.command(Command::Begin)?;
        self.poll_slot(slot, turn).await?;
        // Nothing is durable yet, so invalid parameters can still fail the start as a whole.
        let invalid =
            slot.execution.lock().session.open.as_ref().and_then(|open| {
                open.violation.clone().map(|violation| (open.key.clone(), violation))
            });
        if let Some((key, violation)) = invalid {
            return Err(EngineError::InvalidParams { key, violation });
        }
        if self.commit(slot, turn).await? || slot.execution.has_work() {
            self.advance(slot, turn).await?;
        }
        Ok(slot.view())
    }

    /// Makes the session durable, and runs its flow in a task.
    async fn begin_later(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
    ) -> Result<View, EngineError> {
        slot.prepare()?;
        self.commit(slot, turn).await?;
        let view = slot.view();
        let (engine, id) = (self.clone(), slot.id);
        self.inner.tasks.spawn(mcp_flow_telemetry::inherit(async move {
            if let Err(error) = engine.resume(id).await {
                tracing::warn!(session = %id, %error, "a flow could not begin; retrying later");
                engine.inner.stalled.add(id);
            }
        }));
        Ok(view)
    }

    /// Counts one more session of an owner, within its quota.
    pub(crate) async fn reserve_quota(&self, owner: &Owner) -> Result<(), EngineError> {
        let counts = &self.inner.counts;
        let most = self.inner.limits.sessions_per_owner;
        if !counts.is_cached(owner) {
            let page = PageRequest { after: None, most };
            let count = self.list(owner, Phase::Live, page).await?.len();
            counts.cache(owner, count);
        }
        if counts.reserve(owner, most) {
            Ok(())
        } else {
            Err(EngineError::TooManySessions { most })
        }
    }

    fn started(&self, start: StartRequest, definition: &Definition) -> SessionStarted {
        let limits = &self.inner.limits;
        let at = self.now();
        let (has_no_timeout, waits) = (definition.has_no_timeout(), definition.wait());
        // Only what a client asks for is capped; the rest is set by the flow and the server.
        let longest = limits.longest_inactivity.max(waits.unwrap_or_default());
        let asked = start.inactivity.map(|duration| duration.min(longest));
        let usual = start.default_inactivity.or(limits.inactivity).filter(|_| !has_no_timeout);
        let inactivity = asked.or(waits).or(usual);
        let is_bounded =
            |limit: &Duration| !has_no_timeout && waits.is_none_or(|waits| waits < *limit);
        let duration = limits.duration.filter(is_bounded);
        SessionStarted {
            flow: start.flow,
            owner: start.owner,
            params: start.params,
            context: start.context,
            inactivity: inactivity.map(millis),
            inactivity_is_default: asked.or(waits).is_none(),
            ends: duration.map(|duration| at.after(duration)),
            retention: start.retention.map(millis),
            trace: trace::of_start(),
            scopes: start.scopes,
            depth: start.depth,
            at,
        }
    }
}

/// A session counted in advance. Dropped only if the caller goes away during the start: then only
/// the store knows whether there is a session.
struct QuotaReservation<'a> {
    counts: &'a SessionCounts,
    owner: &'a Owner,
}

impl Drop for QuotaReservation<'_> {
    fn drop(&mut self) {
        self.counts.invalidate(self.owner);
    }
}

pub(crate) fn new_id() -> Result<SessionId, EngineError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        EngineError::Store(StoreError::Backend(Box::new(std::io::Error::other(error.to_string()))))
    })?;
    Ok(SessionId::from_random(u128::from_be_bytes(bytes)))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::new_id;

    /// INT-070, INT-102: ids do not repeat, and each of the 128 bits is set half of the time.
    #[test]
    fn ids_cannot_be_guessed() {
        const IDS: usize = 100_000;
        let digits = || new_id().unwrap().to_string().split_off("session_".len());
        let ids: Vec<_> = (0..IDS).map(|_| u128::from_str_radix(&digits(), 16).unwrap()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), IDS);
        for bit in 0..u128::BITS {
            let set = ids.iter().filter(|id| *id >> bit & 1 == 1).count();
            // Ten standard deviations: chance alone never gets there.
            assert!(set.abs_diff(IDS / 2) < 1_600, "bit {bit} was set {set} times");
        }
    }
}
