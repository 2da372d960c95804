//! The rounds of one request, as its call knows them (2026-07-28).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow_proto::RpcError;
use parking_lot::{Mutex, MutexGuard};

use super::Round;

/// The present round of a call, if it takes rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Set if the request may be answered with a request for input.
    may_ask: AtomicBool,
    /// Created when first needed.
    round: OnceLock<Box<Mutex<Round>>>,
}

impl Rounds {
    /// Allows the call to ask for input, in the round resumed from a sealed state, if any.
    pub(super) fn allow(&self, resumed: Option<Round>) {
        if let Some(round) = resumed {
            // Nothing is asked before the handler is called.
            let _ = self.round.set(Box::new(Mutex::new(round)));
        }
        self.may_ask.store(true, Ordering::Release);
    }

    /// The present round, if the call may ask for input.
    pub(crate) fn current(&self) -> Option<MutexGuard<'_, Round>> {
        let may_ask = self.may_ask.load(Ordering::Acquire);
        may_ask.then(|| self.round.get_or_init(Box::default).lock())
    }

    /// The present round, if it has any state.
    pub(crate) fn begun(&self) -> Option<MutexGuard<'_, Round>> {
        self.round.get().map(|round| round.lock())
    }

    /// Makes questions return at once, for a handler that cannot be left pending.
    pub(super) fn never_wait(&self) {
        if let Some(mut round) = self.current() {
            round.never_waits = true;
        }
    }

    /// The error of a call that failed for lack of a client capability.
    pub(crate) fn missing_capability(&self) -> Option<RpcError> {
        self.begun().and_then(|round| round.missing_capability())
    }
}
