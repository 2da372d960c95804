//! Timers of a flow: set, replayed, fired and dropped.

use std::task::{Context, Poll};

use mcp_flow_session::replay::{RecordedTimer, timer_of};
use mcp_flow_session::{Command, Timestamp};

use super::{Execution, Operation};

impl Execution {
    /// Polls a timer of the flow. It gets its number when it is set; `until` returns the time at
    /// which it fires if it is set now.
    pub(crate) fn poll_timer(
        &self,
        key: &str,
        number: &mut Option<u32>,
        until: impl FnOnce(Timestamp) -> Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let now = self.clock.now();
        let mut state = self.lock();
        let state = &mut *state;
        if state.session.ended.is_some() {
            return Poll::Pending;
        }
        if number.is_none() {
            match state.replay.timer(key) {
                RecordedTimer::Set(recorded) => {
                    *number = Some(recorded);
                    state.asked_now.push((Operation::Timer, recorded));
                    state.replayed();
                }
                RecordedTimer::NotYet => {
                    state.wait_for_turn(Operation::Timer, timer_of(key));
                }
                RecordedTimer::New => {
                    let now = now.max(state.session.touched);
                    let until = until(now);
                    let timer = state.session.timers_set;
                    let commands = [
                        Some(Command::SetTimer { key: key.to_owned(), until }),
                        (until <= now).then_some(Command::FireTimer { timer }),
                    ];
                    for command in commands.into_iter().flatten() {
                        if let Ok(event) = state.session.decide(command, now, &self.limits.bounds) {
                            state.push(event);
                        }
                    }
                    *number = Some(timer);
                    state.asked_now.push((Operation::Timer, timer));
                }
            }
        }
        if let Some(number) = *number
            && state.replay.has_fired(number)
        {
            let is_new = state.asked_now.contains(&(Operation::Timer, number));
            if !state.may_deliver(is_new, context) {
                return Poll::Pending;
            }
            if state.replay.fired(number) {
                state.has_delivered = true;
                state.replayed();
                return Poll::Ready(());
            }
        }
        state.register(context);
        Poll::Pending
    }

    /// Drops a timer that the flow no longer waits for.
    pub(crate) fn drop_timer(&self, key: &str, number: Option<u32>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if !state.is_dropping() {
            return;
        }
        let Some(timer) = number else {
            return state.leave_turn(Operation::Timer, key);
        };
        if !state.replay.drop_timer(timer) {
            let command = Command::DropTimer { timer };
            if let Ok(event) = state.session.decide(command, now, &self.limits.bounds) {
                state.push(event);
            }
        }
        state.replayed();
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_timers(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        while let Some(timer) = state.session.due_timer(now) {
            let command = Command::FireTimer { timer };
            let Ok(event) = state.session.decide(command, now, &self.limits.bounds) else { break };
            state.push(event);
        }
    }
}
