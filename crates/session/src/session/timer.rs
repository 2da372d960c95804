//! Timers of a session that have not fired.

use super::{Session, State};
use crate::Timestamp;

/// A timer that has not fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTimer {
    /// Number of the timer, counted from 0 among all timers of the session.
    pub number: u32,
    /// Time at which it fires.
    pub until: Timestamp,
}

impl Session {
    /// Returns the time at which the next timer fires.
    pub fn wakes(&self) -> Option<Timestamp> {
        self.timers.iter().map(|timer| timer.until).min()
    }

    /// Returns whether the flow waits for nothing but timers and signals, as far as the journal
    /// shows: a step may be running beside them.
    pub fn is_asleep(&self) -> bool {
        let is_running = matches!(self.state, State::Active | State::Processing);
        let waits = !self.timers.is_empty() || !self.signal_waits.is_empty();
        is_running && waits && self.stuck.is_none()
    }

    /// Counts the time asleep up to an event at this time, the last one before being at `before`.
    pub(super) fn count_sleep(&mut self, before: Timestamp, at: Timestamp) {
        if self.is_asleep() {
            let slept = at.since(before);
            let slept = u64::try_from(slept.as_millis()).unwrap_or(u64::MAX);
            self.slept = self.slept.saturating_add(slept);
        }
    }

    /// Returns the next timer that is due.
    pub fn due_timer(&self, now: Timestamp) -> Option<u32> {
        let due = self.timers.iter().filter(|timer| timer.until <= now);
        due.min_by_key(|timer| (timer.until, timer.number)).map(|timer| timer.number)
    }

    pub(super) fn has_timer(&self, number: u32) -> bool {
        self.timers.iter().any(|timer| timer.number == number)
    }

    pub(super) fn set_timer(&mut self, until: Timestamp) {
        self.timers.push(PendingTimer { number: self.timers_set, until });
        self.timers_set = self.timers_set.saturating_add(1);
    }

    pub(super) fn remove_timer(&mut self, number: u32) {
        self.timers.retain(|timer| timer.number != number);
    }
}

/// Most timers that wait to fire.
pub const MAX_TIMERS: usize = 1_000;

/// Latest time for which a timer can be set: the last one that can be written as a date.
pub const LATEST_TIMER: Timestamp = Timestamp::from_millis(253_402_207_200_000);
