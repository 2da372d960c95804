//! Bounds on the work of a session: its steps, and the bytes of the values it makes.

use std::future::poll_fn;
use std::mem::size_of;
use std::task::Poll;

use mcp_flow_engine::{FlowError, FlowResult};
use serde_json::Value;

/// Work that a session may still do.
#[derive(Debug)]
pub(super) struct Budget {
    steps: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: MAX_STEPS, bytes: MAX_BYTES }
    }
}

impl Budget {
    /// Counts a step or an iteration. Returns whether others should get a turn before it.
    pub(super) fn take_step(&mut self) -> FlowResult<bool> {
        self.steps = self.steps.checked_sub(1).ok_or_else(|| {
            let message = "loop over fewer items, or in several calls";
            FlowError::new(format!("a flow runs at most {MAX_STEPS} steps; {message}"))
        })?;
        Ok(self.steps.is_multiple_of(STEPS_PER_TURN))
    }

    /// Counts what `measure` takes from the bytes that are left, before it is made.
    pub(super) fn take_bytes(
        &mut self,
        measure: impl FnOnce(&mut usize) -> Option<()>,
    ) -> FlowResult<()> {
        measure(&mut self.bytes).ok_or_else(|| {
            let limit = MAX_BYTES / 1024 / 1024;
            FlowError::new(format!("the values of a flow have more than {limit} MiB; keep less"))
        })
    }
}

/// Takes the approximate bytes of a value from those that are left; `None` if it needs more.
pub(crate) fn measure(value: &Value, left: &mut usize) -> Option<()> {
    take(left, size_of::<Value>())?;
    match value {
        Value::String(text) => take(left, text.len()),
        Value::Array(items) => items.iter().try_for_each(|item| measure(item, left)),
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            take(left, name.len())?;
            measure(member, left)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
    }
}

/// Takes bytes from those that are left.
pub(crate) fn take(left: &mut usize, bytes: usize) -> Option<()> {
    *left = left.checked_sub(bytes)?;
    Some(())
}

/// Lets others run before the flow goes on.
pub(super) async fn yield_turn() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Limit on the steps and iterations of a flow.
const MAX_STEPS: usize = 100_000;

/// Limit on the bytes of all values that a flow makes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Steps after which others get a turn.
const STEPS_PER_TURN: usize = 100;
