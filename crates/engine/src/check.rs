//! Checks of recorded histories against the code of this program.

use std::sync::Arc;

use mcp_flow_session::session::Damaged;
use mcp_flow_session::{Divergence, JournalEvent, Session, SessionId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::execution::{Execution, ExecutionContext};
use crate::notice::Hub;
use crate::slot::Slot;

/// Reason a history does not fit the code of this program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The events are not those of a session.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The flow asks for something else than the history has. Such a session would be stuck.
    #[error("event {}: {divergence}", divergence.index + 1)]
    Diverged {
        /// The difference.
        divergence: Box<Divergence>,
    },
    /// The flow waits for something outside of its session, with events left to replay.
    #[error("event {}: the flow waits for something that is no question, timer, signal or step", index + 1)]
    Waits {
        /// Index of the event, counted from 0.
        index: usize,
    },
    /// The flow cannot be run: this program does not have it, or rejects the parameters.
    #[error(transparent)]
    NotRun(#[from] EngineError),
}

impl Engine {
    /// Checks whether the code of this program can continue a recorded session, by a replay that
    /// begins no step and records nothing. Of a session that has ended only its end is left, which
    /// fits any code.
    pub fn check_history(&self, events: &[JournalEvent]) -> Result<(), HistoryError> {
        let Some(session) = Session::replay(events)? else { return Ok(()) };
        if session.ended.is_some() {
            return Ok(());
        }
        let definition = self.inner.flows.find(&session.started.flow, events);
        let context = ExecutionContext {
            hub: Arc::<Hub>::default(),
            is_check: true,
            ..self.execution_context(definition.as_ref(), None)
        };
        let execution = Execution::new(SessionId::from_random(0), events, session, context);
        let slot = Slot::new(execution, definition);
        slot.prepare()?;
        slot.poll();
        if let Some(divergence) = slot.execution.divergence() {
            return Err(HistoryError::Diverged { divergence: Box::new(divergence) });
        }
        match slot.execution.next_index() {
            Some(index) if !slot.has_ended() => Err(HistoryError::Waits { index }),
            _ => Ok(()),
        }
    }
}
