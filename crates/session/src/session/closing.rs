//! Closing: compensations run before a session ends without success.

use serde_json::Map;

use super::{Bounds, Command, Session, State};
use crate::Timestamp;
use crate::event::{Ending, FaultName, FlowFault, JournalEvent, SessionEnded, StepOutcome};

/// A compensation that has yet to run: that of a step that has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compensation {
    /// Key of the step.
    pub key: String,
    /// Number of the step among those of its key, counted from 1.
    pub number: u32,
    /// Error with which the compensation has failed for good.
    pub failure: Option<String>,
}

/// Returns the key under which the compensation of a step is recorded.
pub fn compensation_key(key: &str, number: u32) -> String {
    format!("undo {key} {number}")
}

impl Session {
    /// Returns the event that ends this session: its end, or the beginning of that if compensations
    /// have to run before. Those of a session that is stuck cannot run.
    pub fn end(&self, ending: Ending, at: Timestamp, bounds: &Bounds) -> JournalEvent {
        let is_success = matches!(ending, Ending::Completed { .. });
        let has_compensations = !is_success && !self.compensations.is_empty();
        if has_compensations && self.closing.is_none() && self.stuck.is_none() {
            let at = at.max(self.touched);
            return JournalEvent::EndBegun { ending, at };
        }
        JournalEvent::Ended(self.ended_by(ending, at, bounds))
    }

    /// Returns the end of a session that holds too much, if it does once `added` bytes are added. It
    /// may hold more while it closes, so that its compensations can run.
    pub fn overflow(&self, added: usize, at: Timestamp, bounds: &Bounds) -> Option<JournalEvent> {
        let is_full =
            self.length >= bounds.events || self.size.saturating_add(added) > bounds.bytes;
        (is_full && self.closing.is_none()).then(|| {
            let fault = FlowFault::new(FaultName::TooMuchData, "the session holds too much");
            self.end(Ending::Failed(fault), at, bounds)
        })
    }

    pub(super) fn ended_by(&self, ending: Ending, at: Timestamp, bounds: &Bounds) -> SessionEnded {
        let now = at.max(self.touched);
        // The end is noticed later than it was due (C-55).
        let at = match ending {
            Ending::Expired(_) => {
                self.deadline().map_or(now, |deadline| deadline.min(now).max(self.touched))
            }
            _ => now,
        };
        let uncompensated = match ending {
            Ending::Completed { .. } => Vec::new(),
            _ => self.uncompensated(),
        };
        SessionEnded {
            flow: self.started.flow.clone(),
            owner: self.started.owner.clone(),
            created: self.started.at,
            turns: self.turn(),
            last_answer: None,
            last_by_default: false,
            finished_early: false,
            // Expiry is no activity.
            last_activity: matches!(ending, Ending::Expired(_)).then_some(self.touched),
            ending,
            uncompensated,
            kept: Map::new(),
            at,
            until: now.after(bounds.retention),
        }
    }

    /// Returns whether a command is permitted while the session closes: those of compensations.
    pub(super) fn permits_closing_command(&self, command: &Command) -> bool {
        match command {
            Command::BeginStep { .. }
            | Command::RecordFailure { .. }
            | Command::Record { number: Some(_), .. }
            | Command::SetTimer { .. } => true,
            Command::FireTimer { timer } => self.has_timer(*timer),
            Command::SetAside(divergence) => self.stuck.as_ref() != Some(divergence),
            Command::Close => self.stuck.is_none(),
            Command::Unstick => self.stuck.is_some(),
            // Its code cannot run, so only a person can end it.
            Command::End(ending) => {
                self.stuck.is_some() && !matches!(ending, Ending::Completed { .. })
            }
            _ => false,
        }
    }

    /// Returns whether an event is permitted while the session closes.
    pub(super) fn permits_closing(&self, event: &JournalEvent) -> bool {
        match event {
            JournalEvent::StepBegun { .. }
            | JournalEvent::StepFailed { .. }
            | JournalEvent::StepDone { number: Some(_), .. }
            | JournalEvent::TimerSet { .. }
            | JournalEvent::Stuck { .. }
            | JournalEvent::Imported { .. } => true,
            JournalEvent::TimerFired { timer, .. } => self.has_timer(*timer),
            JournalEvent::Unstuck { .. } => self.stuck.is_some(),
            JournalEvent::Ended(ended) => !matches!(ended.ending, Ending::Completed { .. }),
            _ => false,
        }
    }

    pub(super) fn begin_end(&mut self, ending: Ending) {
        self.state = State::Processing;
        self.open = None;
        self.violation = None;
        self.wrong.clear();
        self.queued.clear();
        self.timers.clear();
        self.signal_waits.clear();
        self.signals.clear();
        self.closing = Some(ending);
    }

    /// Notes that a step has finished: it has to be compensated, or is itself a compensation.
    pub(super) fn note_step(
        &mut self,
        key: &str,
        number: Option<u32>,
        outcome: &StepOutcome,
        is_compensable: bool,
    ) {
        if self.closing.is_none() {
            if let (true, Some(number), StepOutcome::Ok(_)) = (is_compensable, number, outcome) {
                self.compensations.push(Compensation {
                    key: key.to_owned(),
                    number,
                    failure: None,
                });
            }
            return;
        }
        let is_same = |one: &Compensation| compensation_key(&one.key, one.number) == key;
        let Some(place) = self.compensations.iter().position(is_same) else { return };
        match outcome {
            StepOutcome::Ok(_) => drop(self.compensations.remove(place)),
            StepOutcome::Failed(failure) => {
                self.compensations[place].failure = Some(failure.message.clone());
            }
        }
    }

    /// Returns the steps that were not compensated, each with the reason.
    pub(super) fn uncompensated(&self) -> Vec<String> {
        let describe = |Compensation { key, failure, .. }: &Compensation| match failure {
            Some(failure) => format!("`{key}`: {failure}"),
            None => format!("`{key}`: its compensation has not run"),
        };
        self.compensations.iter().map(describe).collect()
    }
}
