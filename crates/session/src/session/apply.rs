//! Events onto a session: the transition table of the protocol (INT-062 to INT-069, C-42).

use serde_json::Map;

use super::{Session, State, Turn, size};
use crate::Timestamp;
use crate::event::{Ended, Ending, Event, Limit, Started};

/// A journal no session could have written. Reading it again will not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {place} does not follow from those before it")]
pub struct Damaged {
    /// Which event, counted from 0.
    pub place: usize,
}

impl Session {
    /// Folds a journal. A session never written to is none.
    pub fn replay(events: &[Event]) -> Result<Option<Self>, Damaged> {
        let Some((first, rest)) = events.split_first() else { return Ok(None) };
        let mut session = match first {
            Event::Started(started) => Self::begin(started.clone(), size::of(first)),
            Event::Ended(ended) => Self::tombstone(ended.clone()),
            _ => return Err(Damaged { place: 0 }),
        };
        for event in rest {
            session.apply(event.clone())?;
        }
        Ok(Some(session))
    }

    /// A session of which nothing is known but how it started.
    pub fn start(started: Started) -> Self {
        let event = Event::Started(started);
        let size = size::of(&event);
        let Event::Started(started) = event else { unreachable!("it was just made") };
        Self::begin(started, size)
    }

    fn begin(started: Started, size: usize) -> Self {
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

    /// A session of which only the end is known.
    fn tombstone(ended: Ended) -> Self {
        let started = Started {
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

    /// Adds an event, if it can follow.
    pub fn apply(&mut self, event: Event) -> Result<(), Damaged> {
        let damaged = Damaged { place: self.length };
        if !self.permits(&event) {
            return Err(damaged);
        }
        self.length += 1;
        self.size = self.size.saturating_add(size::of(&event));
        self.touched = self.touched.max(event.at());
        match event {
            Event::Started(_) => return Err(damaged),
            Event::Began { .. } => self.state = State::Active,
            Event::Asked(asked) => {
                self.state = State::WaitingUser;
                self.prompts += 1;
                self.wrong.clear();
                self.violation = asked.violation.clone();
                self.open = Some(asked);
            }
            Event::Given { key, value, .. } => {
                self.prompts += 1;
                self.given.push(key.clone());
                self.data.insert(key, value);
            }
            Event::Answered(answered) => {
                let asked = self.open.take().ok_or(damaged)?;
                self.state = State::Processing;
                self.violation = None;
                self.data.insert(asked.key.clone(), answered.value.clone());
                self.history.push(Turn { asked, answered });
            }
            Event::Rejected { violation, answer, .. } => {
                self.wrong.push(answer);
                self.violation = Some(violation);
            }
            Event::StepDone { .. } => {}
            Event::DataSet { key, value, .. } => {
                self.data.insert(key, value);
            }
            Event::Ended(ended) => self.finish(ended),
        }
        Ok(())
    }

    /// Whether an event can follow where the session stands.
    fn permits(&self, event: &Event) -> bool {
        let running = matches!(self.state, State::Active | State::Processing);
        let waiting = self.state == State::WaitingUser;
        match event {
            Event::Started(_) => false,
            Event::Began { .. } => self.state == State::Idle,
            Event::Asked(_) | Event::Given { .. } => running,
            // One part of a flow may work while another waits for an answer.
            Event::StepDone { .. } | Event::DataSet { .. } => running || waiting,
            Event::Answered(_) | Event::Rejected { .. } => waiting,
            Event::Ended(Ended { ending: Ending::Completed { .. }, .. }) => running || waiting,
            Event::Ended(_) => !self.state.is_final(),
        }
    }

    /// Forgets everything but the end and what is kept with it (C-11).
    fn finish(&mut self, ended: Ended) {
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
    /// The state a session is in that ended this way.
    pub const fn state(&self) -> State {
        match self {
            Self::Completed { .. } => State::Completed,
            Self::Cancelled { .. } => State::Cancelled,
            Self::Expired(Limit::Inactivity | Limit::Duration) | Self::Failed(_) => State::Error,
        }
    }
}

/// Times never run backwards within a session, whatever the clock does.
pub(super) fn not_before(at: Timestamp, session: &Session) -> Timestamp {
    at.max(session.touched)
}
