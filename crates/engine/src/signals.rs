//! Signals: events from outside, delivered to the flow of a session.

use std::sync::Arc;

use mcp_flow_session::store::{Append, Fence};
use mcp_flow_session::{Command, Owner, Session, SessionId, State, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{CONFLICT_ATTEMPTS, Engine, check_size, is_conflict};
use crate::error::EngineError;
use crate::slot::Slot;
use crate::turn::TurnGuard;
use crate::view::View;

/// A signal to a session.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Signal {
    pub(crate) name: String,
    pub(crate) value: Value,
    /// Number of the link by which it is sent.
    #[serde(default)]
    pub(crate) link: Option<u32>,
}

/// Reply to a signal that was accepted. It is in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalReply {
    /// Set if the flow does not wait for it yet: it is kept until then.
    pub is_kept: bool,
    /// Status of the session.
    pub view: View,
}

impl Engine {
    /// Sends a signal to a session: the flow gets it where it [waits](crate::Flow::wait_for) for one
    /// of this name, or else it is kept until then.
    ///
    /// Fails if the value is not of the type that the flow waits for
    /// ([`EngineError::BadSignal`]), if it has more than 256 KiB, or if the session keeps 100 signals
    /// already ([`EngineError::TooManySignals`]). A session that is stuck keeps the signal until it
    /// goes on.
    ///
    /// Signals have no identity: one that is sent again, as after a timeout, is another signal.
    pub async fn signal(
        &self,
        id: SessionId,
        owner: &Owner,
        name: impl Into<String>,
        value: Value,
    ) -> Result<SignalReply, EngineError> {
        self.send_signal(id, owner, &Signal { name: name.into(), value, link: None }).await
    }

    /// Sends a signal, decided again after a conflict.
    pub(crate) async fn send_signal(
        &self,
        id: SessionId,
        owner: &Owner,
        signal: &Signal,
    ) -> Result<SignalReply, EngineError> {
        let mut signalled = self.signal_anywhere(id, owner, signal).await;
        for _ in 1..CONFLICT_ATTEMPTS {
            if !is_conflict(&signalled) {
                break;
            }
            signalled = self.signal_anywhere(id, owner, signal).await;
        }
        signalled
    }

    /// Has this node or another one deliver a signal.
    async fn signal_anywhere(
        &self,
        id: SessionId,
        owner: &Owner,
        signal: &Signal,
    ) -> Result<SignalReply, EngineError> {
        let signalled = self.try_signal(id, owner, signal).await;
        match signalled {
            Err(EngineError::Stuck(_)) => self.signal_stuck(id, owner, signal).await,
            Err(EngineError::UnknownFlow(_)) => {
                let forwarded = self.forward_signal_to_any(id, owner, signal).await;
                forwarded.unwrap_or(signalled)
            }
            Err(EngineError::Store(StoreError::Conflict(_))) => {
                let Some(holder) = self.other_holder(id).await? else { return signalled };
                match self.forward_signal(holder, id, owner, signal).await {
                    // Meanwhile the session may have been released.
                    Err(EngineError::Busy) => signalled,
                    forwarded => forwarded,
                }
            }
            signalled => signalled,
        }
    }

    /// Runs one turn with a signal. Fails with a conflict if another writer came first.
    pub(crate) async fn try_signal(
        &self,
        id: SessionId,
        owner: &Owner,
        signal: &Signal,
    ) -> Result<SignalReply, EngineError> {
        self.check_open()?;
        check_signal(signal)?;
        let slot = self.owned_slot(id, owner).await?;
        self.take_rate(id)?;
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Err(StoreError::Conflict(id).into());
        }
        let signalled = self.signal_in_turn(&slot, &turn, signal).await;
        // A rejection may not come from outdated memory.
        if signalled.is_err() && !slot.is_stale() {
            self.check_current(&slot).await?;
        }
        drop(turn);
        self.release_slot(&slot);
        signalled
    }

    async fn signal_in_turn(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
        signal: &Signal,
    ) -> Result<SignalReply, EngineError> {
        self.expire(slot, turn).await?;
        if slot.prepare()? && slot.session_state() != State::Idle {
            self.advance(slot, turn).await?;
        }
        let Signal { name, value, link } = signal.clone();
        if let Err(reason) = slot.execution.check_signal(&name, &value) {
            return Err(EngineError::BadSignal { name, reason });
        }
        let number = slot.execution.lock().session.signals_received;
        slot.execution.command(Command::Signal { key: name, value, link })?;
        self.advance(slot, turn).await?;
        let session = slot.session();
        let is_kept = session.signals.iter().any(|kept| kept.number == number);
        Ok(SignalReply { is_kept, view: slot.view() })
    }

    /// Keeps a signal in a session that is stuck. Its flow gets it when it goes on.
    async fn signal_stuck(
        &self,
        id: SessionId,
        owner: &Owner,
        signal: &Signal,
    ) -> Result<SignalReply, EngineError> {
        let slot = self.owned_slot(id, owner).await?;
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Err(StoreError::Conflict(id).into());
        }
        let events = self.inner.store.read(id).await?;
        let Ok(Some(mut session)) = Session::replay(&events) else {
            return Err(StoreError::Damaged(id).into());
        };
        if session.stuck.is_none() {
            return Err(StoreError::Conflict(id).into());
        }
        let Signal { name, value, link } = signal.clone();
        let command = Command::Signal { key: name, value, link };
        let event = session.decide(command, self.now(), &self.inner.limits.bounds)?;
        session.apply(event.clone()).map_err(|_| StoreError::Damaged(id))?;
        let append = Append {
            id,
            length: events.len(),
            events: vec![event],
            summary: session.summary(),
            replace: false,
            fence: Fence { by: slot.execution.epoch(), holder: None, steal: false },
        };
        let written = self.inner.store.append(append).await;
        self.invalidate(&slot);
        drop(turn);
        written?;
        self.inner.hub.publish_turn(id, &session, Vec::new());
        Ok(SignalReply { is_kept: true, view: View::of(id, &session, None) })
    }
}

fn check_signal(signal: &Signal) -> Result<(), EngineError> {
    let is_name =
        (1..=NAME_BYTES).contains(&signal.name.len()) && !signal.name.chars().any(char::is_control);
    if !is_name {
        let name = signal.name.chars().filter(|character| !character.is_control());
        let reason = format!("a name has 1 to {NAME_BYTES} bytes and no control characters");
        return Err(EngineError::BadSignal { name: name.take(NAME_BYTES).collect(), reason });
    }
    check_size("a signal", SIGNAL_BYTES, &signal.value)
}

const NAME_BYTES: usize = 200;

/// Most bytes of the value of a signal.
const SIGNAL_BYTES: usize = 256 * 1024;
