//! Starting a flow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_flow_session::event::Started;
use mcp_flow_session::store::{Filter, Page, Phase};
use mcp_flow_session::{Command, Owner, Session, SessionId, StoreError};

use super::core::{Core, check_size};
use super::request::Start;
use crate::definition::Definition;
use crate::error::EngineError;
use crate::quota::Counts;
use crate::run::Slot;
use crate::shared::Shared;
use crate::turn::Turn;
use crate::view::View;

impl Core {
    pub(super) async fn start(self: &Arc<Self>, start: Start) -> Result<View, EngineError> {
        if self.stopping.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let Some(definition) = self.flows.get(&start.flow) else {
            return Err(EngineError::UnknownFlow(start.flow));
        };
        check_size("parameters and context", self.limits.params, &(&start.params, &start.context))?;
        definition.check_given(&start.params)?;
        let (id, owner) = (new_id()?, start.owner.clone());
        let in_background = start.in_background;
        self.take_place(&owner).await?;
        let session = Session::start(self.started(start, definition));
        let shared = Shared::fresh(id, session, self.setting(Some(definition)));
        let slot = Slot::new(shared, Some(Arc::clone(definition)));
        let place = TakenPlace { counts: &self.counts, owner: &owner };
        let started = match self.live.insert(slot) {
            Some(slot) => self.begin(&slot, in_background).await,
            None => Err(EngineError::Busy),
        };
        std::mem::forget(place);
        started.inspect_err(|_| self.counts.give_back(&owner))
    }

    async fn begin(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        in_background: bool,
    ) -> Result<View, EngineError> {
        let turn = self.take_turn(slot).await;
        let begun = match in_background {
            false => self.begin_in(slot, &turn).await,
            true => self.begin_later(slot, &turn).await,
        };
        if begun.is_err() {
            slot.dead.store(true, Ordering::Release);
            self.live.remove(slot);
        } else {
            self.rested(slot);
        }
        begun
    }

    async fn begin_in(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        turn: &Turn<'_>,
    ) -> Result<View, EngineError> {
        slot.prepare()?;
        slot.shared.command(Command::Begin)?;
        slot.poll();
        // As long as nothing is durable, what was given wrongly can be refused as a whole.
        let wrong =
            slot.shared.lock().session.open.as_ref().and_then(|open| {
                open.violation.clone().map(|violation| (open.key.clone(), violation))
            });
        if let Some((key, violation)) = wrong {
            return Err(EngineError::InvalidParams { key, violation });
        }
        if self.commit(slot, turn).await? || slot.shared.is_busy() {
            self.advance(slot, turn).await?;
        }
        Ok(slot.view())
    }

    /// Makes the session durable, and has its flow begin by itself.
    async fn begin_later(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        turn: &Turn<'_>,
    ) -> Result<View, EngineError> {
        slot.prepare()?;
        self.commit(slot, turn).await?;
        let view = slot.view();
        let (core, id) = (Arc::clone(self), slot.id);
        self.tasks.spawn(async move {
            if let Err(error) = core.take_up(id).await {
                tracing::warn!(session = %id, %error, "a flow could not begin");
                core.stalled.add(id);
            }
        });
        Ok(view)
    }

    /// Takes one of the places an owner has for sessions.
    async fn take_place(&self, owner: &Owner) -> Result<(), EngineError> {
        let most = self.limits.sessions_per_owner;
        if !self.counts.known(owner) {
            let filter = Filter { owner: Some(owner.clone()), phase: Phase::Live };
            let page = Page { after: None, most };
            let count = self.store.list(filter, page).await?.len();
            self.counts.learn(owner, count);
        }
        if self.counts.take(owner, most) {
            Ok(())
        } else {
            Err(EngineError::TooManySessions { most })
        }
    }

    fn started(&self, start: Start, definition: &Definition) -> Started {
        let limits = &self.limits;
        let at = self.clock.now();
        let (patient, waits) = (definition.is_patient(), definition.wait());
        // Only what a client asks for is cut; the rest is what the flow and the server say.
        let longest = limits.longest_inactivity.max(waits.unwrap_or_default());
        let asked = start.inactivity.map(|duration| duration.min(longest));
        let usual = start.default_inactivity.or(limits.inactivity).filter(|_| !patient);
        let inactivity = asked.or(waits).or(usual);
        let is_bounded = |limit: &Duration| !patient && waits.is_none_or(|waits| waits < *limit);
        let duration = limits.duration.filter(is_bounded);
        Started {
            flow: start.flow,
            owner: start.owner,
            params: start.params,
            context: start.context,
            inactivity: inactivity.map(millis),
            ends: duration.map(|duration| at.after(duration)),
            at,
        }
    }
}

/// A place that was taken for a session that is about to start. Dropped when whoever wanted it
/// went away meanwhile: then only the store knows whether there is a session.
struct TakenPlace<'a> {
    counts: &'a Counts,
    owner: &'a Owner,
}

impl Drop for TakenPlace<'_> {
    fn drop(&mut self) {
        self.counts.forget(self.owner);
    }
}

fn new_id() -> Result<SessionId, EngineError> {
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

    /// INT-070, INT-102: no id comes twice, and each of its 128 bits is as often set as not.
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
