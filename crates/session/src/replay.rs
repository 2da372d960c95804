//! Replay of a journal for a flow that runs again from the top.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;

use crate::event::{JournalEvent, StepOutcome};
use crate::prompt::Prompt;

/// Recorded results of a flow, returned as the flow asks for them again.
///
/// Questions and answers are replayed strictly in the order of the journal, and so are timers: a
/// branch of the flow gets its answer only after all questions that were asked before were asked
/// again. So branches that race for an answer have the same winner. Steps and data are replayed by
/// key, in order within a key, because concurrent steps may have finished in any order.
#[derive(Debug, Default)]
pub struct Replay {
    /// Entries that the flow has yet to replay. A running flow adds its answers here, too.
    entries: VecDeque<Entry>,
    /// Number of entries that were in the journal when it was loaded.
    loaded: usize,
    /// Outstanding questions by number, with the answers given ahead. The first is the open one.
    outstanding: VecDeque<(u32, Option<Value>)>,
    /// Number of questions so far.
    asked: u32,
    /// Number of timers so far.
    timers: u32,
    steps: HashMap<String, VecDeque<StepOutcome>>,
    notes: HashMap<String, usize>,
}

#[derive(Debug)]
enum Entry {
    Asked { number: u32, key: String, prompt: Arc<Prompt> },
    Given { number: u32, key: String, value: Value },
    Answered { number: u32, value: Value },
    Withdrawn { number: u32 },
    TimerSet { number: u32, key: String },
    TimerFired { number: u32 },
    TimerDropped { number: u32 },
}

/// The journal's record of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedQuestion {
    /// A parameter answered it.
    Given(Value),
    /// It was asked, under this number. [`Replay::answer`] returns its answer.
    Asked(u32),
    /// The journal ends before it: ask it.
    New,
    /// Something else came first. Its turn may come if branches of the flow run concurrently.
    NotYet,
    /// The journal has another question under this key.
    Differs(Divergence),
}

/// The journal's record of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedTimer {
    /// It was set, under this number. [`Replay::fired`] tells when it fires.
    Set(u32),
    /// The journal ends before it: set it.
    New,
    /// Something else came first. Its turn may come if branches of the flow run concurrently.
    NotYet,
}

/// The flow asks another question than its journal has; its code must have changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "turn {turn} asked `{recorded_key}` ({recorded}) before and `{asked_key}` ({asked}) now; \
     the flow must have changed since"
)]
pub struct Divergence {
    /// Number of the question, counted from 0.
    pub turn: u32,
    /// Key in the journal.
    pub recorded_key: String,
    /// Question in the journal.
    pub recorded: String,
    /// Key the flow asks now; empty if it ended instead.
    pub asked_key: String,
    /// Question the flow asks now.
    pub asked: String,
}

impl Replay {
    /// Prepares the replay of a journal.
    pub fn new(events: &[JournalEvent]) -> Self {
        let mut replay = Self::default();
        for event in events {
            match event {
                JournalEvent::StepDone { key, outcome, .. } => {
                    replay.steps.entry_ref(key.as_str()).or_default().push_back(outcome.clone());
                }
                JournalEvent::DataSet { key, .. } => {
                    *replay.notes.entry_ref(key.as_str()).or_default() += 1;
                }
                event => {
                    let entry = replay.track(event);
                    replay.entries.extend(entry);
                    replay.deliver();
                }
            }
        }
        replay.loaded = replay.entries.len();
        replay
    }

    /// Adds an event that has just happened. Only its answers are left to replay.
    pub fn record(&mut self, event: &JournalEvent) {
        if let Some(answered @ (Entry::Answered { .. } | Entry::TimerFired { .. })) =
            self.track(event)
        {
            self.entries.push_back(answered);
        }
        self.deliver();
    }

    /// Returns the record of the question the flow asks now. Each record is returned once.
    pub fn question(&mut self, key: &str, prompt: &Prompt) -> RecordedQuestion {
        match self.entries.front() {
            None => RecordedQuestion::New,
            Some(Entry::Asked { key: recorded, .. } | Entry::Given { key: recorded, .. })
                if recorded != key =>
            {
                RecordedQuestion::NotYet
            }
            // The wording and the rules of a question may change; its key and its type identify it.
            Some(Entry::Asked { prompt: recorded, .. }) if recorded.kind != prompt.kind => {
                RecordedQuestion::Differs(self.divergence(Some(&question_of(key, prompt))))
            }
            Some(Entry::Asked { .. } | Entry::Given { .. }) => match self.remove(0) {
                Some(Entry::Given { value, .. }) => RecordedQuestion::Given(value),
                Some(Entry::Asked { number, .. }) => RecordedQuestion::Asked(number),
                _ => RecordedQuestion::New,
            },
            Some(_) => RecordedQuestion::NotYet,
        }
    }

    /// Returns the answer to a question, when it is the answer's turn. Each is returned once.
    pub fn answer(&mut self, question: u32) -> Option<Value> {
        match self.entries.front() {
            Some(Entry::Answered { number, .. }) if *number == question => match self.remove(0) {
                Some(Entry::Answered { value, .. }) => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// Drops a question that the flow no longer waits for, with its answer. Returns whether the
    /// journal has it as withdrawn.
    pub fn withdraw(&mut self, question: u32) -> bool {
        let mut is_recorded = false;
        let mut index = 0;
        while let Some(entry) = self.entries.get(index) {
            match entry {
                Entry::Asked { number, .. }
                | Entry::Answered { number, .. }
                | Entry::Withdrawn { number }
                    if *number == question =>
                {
                    is_recorded |= matches!(entry, Entry::Withdrawn { .. });
                    self.remove(index);
                }
                _ => index += 1,
            }
        }
        is_recorded
    }

    /// Skips a withdrawn question or dropped timer that the flow does not ask for again: in the
    /// first run it waited for a step, whose recorded result now comes before it. Returns whether
    /// there was one.
    pub fn skip_withdrawn(&mut self) -> bool {
        match self.entries.front() {
            Some(Entry::Asked { number: next, .. }) => {
                let next = *next;
                let is_end =
                    |entry: &Entry| matches!(entry, Entry::Withdrawn { number } if *number == next);
                self.entries.iter().any(is_end) && self.withdraw(next)
            }
            Some(Entry::TimerSet { number: next, .. }) => {
                let next = *next;
                let is_end = |entry: &Entry| matches!(entry, Entry::TimerDropped { number } if *number == next);
                self.entries.iter().any(is_end) && self.drop_timer(next)
            }
            _ => false,
        }
    }

    /// Returns the record of the timer the flow sets now. Each record is returned once.
    pub fn timer(&mut self, key: &str) -> RecordedTimer {
        match self.entries.front() {
            None => RecordedTimer::New,
            Some(Entry::TimerSet { key: recorded, number }) if recorded == key => {
                let number = *number;
                self.remove(0);
                RecordedTimer::Set(number)
            }
            Some(_) => RecordedTimer::NotYet,
        }
    }

    /// Takes the next recorded timer for the one of this key, if one comes next: its duration was
    /// changed. Only when no branch of the flow takes it under its own key.
    pub fn rename_timer(&mut self, key: &str) -> bool {
        match self.entries.front_mut() {
            Some(Entry::TimerSet { key: recorded, .. }) => {
                key.clone_into(recorded);
                true
            }
            _ => false,
        }
    }

    /// Returns whether a timer has fired, when it is its turn. Each is returned once.
    pub fn fired(&mut self, timer: u32) -> bool {
        let is_next = matches!(
            self.entries.front(),
            Some(Entry::TimerFired { number }) if *number == timer
        );
        if is_next {
            self.remove(0);
        }
        is_next
    }

    /// Drops a timer that the flow no longer waits for. Returns whether the journal has it as
    /// dropped.
    pub fn drop_timer(&mut self, timer: u32) -> bool {
        let mut is_recorded = false;
        let mut index = 0;
        while let Some(entry) = self.entries.get(index) {
            match entry {
                Entry::TimerSet { number, .. }
                | Entry::TimerFired { number }
                | Entry::TimerDropped { number }
                    if *number == timer =>
                {
                    is_recorded |= matches!(entry, Entry::TimerDropped { .. });
                    self.remove(index);
                }
                _ => index += 1,
            }
        }
        is_recorded
    }

    /// Returns the outcome of the next step of this key.
    pub fn step(&mut self, key: &str) -> Option<StepOutcome> {
        self.steps.get_mut(key)?.pop_front()
    }

    /// Returns whether data of this key was set before; each time counts once.
    pub fn noted(&mut self, key: &str) -> bool {
        match self.notes.get_mut(key) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Returns whether all recorded questions and answers were replayed.
    pub fn is_over(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether an answer or the firing of a timer comes next. Its question was asked again,
    /// so the flow takes it as soon as it is polled there.
    pub fn has_answer(&self) -> bool {
        matches!(self.entries.front(), Some(Entry::Answered { .. } | Entry::TimerFired { .. }))
    }

    /// Returns whether the flow has yet to get to where the journal ended when it was loaded.
    pub fn is_behind(&self) -> bool {
        self.loaded > 0
    }

    /// Describes how the next record differs from what the flow asks for, or from its end.
    pub fn divergence(&self, now: Option<&(String, String)>) -> Divergence {
        let recorded = self.entries.iter().find_map(|entry| match entry {
            Entry::Asked { number, key, prompt } => Some((*number, key.clone(), describe(prompt))),
            Entry::Given { number, key, .. } => Some((*number, key.clone(), String::new())),
            Entry::TimerSet { key, .. } => Some((self.asked, key.clone(), "a timer".to_owned())),
            Entry::Answered { .. }
            | Entry::Withdrawn { .. }
            | Entry::TimerFired { .. }
            | Entry::TimerDropped { .. } => None,
        });
        let (turn, recorded_key, recorded) =
            recorded.unwrap_or((self.asked, String::new(), String::new()));
        let (asked_key, asked) =
            now.cloned().unwrap_or_else(|| (String::new(), "the end".to_owned()));
        Divergence { turn, recorded_key, recorded, asked_key, asked }
    }

    /// Follows the outstanding questions, and returns the entry to replay for an event.
    fn track(&mut self, event: &JournalEvent) -> Option<Entry> {
        match event {
            JournalEvent::Asked(asked) | JournalEvent::Queued(asked) => {
                let number = self.take_number();
                self.outstanding.push_back((number, None));
                let (key, prompt) = (asked.key.clone(), Arc::clone(&asked.prompt));
                Some(Entry::Asked { number, key, prompt })
            }
            JournalEvent::Given { key, value, .. } => {
                let number = self.take_number();
                Some(Entry::Given { number, key: key.clone(), value: value.clone() })
            }
            JournalEvent::Answered(answered) => {
                let (number, _) = self.outstanding.pop_front()?;
                Some(Entry::Answered { number, value: answered.value.clone() })
            }
            JournalEvent::AnsweredAhead { question, answered } => {
                let ahead = self.outstanding.iter_mut().find(|(number, _)| number == question)?;
                ahead.1 = Some(answered.value.clone());
                None
            }
            JournalEvent::Withdrawn { question, .. } => {
                self.outstanding.retain(|(number, _)| number != question);
                Some(Entry::Withdrawn { number: *question })
            }
            JournalEvent::TimerSet { key, .. } => {
                let number = self.timers;
                self.timers = number.saturating_add(1);
                Some(Entry::TimerSet { number, key: key.clone() })
            }
            JournalEvent::TimerFired { timer, .. } => Some(Entry::TimerFired { number: *timer }),
            JournalEvent::TimerDropped { timer, .. } => {
                Some(Entry::TimerDropped { number: *timer })
            }
            JournalEvent::Started(_)
            | JournalEvent::Began { .. }
            | JournalEvent::Rejected { .. }
            | JournalEvent::StepBegun { .. }
            | JournalEvent::StepDone { .. }
            | JournalEvent::DataSet { .. }
            | JournalEvent::Ended(_) => None,
        }
    }

    /// Delivers the answers given ahead whose turn has come.
    fn deliver(&mut self) {
        while let Some((number, Some(value))) = self.outstanding.front_mut() {
            let (number, value) = (*number, value.take());
            self.outstanding.pop_front();
            self.entries.push_back(Entry::Answered { number, value });
        }
    }

    fn take_number(&mut self) -> u32 {
        let number = self.asked;
        self.asked = number.saturating_add(1);
        number
    }

    fn remove(&mut self, index: usize) -> Option<Entry> {
        if index < self.loaded {
            self.loaded -= 1;
        }
        self.entries.remove(index)
    }
}

/// Key and description of a question, for [`Replay::divergence`].
pub fn question_of(key: &str, prompt: &Prompt) -> (String, String) {
    (key.to_owned(), describe(prompt))
}

fn describe(prompt: &Prompt) -> String {
    let message: String = prompt.message.chars().take(MESSAGE_LIMIT).collect();
    format!("{:?} {message:?}", prompt.kind)
}

const MESSAGE_LIMIT: usize = 80;
