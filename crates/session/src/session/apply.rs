//! Application of events: the state transitions of the protocol (INT-062 to INT-069, C-42).

use serde_json::Map;

use super::{AnsweredTurn, Session, State, size};
use crate::Timestamp;
use crate::event::{Ending, JournalEvent, Limit, SessionEnded, SessionStarted};

/// A journal whose events do not follow from each other. Reading it again will not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {index} does not follow from those before it")]
pub struct Damaged {
    /// Index of the event.
    pub index: usize,
}

impl Session {
    /// Folds a journal into a session. An empty journal is no session.
    pub fn replay(events: &[JournalEvent]) -> Result<Option<Self>, Damaged> {
        let Some((first, rest)) = events.split_first() else { return Ok(None) };
        let mut session = match first {
            JournalEvent::Started(started) => Self::begin(started.clone(), size::of(first)),
            JournalEvent::Ended(ended) => Self::tombstone(ended.clone()),
            _ => return Err(Damaged { index: 0 }),
        };
        for event in rest {
            session.apply(event.clone())?;
        }
        Ok(Some(session))
    }

    /// Creates a session from its start.
    pub fn start(started: SessionStarted) -> Self {
        let event = JournalEvent::Started(started);
        let size = size::of(&event);
        let JournalEvent::Started(started) = event else { unreachable!("it was just made") };
        Self::begin(started, size)
    }

    fn begin(started: SessionStarted, size: usize) -> Self {
        Self {
            touched: started.at,
            started,
            state: State::Idle,
            history: Vec::new(),
            open: None,
            violation: None,
            wrong: Vec::new(),
            data: Map::new(),
            given: Vec::new(),
            prompts: 0,
            length: 1,
            size,
            ended: None,
        }
    }

    /// Creates an ended session from its tombstone.
    fn tombstone(ended: SessionEnded) -> Self {
        let started = SessionStarted {
            flow: ended.flow.clone(),
            owner: ended.owner.clone(),
            params: Map::new(),
            context: Map::new(),
            inactivity: None,
            ends: None,
            at: ended.created,
        };
        let mut session = Self::begin(started, 0);
        session.finish(ended);
        session
    }

    /// Applies an event, if the state allows it.
    pub fn apply(&mut self, event: JournalEvent) -> Result<(), Damaged> {
        let damaged = Damaged { index: self.length };
        if !self.permits(&event) {
            return Err(damaged);
        }
        self.length += 1;
        self.size = self.size.saturating_add(size::of(&event));
        self.touched = self.touched.max(event.at());
        match event {
            JournalEvent::Started(_) => return Err(damaged),
            JournalEvent::Began { .. } => self.state = State::Active,
            JournalEvent::Asked(asked) => {
                self.state = State::WaitingUser;
                self.prompts += 1;
                self.wrong.clear();
                self.violation = asked.violation.clone();
                self.open = Some(asked);
            }
            JournalEvent::Given { key, value, .. } => {
                self.prompts += 1;
                self.given.push(key.clone());
                self.data.insert(key, value);
            }
            JournalEvent::Answered(answered) => {
                let asked = self.open.take().ok_or(damaged)?;
                self.state = State::Processing;
                self.violation = None;
                self.data.insert(asked.key.clone(), answered.value.clone());
                self.history.push(AnsweredTurn { asked, answered });
            }
            JournalEvent::Rejected { violation, answer, .. } => {
                self.wrong.push(answer);
                self.violation = Some(violation);
            }
            JournalEvent::StepDone { .. } => {}
            JournalEvent::DataSet { key, value, .. } => {
                self.data.insert(key, value);
            }
            JournalEvent::Ended(ended) => self.finish(ended),
        }
        Ok(())
    }

    /// Returns whether the state allows an event.
    fn permits(&self, event: &JournalEvent) -> bool {
        let running = matches!(self.state, State::Active | State::Processing);
        let waiting = self.state == State::WaitingUser;
        match event {
            JournalEvent::Started(_) => false,
            JournalEvent::Began { .. } => self.state == State::Idle,
            JournalEvent::Asked(_) | JournalEvent::Given { .. } => running,
            // A branch of a flow may work while another waits for an answer.
            JournalEvent::StepDone { .. } | JournalEvent::DataSet { .. } => running || waiting,
            JournalEvent::Answered(_) | JournalEvent::Rejected { .. } => waiting,
            JournalEvent::Ended(SessionEnded { ending: Ending::Completed { .. }, .. }) => {
                running || waiting
            }
            JournalEvent::Ended(_) => !self.state.is_final(),
        }
    }

    /// Clears everything but the end and the data it retains (C-11).
    fn finish(&mut self, ended: SessionEnded) {
        self.state = ended.ending.state();
        self.touched = ended.last_activity.unwrap_or_else(|| self.touched.max(ended.at));
        self.history.clear();
        self.data.clone_from(&ended.kept);
        self.given.clear();
        self.started.params.clear();
        self.started.context.clear();
        self.open = None;
        self.violation = None;
        self.wrong.clear();
        self.ended = Some(ended);
    }
}

impl Ending {
    /// Returns the state of a session with this ending.
    pub const fn state(&self) -> State {
        match self {
            Self::Completed { .. } => State::Completed,
            Self::Cancelled { .. } => State::Cancelled,
            Self::Expired(Limit::Inactivity | Limit::Duration) | Self::Failed(_) => State::Error,
        }
    }
}

/// Returns a time that is not before the last event, even if the clock went back.
pub(super) fn not_before(at: Timestamp, session: &Session) -> Timestamp {
    at.max(session.touched)
}
