//! Permits: a bound on the calls of a connection that run at once.
//!
//! A call holds its permit until its work is really over, which for a blocking function may be
//! long after it was cancelled. While it waits for the client it lends the permit to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::call::Call;
use crate::limits::Limits;
use crate::load::{Load, Tally};

/// The permits of a connection that are in use, and the bytes of the requests that use them.
#[derive(Debug)]
pub(super) struct Permits {
    used: AtomicUsize,
    /// Bytes of the requests whose calls run as tasks.
    bytes: Tally,
}

impl Permits {
    pub(super) fn new(load: &Load) -> Self {
        Self { used: AtomicUsize::new(0), bytes: Tally::new(load) }
    }

    /// Returns whether no further call may run.
    pub(super) fn are_exhausted(&self, limits: &Limits) -> bool {
        self.used.load(Ordering::Acquire) >= limits.concurrency
            || self.bytes.bytes() >= limits.running_bytes
    }

    fn acquire(&self) {
        self.used.fetch_add(1, Ordering::AcqRel);
    }

    fn release(&self) {
        self.used.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The permit of one call.
#[derive(Debug, Default)]
pub(super) struct CallPermit(Mutex<PermitState>);

#[derive(Debug, Default)]
struct PermitState {
    held: bool,
    /// The number of requests to the client that lend it to others.
    lent: usize,
}

/// A permit held by a running call; released when dropped.
pub(super) struct Permit {
    call: Arc<Call>,
    bytes: usize,
    /// Set if the driver need not be woken.
    quietly: bool,
}

impl Permit {
    pub(super) fn acquire(call: &Arc<Call>) -> Self {
        call.permit.0.lock().held = true;
        call.connection.permits.acquire();
        Self { call: call.clone(), bytes: 0, quietly: false }
    }

    /// Counts the request's bytes for as long as the call runs as a task.
    pub(super) fn count_bytes(&mut self) {
        self.bytes = self.call.size;
        self.call.connection.permits.bytes.add(self.bytes);
    }

    /// Releases the permit without waking the driver.
    pub(super) fn release_quietly(mut self) {
        self.quietly = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let connection = &self.call.connection;
        connection.permits.bytes.remove(self.bytes);
        let mut state = self.call.permit.0.lock();
        state.held = false;
        let is_lent = state.lent > 0 && !connection.is_sequential();
        drop(state);
        if !is_lent {
            connection.permits.release();
        }
        if !self.quietly {
            connection.output.wake();
        }
    }
}

/// Lends the permit of a call that waits for the client, unless calls must not overtake each
/// other; takes it back when dropped.
pub(super) struct LentPermit<'a>(&'a Call);

impl<'a> LentPermit<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        let mut state = call.permit.0.lock();
        state.lent += 1;
        if state.held && state.lent == 1 && !call.connection.is_sequential() {
            call.connection.permits.release();
            call.connection.output.wake();
        }
        Self(call)
    }
}

impl Drop for LentPermit<'_> {
    fn drop(&mut self) {
        let Call { permit, connection, .. } = self.0;
        let mut state = permit.0.lock();
        state.lent -= 1;
        if state.held && state.lent == 0 && !connection.is_sequential() {
            connection.permits.acquire();
        }
    }
}
