//! Signals of a flow: awaited, replayed, taken and dropped.

use std::task::{Context, Poll};

use mcp_flow_session::Command;
use mcp_flow_session::replay::{RecordedSignalWait, signal_of};
use serde_json::Value;

use super::{Execution, Operation};

/// Checks whether a value fits the type that a flow waits for. The error says why not.
pub(crate) type Fits = fn(&Value) -> Result<(), String>;

impl Execution {
    /// Polls a wait of the flow for a signal. It gets its number when it begins, and the first signal
    /// of its name that fits; others are kept, for later versions of the flow.
    pub(crate) fn poll_signal(
        &self,
        key: &str,
        number: &mut Option<u32>,
        fits: Fits,
        context: &mut Context<'_>,
    ) -> Poll<Value> {
        let now = self.clock.now();
        let mut state = self.lock();
        let state = &mut *state;
        if state.session.ended.is_some() {
            return Poll::Pending;
        }
        if number.is_none() {
            let begun = match state.replay.signal_wait(key) {
                RecordedSignalWait::Awaited(recorded) => {
                    state.replayed();
                    Some(recorded)
                }
                RecordedSignalWait::NotYet => {
                    state.wait_for_turn(Operation::Signal, signal_of(key));
                    None
                }
                RecordedSignalWait::New => {
                    let wait = state.session.signal_waits_made;
                    let command = Command::AwaitSignal { key: key.to_owned() };
                    if let Ok(event) = state.session.decide(command, now, &self.limits.bounds) {
                        state.push(event);
                    }
                    Some(wait)
                }
            };
            if let Some(begun) = begun {
                *number = Some(begun);
                state.asked_now.push((Operation::Signal, begun));
                state.awaited.insert(begun, fits);
            }
        }
        if let Some(wait) = *number {
            let kept = state.session.signals.iter();
            let mut fitting = kept.filter(|kept| kept.key == key && fits(&kept.value).is_ok());
            let arrived = fitting.next().map(|kept| (kept.number, kept.value.clone()));
            let arrived = arrived.filter(|_| state.replay.is_over());
            if arrived.is_some() || state.replay.has_signal(wait) {
                let is_new = state.asked_now.contains(&(Operation::Signal, wait));
                if !state.may_deliver(is_new, context) {
                    return Poll::Pending;
                }
                let recorded = state.replay.signal(wait);
                let value = recorded.or_else(|| {
                    let (signal, value) = arrived?;
                    let command = Command::TakeSignal { wait, signal };
                    let event = state.session.decide(command, now, &self.limits.bounds).ok()?;
                    state.push(event);
                    Some(value)
                });
                if let Some(value) = value.filter(|_| state.session.ended.is_none()) {
                    state.awaited.remove(&wait);
                    state.has_delivered = true;
                    state.replayed();
                    return Poll::Ready(value);
                }
            }
        }
        state.register(context);
        Poll::Pending
    }

    /// Drops a wait for a signal that the flow has given up.
    pub(crate) fn drop_signal_wait(&self, key: &str, number: Option<u32>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if !state.is_dropping() {
            return;
        }
        let Some(wait) = number else {
            return state.leave_turn(Operation::Signal, key);
        };
        state.awaited.remove(&wait);
        if !state.replay.drop_signal_wait(wait) {
            let command = Command::DropSignalWait { wait };
            if let Ok(event) = state.session.decide(command, now, &self.limits.bounds) {
                state.push(event);
            }
        }
        state.replayed();
    }

    /// Checks a signal against the types that the flow waits for. One that nobody waits for is kept,
    /// so it may be of any type.
    pub(crate) fn check_signal(&self, key: &str, value: &Value) -> Result<(), String> {
        let state = self.lock();
        let waits = state.session.signal_waits.iter().filter(|wait| wait.key == key);
        let mut mismatch = Ok(());
        for fits in waits.filter_map(|wait| state.awaited.get(&wait.number)) {
            mismatch = fits(value);
            if mismatch.is_ok() {
                break;
            }
        }
        mismatch
    }
}
