//! Steps of a flow, drawn values and data: replayed, run and recorded.

use std::task::{Context, Poll};

use mcp_flow_session::Command;
use mcp_flow_session::event::StepOutcome;
use serde_json::Value;

use super::Execution;
use crate::membership::HeldLease;

impl Execution {
    /// Polls for the end of the replay: until then a step without a recorded outcome may belong to
    /// a branch of the flow that lost a race.
    pub(crate) fn poll_replayed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.is_released || !state.replay.is_behind() {
            return Poll::Ready(());
        }
        state.held = true;
        state.register(context);
        Poll::Pending
    }

    /// Polls for everything so far to be durable.
    pub(crate) fn poll_flushed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let is_durable = state.pending.is_empty() && state.session.ended.is_none();
        if is_durable && self.lease.as_ref().is_none_or(HeldLease::is_valid) {
            return Poll::Ready(());
        }
        state.flush = true;
        state.register(context);
        Poll::Pending
    }

    /// Returns the recorded outcome of the next step of this key, or else its number, counted from
    /// 1.
    pub(crate) fn recorded_step(&self, key: &str) -> Result<StepOutcome, u32> {
        let mut state = self.lock();
        let number = state.occurrences.entry_ref(key).or_insert(0);
        *number += 1;
        let number = *number;
        state.replay.step(key).ok_or(number)
    }

    /// Records that this node is about to begin a step, if several nodes share the store.
    pub(crate) fn begin_step(&self, key: &str, number: u32) {
        if let Some(lease) = &self.lease {
            let (key, epoch) = (key.to_owned(), lease.epoch);
            let _ = self.command(Command::BeginStep { key, number, epoch });
        }
    }

    /// Records the outcome of a step or a drawn value. Returns whether the session is still live.
    pub(crate) fn record_step(&self, key: &str, outcome: StepOutcome) -> bool {
        let _ = self.command(Command::Record { key: key.to_owned(), outcome });
        self.lock().session.ended.is_none()
    }

    /// Sets an entry of the session's data, unless the journal being replayed has it.
    pub(crate) fn set_data(&self, key: &str, value: Value) {
        if self.lock().replay.noted(key) {
            return;
        }
        let _ = self.command(Command::Set { key: key.to_owned(), value });
    }

    pub(crate) fn step_begins(&self, key: &str) {
        self.lock().running_steps.push(key.to_owned());
    }

    pub(crate) fn step_ends(&self, key: &str) {
        let mut state = self.lock();
        if let Some(index) = state.running_steps.iter().position(|step| step == key) {
            state.running_steps.swap_remove(index);
        }
    }
}
