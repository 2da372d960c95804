//! Differences between a flow and its journal.

use serde::{Deserialize, Serialize};

use super::Replay;
use super::entry::{Entry, Recorded};
use crate::prompt::Prompt;

/// The flow asks for something else than its journal has; its code must have changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, thiserror::Error)]
#[error(
    "turn {turn} had `{recorded_key}` ({recorded}) before and has `{asked_key}` ({asked}) now; \
     the flow must have changed since"
)]
pub struct Divergence {
    /// Index of the event in the journal; of the next one, if the journal has nothing there.
    pub index: usize,
    /// Number of the turn, counted from 0.
    pub turn: u32,
    /// Key in the journal.
    pub recorded_key: String,
    /// Question, timer, signal or step in the journal.
    pub recorded: String,
    /// Key that the flow asks for now; empty if it ended instead.
    pub asked_key: String,
    /// Question, timer, signal or step that the flow asks for now.
    pub asked: String,
}

impl Replay {
    /// Describes how the next record differs from what the flow asks for, or from its end.
    pub fn divergence(&self, now: Option<&(String, String)>) -> Divergence {
        let mut next = self.entries.iter().filter_map(|Recorded { index, entry }| match entry {
            Entry::Asked { key, prompt, .. } => Some((*index, key.as_str(), describe(prompt))),
            Entry::Given { key, .. } => Some((*index, key.as_str(), "a given answer".to_owned())),
            Entry::TimerSet { key, .. } => Some((*index, key.as_str(), TIMER.to_owned())),
            Entry::SignalAwaited { key, .. } => Some((*index, key.as_str(), SIGNAL.to_owned())),
            Entry::StepDone { key, .. } => Some((*index, key.as_str(), STEP.to_owned())),
            Entry::Closing => Some((*index, "", CLOSING.to_owned())),
            Entry::Answered { .. }
            | Entry::Withdrawn { .. }
            | Entry::TimerFired { .. }
            | Entry::SignalTaken { .. }
            | Entry::SignalWaitDropped { .. }
            | Entry::TimerDropped { .. } => None,
        });
        let (index, recorded_key, recorded) = match next.next() {
            Some((index, key, described)) => (index, key.to_owned(), described),
            None => (self.events, String::new(), END.to_owned()),
        };
        let asked = self.entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::Asked { number, .. } | Entry::Given { number, .. } => Some(*number),
            _ => None,
        });
        let turn = asked.unwrap_or(self.asked);
        let (asked_key, asked) = now.cloned().unwrap_or_else(|| (String::new(), END.to_owned()));
        Divergence { index, turn, recorded_key, recorded, asked_key, asked }
    }
}

/// Key and description of a question, for [`Replay::divergence`].
pub fn question_of(key: &str, prompt: &Prompt) -> (String, String) {
    (key.to_owned(), describe(prompt))
}

/// Key and description of a timer, for [`Replay::divergence`].
pub fn timer_of(key: &str) -> (String, String) {
    (key.to_owned(), TIMER.to_owned())
}

/// Key and description of a signal, for [`Replay::divergence`].
pub fn signal_of(key: &str) -> (String, String) {
    (key.to_owned(), SIGNAL.to_owned())
}

/// Key and description of a step, for [`Replay::divergence`].
pub fn step_of(key: &str) -> (String, String) {
    (key.to_owned(), STEP.to_owned())
}

fn describe(prompt: &Prompt) -> String {
    let message: String = prompt.message.chars().take(MESSAGE_LIMIT).collect();
    format!("{:?} {message:?}", prompt.kind)
}

const MESSAGE_LIMIT: usize = 80;
const TIMER: &str = "a timer";
const SIGNAL: &str = "a signal";
const STEP: &str = "a step";
const CLOSING: &str = "the end, and compensations";
const END: &str = "the end";
