//! Application of events: the state transitions of the protocol (INT-062 to INT-069, C-42).

use std::collections::{BTreeMap, VecDeque};

use serde_json::Map;

use super::{AnsweredTurn, Link, QueuedQuestion, Session, State, size};
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
        if events.iter().any(|event| matches!(event, JournalEvent::Rewound { .. })) {
            return Self::replay_rewound(events).map(Some);
        }
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
            number: 0,
            violation: None,
            wrong: Vec::new(),
            queued: VecDeque::new(),
            skipped: 0,
            labels: BTreeMap::new(),
            reopened: Vec::new(),
            timers: Vec::new(),
            timers_set: 0,
            signals: Vec::new(),
            signals_received: 0,
            links: Vec::new(),
            signal_waits: Vec::new(),
            signal_waits_made: 0,
            slept: 0,
            stuck: None,
            closing: None,
            compensations: Vec::new(),
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
            inactivity_is_default: false,
            ends: None,
            retention: None,
            trace: None,
            scopes: Vec::new(),
            depth: 0,
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
        let before = self.touched;
        self.touched = before.max(event.at());
        match event {
            JournalEvent::Started(_) => return Err(damaged),
            JournalEvent::Began { .. } => self.state = State::Active,
            JournalEvent::Asked(asked) => {
                let question = QueuedQuestion::new(self.take_number(), asked);
                self.open(question);
            }
            JournalEvent::Queued(asked) => {
                let question = QueuedQuestion::new(self.take_number(), asked);
                self.queued.push_back(question);
            }
            JournalEvent::Given { key, value, .. } => {
                self.take_number();
                self.given.push(key.clone());
                self.data.insert(key, value);
            }
            JournalEvent::Answered(answered) => {
                let asked = self.open.take().ok_or(damaged)?;
                self.data.insert(asked.key.clone(), answered.value.clone());
                let (turn, number) = (self.turn(), self.number);
                self.history.push(AnsweredTurn { turn, number, asked, answered });
                self.open_next();
            }
            JournalEvent::AnsweredAhead { question, answered } => {
                let queued = self.queued_mut(question).ok_or(damaged)?;
                let (key, value) = (queued.asked.key.clone(), answered.value.clone());
                queued.answered = Some(answered);
                self.data.insert(key, value);
            }
            JournalEvent::Rejected { question: None, violation, answer, .. } => {
                self.wrong.push(answer);
                self.violation = Some(violation);
            }
            JournalEvent::Rejected { question: Some(question), violation, answer, .. } => {
                let queued = self.queued_mut(question).ok_or(damaged)?;
                queued.wrong.push(answer);
                queued.violation = Some(violation);
            }
            JournalEvent::Withdrawn { question, skipped, .. } if self.is_open(question) => {
                self.skipped = self.skipped.saturating_add(u32::from(skipped));
                self.open = None;
                self.open_next();
            }
            JournalEvent::Withdrawn { question, .. } => {
                self.queued.retain(|queued| queued.number != question);
            }
            JournalEvent::StepBegun { .. } | JournalEvent::StepFailed { .. } => {}
            JournalEvent::StepDone { key, number, outcome, is_compensable, .. } => {
                self.note_step(&key, number, &outcome, is_compensable);
            }
            JournalEvent::EndBegun { ending, .. } => self.begin_end(ending),
            JournalEvent::DataSet { key, value, .. } => {
                self.data.insert(key, value);
            }
            JournalEvent::TimerSet { until, .. } => {
                // A flow that sleeps before its first question is at work for clients.
                if self.state == State::Active {
                    self.state = State::Processing;
                }
                self.set_timer(until);
            }
            JournalEvent::TimerFired { timer, at } => {
                self.count_sleep(before, at);
                self.remove_timer(timer);
            }
            JournalEvent::TimerDropped { timer, .. } => self.remove_timer(timer),
            JournalEvent::SignalAwaited { key, .. } => {
                if self.state == State::Active {
                    self.state = State::Processing;
                }
                self.await_signal(key);
            }
            JournalEvent::Signalled { key, value, link, at } => {
                self.count_sleep(before, at);
                if let Some(link) = link.and_then(|link| self.link_mut(link)) {
                    link.is_used = true;
                }
                self.keep_signal(key, value);
            }
            JournalEvent::SignalTaken { wait, signal, at } => {
                self.count_sleep(before, at);
                self.take_signal(wait, signal);
            }
            JournalEvent::SignalWaitDropped { wait, .. } => self.remove_signal_wait(wait),
            JournalEvent::LinkMade { key, base, token, is_question, needs_login, .. } => {
                let number = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
                let (is_used, is_revoked) = (false, false);
                self.links.push(Link {
                    number,
                    key,
                    base,
                    token,
                    is_question,
                    needs_login,
                    is_used,
                    is_revoked,
                });
            }
            JournalEvent::LinkRevoked { link, .. } => {
                self.link_mut(link).ok_or(damaged)?.is_revoked = true;
            }
            JournalEvent::Stuck { divergence, .. } => self.stuck = Some(divergence),
            JournalEvent::Unstuck { .. } => self.stuck = None,
            JournalEvent::Imported { .. } => {}
            JournalEvent::Rewound { key, questions, turns, timers, .. } => {
                self.rewind(key, questions, turns, timers);
            }
            JournalEvent::Labelled { key, value, .. } => {
                self.labels.insert(key, value);
            }
            JournalEvent::Ended(ended) => self.finish(ended),
        }
        Ok(())
    }

    /// Returns whether the state allows an event.
    fn permits(&self, event: &JournalEvent) -> bool {
        let running = matches!(self.state, State::Active | State::Processing);
        let waiting = self.state == State::WaitingUser;
        let is_settled = matches!(
            event,
            JournalEvent::Stuck { .. }
                | JournalEvent::Unstuck { .. }
                | JournalEvent::Signalled { .. }
                | JournalEvent::LinkRevoked { .. }
                | JournalEvent::Imported { .. }
                | JournalEvent::Rewound { .. }
                | JournalEvent::Ended(_)
        );
        if self.stuck.is_some() && !is_settled {
            return false;
        }
        match event {
            _ if self.closing.is_some() => self.permits_closing(event),
            JournalEvent::Started(_) => false,
            JournalEvent::Began { .. } => self.state == State::Idle,
            JournalEvent::Asked(_) => running,
            // A branch of a flow may work while another waits for an answer.
            JournalEvent::Given { .. }
            | JournalEvent::StepBegun { .. }
            | JournalEvent::StepFailed { .. }
            | JournalEvent::StepDone { .. }
            | JournalEvent::DataSet { .. }
            | JournalEvent::Labelled { .. }
            | JournalEvent::TimerSet { .. }
            | JournalEvent::LinkMade { .. }
            | JournalEvent::SignalAwaited { .. } => running || waiting,
            JournalEvent::TimerFired { timer, .. } => self.has_timer(*timer),
            // It may have fired before the flow got to know.
            JournalEvent::TimerDropped { timer, .. } => {
                (running || waiting) && *timer < self.timers_set
            }
            JournalEvent::Signalled { link, .. } => {
                !self.state.is_final() && link.is_none_or(|link| self.check_link(link).is_ok())
            }
            JournalEvent::LinkRevoked { link, .. } => {
                !self.state.is_final() && self.link(*link).is_some()
            }
            JournalEvent::SignalTaken { wait, signal, .. } => {
                (running || waiting) && self.can_take(*wait, *signal)
            }
            JournalEvent::SignalWaitDropped { wait, .. } => {
                (running || waiting) && *wait < self.signal_waits_made
            }
            JournalEvent::Queued(_)
            | JournalEvent::Answered(_)
            | JournalEvent::Rejected { question: None, .. } => waiting,
            JournalEvent::AnsweredAhead { question, .. }
            | JournalEvent::Rejected { question: Some(question), .. } => {
                self.unanswered(*question).is_some()
            }
            JournalEvent::Withdrawn { question, .. } => self.can_withdraw(*question),
            JournalEvent::Stuck { .. } => !self.state.is_final(),
            JournalEvent::Unstuck { .. } => self.stuck.is_some(),
            JournalEvent::Imported { .. } => !self.state.is_final(),
            JournalEvent::Rewound { .. } => running || waiting,
            JournalEvent::EndBegun { ending, .. } => {
                (running || waiting) && !matches!(ending, Ending::Completed { .. })
            }
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
        self.queued.clear();
        self.timers.clear();
        self.signals.clear();
        self.links.clear();
        self.signal_waits.clear();
        self.stuck = None;
        self.closing = None;
        self.compensations.clear();
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
