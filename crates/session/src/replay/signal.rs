//! Signals that a flow waited for and took.

use serde_json::Value;

use super::Replay;
use super::entry::{Entry, Recorded, RecordedSignalWait};

impl Replay {
    /// Returns the record of the wait that the flow begins now. Each record is returned once.
    pub fn signal_wait(&mut self, key: &str) -> RecordedSignalWait {
        match self.next() {
            None => RecordedSignalWait::New,
            Some(Entry::SignalAwaited { key: recorded, number }) if recorded == key => {
                let number = *number;
                self.remove(0);
                RecordedSignalWait::Awaited(number)
            }
            Some(_) => RecordedSignalWait::NotYet,
        }
    }

    /// Returns whether the next entry is a signal that ended this wait.
    pub fn has_signal(&self, wait: u32) -> bool {
        matches!(self.next(), Some(Entry::SignalTaken { wait: next, .. }) if *next == wait)
    }

    /// Returns the value of the signal that ended this wait, when it is its turn. Each is returned
    /// once.
    pub fn signal(&mut self, wait: u32) -> Option<Value> {
        match self.has_signal(wait).then(|| self.remove(0)).flatten() {
            Some(Entry::SignalTaken { value, .. }) => Some(value),
            _ => None,
        }
    }

    /// Drops a wait that the flow has given up. Returns whether the journal has it as dropped.
    pub fn drop_signal_wait(&mut self, wait: u32) -> bool {
        let mut is_recorded = false;
        let mut index = 0;
        while !is_recorded && let Some(Recorded { entry, .. }) = self.entries.get(index) {
            match entry {
                Entry::SignalAwaited { number, .. } | Entry::SignalWaitDropped { number }
                    if *number == wait =>
                {
                    is_recorded = matches!(entry, Entry::SignalWaitDropped { .. });
                    self.remove(index);
                }
                _ => index += 1,
            }
        }
        is_recorded
    }
}
