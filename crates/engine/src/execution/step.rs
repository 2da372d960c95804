//! Steps of a flow, drawn values and data: replayed, run and recorded.

use std::task::{Context, Poll};
use std::time::Duration;

use mcp_flow_session::Command;
use mcp_flow_session::event::{StepFailure, StepOutcome};
use mcp_flow_session::replay::{RecordedStep, StepRecord, step_of};
use serde_json::Value;

use super::{Execution, Operation};
use crate::membership::HeldLease;

impl Execution {
    /// Returns the number of times that the flow was polled.
    pub(crate) fn pass(&self) -> u64 {
        self.lock().pass
    }

    /// Counts one more step of this key. Returns its number, counted from 1.
    pub(crate) fn count_step(&self, key: &str) -> u32 {
        let mut state = self.lock();
        let number = state.occurrences.entry_ref(key).or_insert(0);
        *number += 1;
        *number
    }

    /// Polls for the turn of a step: returns its recorded outcome, or none if the journal ends
    /// before it.
    ///
    /// A step that has run waits for its turn, too, before it is recorded: a branch of the flow that
    /// gets an answer meanwhile may end a race, and must do so in each replay.
    pub(crate) fn poll_step(
        &self,
        key: &str,
        number: u32,
        since: u64,
        is_done: bool,
        context: &mut Context<'_>,
    ) -> Poll<Option<StepRecord>> {
        let mut state = self.lock();
        let is_new = state.pass == since;
        let is_delivery = is_done || state.replay.has_step(key, number);
        if is_delivery && !state.may_deliver(is_new, context) {
            return Poll::Pending;
        }
        match state.replay.step(key, number) {
            RecordedStep::Recorded(record) => {
                state.has_delivered = true;
                state.replayed();
                Poll::Ready(Some(record))
            }
            // While the engine drains, no step begins.
            RecordedStep::New if !is_done && (self.is_check || self.draining.is_cancelled()) => {
                Poll::Pending
            }
            RecordedStep::New => {
                if is_done {
                    state.has_delivered = true;
                    state.replayed();
                }
                Poll::Ready(None)
            }
            RecordedStep::NotYet => {
                state.wait_for_turn(Operation::Step, step_of(key));
                state.register(context);
                Poll::Pending
            }
        }
    }

    /// Forgets a step that the flow dropped before its turn.
    pub(crate) fn drop_step(&self, key: &str) {
        self.lock().leave_turn(Operation::Step, key);
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

    /// Returns the next recorded value that was drawn under this key.
    pub(crate) fn recorded_draw(&self, key: &str) -> Option<StepOutcome> {
        self.lock().replay.drawn(key)
    }

    /// Records that this node is about to begin a step, if several nodes share the store.
    pub(crate) fn begin_step(&self, key: &str, number: u32) {
        if let Some(lease) = &self.lease {
            let (key, epoch) = (key.to_owned(), lease.epoch);
            let _ = self.command(Command::BeginStep { key, number, epoch });
        }
    }

    /// Records a drawn value.
    pub(crate) fn record_drawn(&self, key: &str, outcome: StepOutcome) {
        let (key, number) = (key.to_owned(), None);
        let (is_lookup, is_compensable) = (false, false);
        let _ = self.command(Command::Record { key, number, outcome, is_lookup, is_compensable });
    }

    /// Records the outcome of a step, and whether it has no side effects or a compensation. Returns
    /// whether the flow goes on: if not, the session is too large.
    pub(crate) fn record_step(
        &self,
        key: &str,
        number: u32,
        outcome: StepOutcome,
        is_lookup: bool,
        is_compensable: bool,
    ) -> bool {
        let (key, number) = (key.to_owned(), Some(number));
        let is_compensable = is_compensable && matches!(outcome, StepOutcome::Ok(_));
        let _ = self.command(Command::Record { key, number, outcome, is_lookup, is_compensable });
        let (now, bounds) = (self.clock.now(), &self.limits.bounds);
        let mut state = self.lock();
        // One that can be compensated was recorded in any case.
        if is_compensable && let Some(end) = state.session.overflow(0, now, bounds) {
            state.push(end);
        }
        state.session.ended.is_none() && !state.replay.has_closing()
    }

    /// Records a failed attempt at a step.
    pub(crate) fn record_failure(
        &self,
        key: &str,
        number: u32,
        attempt: u32,
        failure: StepFailure,
    ) {
        let key = key.to_owned();
        let _ = self.command(Command::RecordFailure { key, number, attempt, failure });
    }

    /// Sets an entry of the session's data, unless the journal being replayed has it.
    pub(crate) fn set_data(&self, key: &str, value: Value) {
        if self.lock().replay.noted(key) {
            return;
        }
        let _ = self.command(Command::Set { key: key.to_owned(), value });
    }

    /// Sets a label of the session, unless the journal being replayed has it. Returns whether there
    /// is room for it.
    pub(crate) fn set_label(&self, key: &str, value: String) -> bool {
        let mut state = self.lock();
        if state.replay.labelled(key) {
            return true;
        }
        let labels = &state.session.labels;
        if labels.len() >= MAX_LABELS && !labels.contains_key(key) {
            return false;
        }
        drop(state);
        let _ = self.command(Command::Label { key: key.to_owned(), value });
        true
    }

    pub(crate) fn step_begins(&self, key: &str, limit: Option<Duration>) {
        self.lock().running_steps.push((key.to_owned(), limit));
    }

    pub(crate) fn step_ends(&self, key: &str) {
        let mut state = self.lock();
        if let Some(index) = state.running_steps.iter().position(|(step, _)| step == key) {
            state.running_steps.swap_remove(index);
        }
    }
}

/// Most labels of a session.
pub(crate) const MAX_LABELS: usize = 16;
