//! Closing of a session: its flow is replaced by the compensations of its steps.

use std::time::Duration;

use mcp_flow_session::Command;

use super::Execution;
use crate::flow::StepCompensation;

impl Execution {
    /// Keeps the compensation of a step that has succeeded.
    pub(crate) fn add_compensation(&self, compensation: StepCompensation) {
        self.lock().compensations.push(compensation);
    }

    /// Returns whether the session begins to close where its flow is now.
    pub(crate) fn is_at_closing(&self) -> bool {
        self.lock().replay.is_closing()
    }

    /// Begins to close the session, if the flow can go no further than to there. Returns the
    /// compensations that run instead of the flow.
    pub(crate) fn begin_closing(&self) -> Option<Vec<StepCompensation>> {
        let mut state = self.lock();
        state.replay.close().then(|| {
            state.out_of_turn.clear();
            std::mem::take(&mut state.compensations)
        })
    }

    /// Returns whether the session ends once its compensations have run.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().session.closing.is_some()
    }

    /// Ends a session whose compensations have run. Returns whether it was closing.
    pub(crate) fn close(&self) -> bool {
        self.command(Command::Close).is_ok()
    }

    /// Returns the time that an operation of the flow may take.
    pub(crate) fn operation_limit(&self) -> Duration {
        let state = self.lock();
        let limit = state.definition.as_ref().and_then(|definition| definition.operation());
        limit.unwrap_or(self.limits.operation)
    }
}
