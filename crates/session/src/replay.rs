//! Replay of a journal for a flow that runs again from the top.

mod divergence;
mod entry;
mod signal;

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;

use crate::event::{JournalEvent, StepOutcome};
use crate::prompt::Prompt;
use crate::session::effective;

use entry::{Entry, Recorded};

pub use divergence::{Divergence, question_of, signal_of, step_of, timer_of};
pub use entry::{RecordedQuestion, RecordedSignalWait, RecordedStep, RecordedTimer, StepRecord};

/// Recorded results of a flow, returned as the flow asks for them again.
///
/// Questions, timers, signals and steps are replayed strictly in the order of the journal: a branch of the
/// flow gets an answer or the outcome of a step only after everything before it was replayed. So
/// concurrent branches continue in the same order, and races have the same winner. Drawn values and
/// data are replayed by key, in order within a key: a flow does not wait for them.
#[derive(Debug, Default)]
pub struct Replay {
    /// Entries that the flow has yet to replay. A running flow adds its answers here, too.
    entries: VecDeque<Recorded>,
    /// Number of entries that were in the journal when it was loaded.
    loaded: usize,
    /// Outstanding questions by number, with the answers given ahead. The first is the open one.
    outstanding: VecDeque<(u32, Option<Value>)>,
    /// Number of questions so far.
    asked: u32,
    /// Number of timers so far.
    timers: u32,
    /// Number of waits for signals so far.
    signal_waits: u32,
    /// Number of events so far.
    events: usize,
    /// Set while steps may be replayed before the answers and timers that the flow has yet to take.
    passes_deliveries: bool,
    drawn: HashMap<String, VecDeque<StepOutcome>>,
    notes: HashMap<String, usize>,
    /// Numbers of the links that the flow made, by key and by whether they answer a question.
    links: HashMap<(String, bool), VecDeque<u32>>,
}

impl Replay {
    /// Prepares the replay of a journal.
    pub fn new(events: &[JournalEvent]) -> Self {
        let mut replay = Self::default();
        let (mut signals, mut links) = (Vec::new(), 0);
        for (index, event) in effective(events) {
            replay.events = index;
            match event {
                JournalEvent::Rewound { questions, timers, .. } => {
                    (replay.asked, replay.timers) = (*questions, *timers);
                }
                JournalEvent::StepDone { key, outcome, .. } if is_drawn(key) => {
                    replay.drawn.entry_ref(key.as_str()).or_default().push_back(outcome.clone());
                }
                JournalEvent::DataSet { key, .. } => {
                    *replay.notes.entry_ref(key.as_str()).or_default() += 1;
                }
                JournalEvent::Labelled { key, .. } => {
                    *replay.notes.entry(label_note(key)).or_default() += 1;
                }
                JournalEvent::StepDone { key, number, outcome, .. } => {
                    let (key, record) = (key.clone(), StepRecord::Done(outcome.clone()));
                    replay.push(Entry::StepDone { key, number: *number, record });
                }
                JournalEvent::StepFailed { key, number, .. } => {
                    let (key, number) = (key.clone(), Some(*number));
                    replay.push(Entry::StepDone { key, number, record: StepRecord::Failed });
                }
                JournalEvent::LinkMade { key, is_question, .. } => {
                    let made = replay.links.entry((key.clone(), *is_question)).or_default();
                    made.push_back(links);
                    links = links.saturating_add(1);
                }
                JournalEvent::Signalled { value, .. } => signals.push(value),
                JournalEvent::SignalTaken { wait, signal, .. } => {
                    let value =
                        usize::try_from(*signal).ok().and_then(|number| signals.get(number));
                    let value = value.copied().cloned().unwrap_or_default();
                    replay.push(Entry::SignalTaken { wait: *wait, value });
                }
                event => {
                    if let Some(entry) = replay.track(event) {
                        replay.push(entry);
                    }
                    replay.deliver();
                }
            }
        }
        replay.events = events.len();
        replay.loaded = replay.entries.len();
        replay
    }

    /// Adds an event that has just happened. Only its answers are left to replay.
    pub fn record(&mut self, event: &JournalEvent) {
        let is_left = |entry: &Entry| entry.is_delivery() || matches!(entry, Entry::Closing);
        if let Some(entry) = self.track(event).filter(is_left) {
            self.push(entry);
        }
        self.deliver();
        self.events += 1;
    }

    /// Returns the record of the question the flow asks now. Each record is returned once.
    pub fn question(&mut self, key: &str, prompt: &Prompt) -> RecordedQuestion {
        match self.next() {
            None => RecordedQuestion::New,
            Some(Entry::Asked { key: recorded, .. } | Entry::Given { key: recorded, .. })
                if recorded != key =>
            {
                RecordedQuestion::NotYet
            }
            // The wording and the rules of a question may change; its key and its type identify it.
            Some(Entry::Asked { prompt: recorded, .. }) if recorded.kind != prompt.kind => {
                RecordedQuestion::Differs
            }
            Some(Entry::Asked { .. } | Entry::Given { .. }) => match self.remove(0) {
                Some(Entry::Given { value, .. }) => RecordedQuestion::Given(value),
                Some(Entry::Asked { number, .. }) => RecordedQuestion::Asked(number),
                _ => RecordedQuestion::New,
            },
            Some(_) => RecordedQuestion::NotYet,
        }
    }

    /// Returns whether it is the turn of the answer to a question.
    pub fn is_answer(&self, question: u32) -> bool {
        matches!(self.next(), Some(Entry::Answered { number, .. }) if *number == question)
    }

    /// Returns the answer to a question, when it is the answer's turn. Each is returned once.
    pub fn answer(&mut self, question: u32) -> Option<Value> {
        match self.next() {
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
        // The withdrawal is the last entry of a question.
        while !is_recorded && let Some(Recorded { entry, .. }) = self.entries.get(index) {
            match entry {
                Entry::Asked { number, .. }
                | Entry::Answered { number, .. }
                | Entry::Withdrawn { number }
                    if *number == question =>
                {
                    is_recorded = matches!(entry, Entry::Withdrawn { .. });
                    self.remove(index);
                }
                _ => index += 1,
            }
        }
        is_recorded
    }

    /// Skips a withdrawn question, or a dropped timer or wait for a signal, that the flow does not ask for again: in the
    /// first run it waited for a step, whose recorded result now comes before it. Returns whether
    /// there was one.
    pub fn skip_withdrawn(&mut self) -> bool {
        let mut entries = self.entries.iter().map(|recorded| &recorded.entry);
        match entries.next() {
            Some(Entry::Asked { number: next, .. }) => {
                let next = *next;
                let is_end =
                    |entry: &Entry| matches!(entry, Entry::Withdrawn { number } if *number == next);
                entries.any(is_end) && self.withdraw(next)
            }
            Some(Entry::TimerSet { number: next, .. }) => {
                let next = *next;
                let is_end = |entry: &Entry| matches!(entry, Entry::TimerDropped { number } if *number == next);
                entries.any(is_end) && self.drop_timer(next)
            }
            Some(Entry::SignalAwaited { number: next, .. }) => {
                let next = *next;
                let is_end = |entry: &Entry| matches!(entry, Entry::SignalWaitDropped { number } if *number == next);
                entries.any(is_end) && self.drop_signal_wait(next)
            }
            _ => false,
        }
    }

    /// Returns the record of the timer the flow sets now. Each record is returned once.
    pub fn timer(&mut self, key: &str) -> RecordedTimer {
        match self.next() {
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
        match self.entries.front_mut().map(|recorded| &mut recorded.entry) {
            Some(Entry::TimerSet { key: recorded, .. }) => {
                key.clone_into(recorded);
                true
            }
            _ => false,
        }
    }

    /// Returns whether it is the turn of a timer that has fired.
    pub fn has_fired(&self, timer: u32) -> bool {
        matches!(self.next(), Some(Entry::TimerFired { number }) if *number == timer)
    }

    /// Returns whether the next entry is of this step.
    pub fn has_step(&self, key: &str, number: u32) -> bool {
        matches!(self.next(), Some(Entry::StepDone { key: recorded, number: counted, .. })
            if recorded == key && counted.is_none_or(|counted| counted == number))
    }

    /// Returns whether a timer has fired, when it is its turn. Each is returned once.
    pub fn fired(&mut self, timer: u32) -> bool {
        let is_next = matches!(self.next(), Some(Entry::TimerFired { number }) if *number == timer);
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
        while !is_recorded && let Some(Recorded { entry, .. }) = self.entries.get(index) {
            match entry {
                Entry::TimerSet { number, .. }
                | Entry::TimerFired { number }
                | Entry::TimerDropped { number }
                    if *number == timer =>
                {
                    is_recorded = matches!(entry, Entry::TimerDropped { .. });
                    self.remove(index);
                }
                _ => index += 1,
            }
        }
        is_recorded
    }

    /// Returns the record of a step: of this number among those of its key, counted from 1. Each is
    /// returned once.
    pub fn step(&mut self, key: &str, number: u32) -> RecordedStep {
        let is_passed = |recorded: &&Recorded| recorded.entry.is_delivery();
        let passed = match self.passes_deliveries {
            true => self.entries.iter().take_while(is_passed).count(),
            false => 0,
        };
        match self.entries.get(passed).map(|recorded| &recorded.entry) {
            None => RecordedStep::New,
            Some(Entry::StepDone { key: recorded, number: counted, .. })
                if recorded == key && counted.is_none_or(|counted| counted == number) =>
            {
                match self.remove(passed) {
                    Some(Entry::StepDone { record, .. }) => RecordedStep::Recorded(record),
                    _ => RecordedStep::New,
                }
            }
            Some(_) => RecordedStep::NotYet,
        }
    }

    /// Permits the next step to be replayed before the answers and timers that come next, if some
    /// do: the flow does not take them now. Returns whether that is new.
    pub fn pass_deliveries(&mut self) -> bool {
        let is_new = !self.passes_deliveries && self.has_answer();
        self.passes_deliveries |= is_new;
        is_new
    }

    /// Returns the next recorded value that was drawn under this key.
    pub fn drawn(&mut self, key: &str) -> Option<StepOutcome> {
        self.drawn.get_mut(key)?.pop_front()
    }

    /// Returns the number of the next link that was made for this signal or question.
    pub fn link(&mut self, key: &str, is_question: bool) -> Option<u32> {
        self.links.get_mut(&(key.to_owned(), is_question))?.pop_front()
    }

    /// Returns whether a label of this key was set before; each time counts once.
    pub fn labelled(&mut self, key: &str) -> bool {
        self.noted(&label_note(key))
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

    /// Returns whether the session begins to close now: everything before that was replayed.
    pub fn is_closing(&self) -> bool {
        matches!(self.next(), Some(Entry::Closing))
    }

    /// Returns whether the session begins to close, now or later.
    pub fn has_closing(&self) -> bool {
        self.entries.iter().any(|recorded| matches!(recorded.entry, Entry::Closing))
    }

    /// Begins to close the session if nothing comes before that but answers and timers, which the
    /// flow has not taken. Returns whether it does.
    pub fn close(&mut self) -> bool {
        let deliveries = self.entries.iter().take_while(|recorded| recorded.entry.is_delivery());
        let place = deliveries.count();
        let closes =
            matches!(self.entries.get(place), Some(Recorded { entry: Entry::Closing, .. }));
        if closes {
            (0..=place).for_each(|_| drop(self.remove(0)));
        }
        closes
    }

    /// Returns whether everything recorded was replayed, apart from drawn values and data.
    pub fn is_over(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether an answer or the firing of a timer comes next. Its question was asked again,
    /// so the flow takes it as soon as it is polled there.
    pub fn has_answer(&self) -> bool {
        self.next().is_some_and(Entry::is_delivery)
    }

    /// Returns whether the flow has yet to get to where the journal ended when it was loaded.
    pub fn is_behind(&self) -> bool {
        self.loaded > 0
    }

    /// Returns the index of the next event to replay, if the journal had it when it was loaded.
    pub fn next_index(&self) -> Option<usize> {
        self.entries.front().filter(|_| self.is_behind()).map(|recorded| recorded.index)
    }

    fn next(&self) -> Option<&Entry> {
        self.entries.front().map(|recorded| &recorded.entry)
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push_back(Recorded { index: self.events, entry });
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
            JournalEvent::SignalAwaited { key, .. } => {
                let number = self.signal_waits;
                self.signal_waits = number.saturating_add(1);
                Some(Entry::SignalAwaited { number, key: key.clone() })
            }
            JournalEvent::SignalWaitDropped { wait, .. } => {
                Some(Entry::SignalWaitDropped { number: *wait })
            }
            JournalEvent::EndBegun { .. } => Some(Entry::Closing),
            JournalEvent::Started(_)
            | JournalEvent::Signalled { .. }
            | JournalEvent::LinkMade { .. }
            | JournalEvent::LinkRevoked { .. }
            | JournalEvent::SignalTaken { .. }
            | JournalEvent::Began { .. }
            | JournalEvent::Rejected { .. }
            | JournalEvent::StepBegun { .. }
            | JournalEvent::StepFailed { .. }
            | JournalEvent::StepDone { .. }
            | JournalEvent::DataSet { .. }
            | JournalEvent::Labelled { .. }
            | JournalEvent::Imported { .. }
            | JournalEvent::Rewound { .. }
            | JournalEvent::Stuck { .. }
            | JournalEvent::Unstuck { .. }
            | JournalEvent::Ended(_) => None,
        }
    }

    /// Delivers the answers given ahead whose turn has come.
    fn deliver(&mut self) {
        while let Some((number, Some(value))) = self.outstanding.front_mut() {
            let (number, value) = (*number, value.take());
            self.outstanding.pop_front();
            self.push(Entry::Answered { number, value });
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
        self.passes_deliveries = false;
        self.entries.remove(index).map(|recorded| recorded.entry)
    }
}

/// Returns the note of a label. No key of data begins like that.
fn label_note(key: &str) -> String {
    format!("~label {key}")
}

/// Returns whether a key is that of a drawn value, perhaps in a nested flow, and not of a step.
fn is_drawn(key: &str) -> bool {
    key.starts_with('~') || key.contains(".~")
}
