//! What a call knows of its rounds (2026-07-28).

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_flow_proto::RpcError;

use super::Context;
use crate::input::Round;

impl Context {
    /// Lets the call ask for input, as one that has been asked before goes on.
    pub(crate) fn allow_input(&self, resumed: Option<Round>) {
        if let Some(round) = resumed {
            // Nobody has asked before the handler is called.
            let _ = self.call.round.set(Box::new(Mutex::new(round)));
        }
        self.call.may_ask.store(true, Ordering::Release);
    }

    /// This round, if the call may ask for input.
    pub(crate) fn round(&self) -> Option<MutexGuard<'_, Round>> {
        self.call.may_ask.load(Ordering::Acquire).then(|| {
            let round = self.call.round.get_or_init(Box::default);
            round.lock().unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// This round, if there is anything to know about it.
    pub(crate) fn begun_round(&self) -> Option<MutexGuard<'_, Round>> {
        let round = self.call.round.get()?;
        Some(round.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has whoever asks return at once instead of waiting to be dropped.
    pub(crate) fn do_not_wait_for_input(&self) {
        if let Some(mut round) = self.round() {
            round.never_waits = true;
        }
    }

    /// The error of a call that failed for what its client cannot do.
    pub(crate) fn missing_capability(&self) -> Option<RpcError> {
        self.begun_round().and_then(|round| round.missing_capability())
    }
}
