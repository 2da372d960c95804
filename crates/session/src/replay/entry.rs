//! Entries of a journal that a flow replays, and what it learns of them.

use std::sync::Arc;

use serde_json::Value;

use crate::event::StepOutcome;
use crate::prompt::Prompt;

/// An entry and the index of its event in the journal.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) index: usize,
    pub(super) entry: Entry,
}

#[derive(Debug)]
pub(super) enum Entry {
    Asked {
        number: u32,
        key: String,
        prompt: Arc<Prompt>,
    },
    Given {
        number: u32,
        key: String,
        value: Value,
    },
    Answered {
        number: u32,
        value: Value,
    },
    Withdrawn {
        number: u32,
    },
    TimerSet {
        number: u32,
        key: String,
    },
    TimerFired {
        number: u32,
    },
    TimerDropped {
        number: u32,
    },
    SignalAwaited {
        number: u32,
        key: String,
    },
    SignalTaken {
        wait: u32,
        value: Value,
    },
    SignalWaitDropped {
        number: u32,
    },
    /// The session begins to close: its compensations follow.
    Closing,
    /// Journals of older programs have no numbers of steps.
    StepDone {
        key: String,
        number: Option<u32>,
        record: StepRecord,
    },
}

impl Entry {
    /// Returns whether the flow takes it as soon as it is polled there, since it has asked for it.
    pub(super) fn is_delivery(&self) -> bool {
        matches!(self, Self::Answered { .. } | Self::TimerFired { .. })
    }
}

/// The journal's record of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedQuestion {
    /// A parameter answered it.
    Given(Value),
    /// It was asked, under this number. [`Replay::answer`](super::Replay::answer) returns its answer.
    Asked(u32),
    /// The journal ends before it: ask it.
    New,
    /// Something else came first. Its turn may come if branches of the flow run concurrently.
    NotYet,
    /// The journal has another question under this key.
    Differs,
}

/// The journal's record of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedTimer {
    /// It was set, under this number. [`Replay::fired`](super::Replay::fired) tells when it fires.
    Set(u32),
    /// The journal ends before it: set it.
    New,
    /// Something else came first. Its turn may come if branches of the flow run concurrently.
    NotYet,
}

/// The journal's record of a wait for a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedSignalWait {
    /// It began, under this number. [`Replay::signal`](super::Replay::signal) returns the signal.
    Awaited(u32),
    /// The journal ends before it: wait.
    New,
    /// Something else came first. Its turn may come if branches of the flow run concurrently.
    NotYet,
}

/// Event of a step in the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum StepRecord {
    /// It has finished, with this outcome.
    Done(StepOutcome),
    /// An attempt has failed, and another one follows.
    Failed,
}

/// The journal's record of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedStep {
    /// It has finished, or an attempt has failed.
    Recorded(StepRecord),
    /// The journal ends before it: run it, or record it if it was run.
    New,
    /// Something else came first. Its turn may come if branches of the flow run concurrently.
    NotYet,
}
