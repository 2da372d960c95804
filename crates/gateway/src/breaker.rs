//! Circuit breaker of an upstream.

use std::time::{Duration, Instant};

use mcp_flow_client::{Error, sanitize};
use mcp_flow_proto::RpcError;
use parking_lot::Mutex;

use crate::error;
use crate::settings::UpstreamSettings;

/// Circuit breaker: after three failed starts in a row, further ones wait.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    pub(crate) state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
pub(crate) struct BreakerState {
    pub(crate) failures: u32,
    pub(crate) last: Option<(Instant, Reason)>,
}

/// Reason of a failed start.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    /// For callers: without the target, whose arguments may be secrets, and the output of the upstream.
    pub(crate) shown: String,
    /// For operators.
    pub(crate) full: String,
}

impl Breaker {
    /// Fails if no attempt may be made now, or if one failed since the caller asked.
    pub(crate) fn check(&self, server: &str, asked: Instant) -> Result<(), RpcError> {
        let state = self.state.lock();
        let Some((failed, reason)) = &state.last else { return Ok(()) };
        if *failed >= asked {
            return Err(error::unavailable(server, &reason.shown, None));
        }
        if state.failures < MAX_FAILURES {
            return Ok(());
        }
        let delay = backoff(state.failures + 1 - MAX_FAILURES);
        match delay.checked_sub(failed.elapsed()) {
            Some(rest) if !rest.is_zero() => {
                let (failures, last) = (state.failures, &reason.shown);
                let what = format!("it failed to start {failures} times, last: {last}");
                Err(error::unavailable(server, &what, Some(rest)))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn succeeded(&self) {
        *self.state.lock() = BreakerState::default();
    }

    /// Records a failed attempt, and returns it as the caller's error.
    pub(crate) fn failed(&self, settings: &UpstreamSettings, failure: &Error) -> RpcError {
        let shown = error::reason(settings, failure);
        let full = sanitize::shorten(&failure.to_string(), 1000);
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        let failed = error::unavailable(&settings.name, &shown, None);
        state.last = Some((Instant::now(), Reason { shown, full }));
        failed
    }
}

/// Delay after this many failures, from one: 1 s, doubled up to 60 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    let doubled =
        Duration::from_secs(1).saturating_mul(2_u32.saturating_pow((failures - 1).min(6)));
    doubled.min(Duration::from_secs(60))
}

/// Failed starts in a row before the breaker opens.
pub(crate) const MAX_FAILURES: u32 = 3;
