//! Changes of an execution's state: events applied, divergences noted, branches of the flow woken.

use std::task::Context;
use std::time::Duration;

use mcp_flow_session::event::{Ending, FaultName, FlowFault, JournalEvent};
use mcp_flow_session::session::AnsweredTurn;
use mcp_flow_session::{Command, Timestamp};
use serde_json::Value;

use super::{ExecutionState, Operation, OutOfTurn};
use crate::digest;
use crate::limits::SessionLimits;

impl ExecutionState {
    /// Applies a decided event and queues it for the journal.
    pub(super) fn push(&mut self, mut event: JournalEvent) {
        let is_settled = matches!(
            event,
            JournalEvent::Unstuck { .. }
                | JournalEvent::LinkRevoked { .. }
                | JournalEvent::Ended(_)
        );
        if self.session.stuck.is_some() && !is_settled {
            // Dropped again, with the event, if the flow still diverges.
            self.push(JournalEvent::Unstuck { at: event.at() });
        }
        if let JournalEvent::Ended(ended) = &mut event {
            if let Some(AnsweredTurn { asked, answered, .. }) = self.session.history.last() {
                ended.last_answer = Some(digest::of_answer(self.id, &answered.value));
                let by_default = asked.prompt.check(&Value::Null);
                ended.last_by_default = by_default.is_ok_and(|value| value == answered.value);
            }
            let is_result = matches!(ended.ending, Ending::Completed { .. });
            if let Some(definition) = &self.definition {
                if let Some(duration) = definition.retention_of(&ended.ending) {
                    ended.until = ended.at.after(duration);
                }
                // A result has the data in it.
                if definition.keeps_data() && !is_result {
                    ended.kept.clone_from(&self.session.data);
                }
            }
            if let Some(retention) = self.session.started.retention {
                ended.until = ended.until.max(ended.at.after(Duration::from_millis(retention)));
            }
        }
        // A decided event can be applied. If it could not, that would be a bug, and the journal,
        // which is validated when read, must not contain it.
        if self.session.apply(event.clone()).is_ok() {
            self.replay.record(&event);
            let is_arrival = matches!(
                event,
                JournalEvent::Answered(_)
                    | JournalEvent::TimerFired { .. }
                    | JournalEvent::Signalled { .. }
            );
            if is_arrival {
                self.wake();
            }
            self.pending.push(event);
        }
    }

    /// Returns whether the flow itself drops a future: a slot that is evicted and a flow that has
    /// ended drop theirs, too.
    pub(super) fn is_dropping(&self) -> bool {
        self.polled && self.session.ended.is_none() && !std::thread::panicking()
    }

    /// Notes that the flow asks for something else than the journal has next, or ends.
    pub(super) fn diverge(&mut self, wanted: Option<&(String, String)>) {
        self.diverged.get_or_insert_with(|| self.replay.divergence(wanted));
    }

    /// Wakes the branches of the flow that wait for their turn.
    pub(super) fn replayed(&mut self) {
        self.replayed = true;
        self.out_of_turn.clear();
        self.wake();
    }

    /// Returns whether the flow may get something now, that it asked for in an earlier poll.
    ///
    /// It gets one thing per poll, in the first run and in a replay: then all branches have gone as
    /// far in both when one of them goes on, and count their steps alike. The branch is woken to try
    /// again.
    pub(super) fn may_deliver(&mut self, is_new: bool, context: &Context<'_>) -> bool {
        if is_new || self.has_delivered {
            self.register(context);
            self.replayed = true;
            self.wake();
            return false;
        }
        true
    }

    /// Notes that the flow asks for something while the journal has something else next.
    pub(super) fn wait_for_turn(&mut self, kind: Operation, wanted: (String, String)) {
        let is_same = |waiting: &OutOfTurn| waiting.kind == kind && waiting.wanted.0 == wanted.0;
        if !self.out_of_turn.iter().any(is_same) {
            self.out_of_turn.push(OutOfTurn { kind, wanted });
        }
    }

    /// Forgets something that the flow dropped before its turn. If another branch waits for the
    /// same, that notes it again.
    pub(super) fn leave_turn(&mut self, kind: Operation, key: &str) {
        self.out_of_turn.retain(|waiting| waiting.kind != kind || waiting.wanted.0 != key);
    }

    pub(super) fn has_out_of_turn(&self, kind: Operation) -> bool {
        self.out_of_turn.iter().any(|waiting| waiting.kind == kind)
    }

    pub(super) fn fail(
        &mut self,
        reason: String,
        name: FaultName,
        key: &str,
        now: Timestamp,
        limits: &SessionLimits,
    ) {
        let mut fault = FlowFault::new(name, reason);
        if !key.is_empty() {
            fault = fault.at(key);
        }
        let command = Command::End(Ending::Failed(fault));
        if let Ok(event) = self.session.decide(command, now, &limits.bounds) {
            self.push(event);
        }
    }

    pub(super) fn register(&mut self, context: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.wakers.push(context.waker().clone());
        }
    }

    pub(super) fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}
