//! Signals to a session, kept until its flow takes them.

use serde_json::Value;

use super::{Bounds, CommandError, Session, size};
use crate::Timestamp;
use crate::event::{Ending, FaultName, FlowFault, JournalEvent};

/// A signal that the flow has not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptSignal {
    /// Number of the signal, counted from 0 among all signals of the session.
    pub number: u32,
    /// Its name.
    pub key: String,
    /// Value that came with it.
    pub value: Value,
}

/// A wait of the flow for a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalWait {
    /// Number of the wait, counted from 0 among those that were not rewound.
    pub number: u32,
    /// Name of the signal.
    pub key: String,
}

impl Session {
    /// Returns the names of the signals that the flow waits for, each once.
    pub fn awaits(&self) -> Vec<String> {
        let mut names: Vec<_> = self.signal_waits.iter().map(|wait| wait.key.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Decides to wait for a signal.
    pub(super) fn decide_wait(&self, key: String, at: Timestamp, bounds: &Bounds) -> JournalEvent {
        if self.signal_waits.len() >= MAX_SIGNAL_WAITS {
            let message = format!("more than {MAX_SIGNAL_WAITS} signals are awaited at once");
            let fault = FlowFault::new(FaultName::TooMuchData, message).at(key);
            return self.end(Ending::Failed(fault), at, bounds);
        }
        JournalEvent::SignalAwaited { key, at }
    }

    /// Decides on a signal. Unlike an event of the flow, one too many does not end the session.
    pub(super) fn decide_signal(
        &self,
        signalled: JournalEvent,
        bounds: &Bounds,
    ) -> Result<JournalEvent, CommandError> {
        let has_room = match &signalled {
            JournalEvent::Signalled { key, .. } => self.has_room_for(key),
            _ => false,
        };
        let size = self.size.saturating_add(size::of(&signalled));
        match has_room && self.length < bounds.events && size <= bounds.bytes {
            true => Ok(signalled),
            false => Err(CommandError::TooManySignals),
        }
    }

    /// Returns whether another signal of this name can be kept: the flow waits for it, or there are
    /// not too many.
    fn has_room_for(&self, key: &str) -> bool {
        let kept = self.signals.iter().filter(|signal| signal.key == key).count();
        let awaited = self.signal_waits.iter().filter(|wait| wait.key == key).count();
        self.signals.len() < MAX_SIGNALS || kept < awaited
    }

    /// Returns whether the flow can take this signal for this wait.
    pub(super) fn can_take(&self, wait: u32, signal: u32) -> bool {
        let wait = self.signal_waits.iter().find(|waiting| waiting.number == wait);
        let signal = self.signals.iter().find(|kept| kept.number == signal);
        wait.zip(signal).is_some_and(|(wait, signal)| wait.key == signal.key)
    }

    pub(super) fn await_signal(&mut self, key: String) {
        self.signal_waits.push(SignalWait { number: self.signal_waits_made, key });
        self.signal_waits_made = self.signal_waits_made.saturating_add(1);
    }

    pub(super) fn keep_signal(&mut self, key: String, value: Value) {
        self.signals.push(KeptSignal { number: self.signals_received, key, value });
        self.signals_received = self.signals_received.saturating_add(1);
    }

    pub(super) fn take_signal(&mut self, wait: u32, signal: u32) {
        self.signals.retain(|kept| kept.number != signal);
        self.remove_signal_wait(wait);
    }

    pub(super) fn remove_signal_wait(&mut self, wait: u32) {
        self.signal_waits.retain(|waiting| waiting.number != wait);
    }
}

/// Most signals that are kept until the flow waits for them.
pub const MAX_SIGNALS: usize = 100;

/// Most signals that a flow waits for at once.
const MAX_SIGNAL_WAITS: usize = 1_000;
