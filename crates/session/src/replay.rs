//! Replay of a journal for a flow that runs again from the top.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;

use crate::event::{JournalEvent, StepOutcome};
use crate::prompt::Prompt;

/// Recorded results of a flow, returned as the flow asks for them again.
///
/// Questions are replayed strictly in the order they were asked. Steps and data are replayed by
/// key, in order within a key, because concurrent steps may have finished in any order.
#[derive(Debug, Default)]
pub struct Replay {
    questions: VecDeque<Past>,
    steps: HashMap<String, VecDeque<StepOutcome>>,
    notes: HashMap<String, usize>,
    turn: usize,
}

#[derive(Debug)]
struct Past {
    key: String,
    /// None if there is nothing to compare: it was answered by a parameter, or asked in this run.
    prompt: Option<Arc<Prompt>>,
    answer: Option<Value>,
}

/// The journal's record of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedQuestion {
    /// It was answered.
    Answered(Value),
    /// It is the open question.
    Open,
    /// The journal ends before it: ask it.
    New,
    /// Another question was asked first. Its turn may come if branches of the flow run
    /// concurrently.
    NotYet,
    /// The journal has another question under this key.
    Differs(Divergence),
}

/// The flow asks another question than its journal has; its code must have changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "turn {turn} asked `{recorded_key}` ({recorded}) before and `{asked_key}` ({asked}) now; \
     the flow must have changed since"
)]
pub struct Divergence {
    /// Number of the question, counted from 0.
    pub turn: usize,
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
                JournalEvent::Asked(asked) => replay.questions.push_back(Past {
                    key: asked.key.clone(),
                    prompt: Some(asked.prompt.clone()),
                    answer: None,
                }),
                JournalEvent::Given { key, value, .. } => replay.questions.push_back(Past {
                    key: key.clone(),
                    prompt: None,
                    answer: Some(value.clone()),
                }),
                JournalEvent::Answered(answered) => {
                    if let Some(question) = replay.questions.back_mut() {
                        question.answer = Some(answered.value.clone());
                    }
                }
                JournalEvent::StepDone { key, outcome, .. } => {
                    replay.steps.entry_ref(key.as_str()).or_default().push_back(outcome.clone());
                }
                JournalEvent::DataSet { key, .. } => {
                    *replay.notes.entry_ref(key.as_str()).or_default() += 1;
                }
                JournalEvent::Started(_)
                | JournalEvent::Began { .. }
                | JournalEvent::Rejected { .. }
                | JournalEvent::Ended(_) => {}
            }
        }
        replay
    }

    /// Returns the record of the question the flow asks now. An answer is returned once.
    pub fn question(&mut self, key: &str, prompt: &Prompt) -> RecordedQuestion {
        let Some(past) = self.questions.front() else { return RecordedQuestion::New };
        if past.key != key {
            return RecordedQuestion::NotYet;
        }
        if past.prompt.as_ref().is_some_and(|recorded| **recorded != *prompt) {
            return RecordedQuestion::Differs(self.divergence(Some((key, prompt))));
        }
        if past.answer.is_none() {
            return RecordedQuestion::Open;
        }
        self.turn += 1;
        match self.questions.pop_front().and_then(|past| past.answer) {
            Some(answer) => RecordedQuestion::Answered(answer),
            None => RecordedQuestion::New,
        }
    }

    /// Answers the open question; the flow gets the answer when it is polled again.
    pub fn answer(&mut self, value: Value) {
        // It is the last one, though the flow may not have replayed that far.
        if let Some(open) = self.questions.back_mut() {
            open.answer = Some(value);
        }
    }

    /// Records a question that was just asked. It is not compared with itself.
    pub fn asked(&mut self, key: &str) {
        self.questions.push_back(Past { key: key.to_owned(), prompt: None, answer: None });
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

    /// Returns whether all recorded questions were replayed.
    pub fn is_over(&self) -> bool {
        self.questions.is_empty()
    }

    /// Describes how the next recorded question differs from what the flow asks, or from its end.
    pub fn divergence(&self, now: Option<(&str, &Prompt)>) -> Divergence {
        let past = self.questions.front();
        let message = |prompt: Option<&Prompt>| {
            prompt.map_or_else(String::new, |prompt| {
                let message: String = prompt.message.chars().take(MESSAGE_LIMIT).collect();
                format!("{:?} {message:?}", prompt.kind)
            })
        };
        Divergence {
            turn: self.turn,
            recorded_key: past.map_or_else(String::new, |past| past.key.clone()),
            recorded: message(past.and_then(|past| past.prompt.as_deref())),
            asked_key: now.map_or_else(String::new, |(key, _)| key.to_owned()),
            asked: now.map_or_else(|| "the end".to_owned(), |(_, prompt)| message(Some(prompt))),
        }
    }
}

const MESSAGE_LIMIT: usize = 80;
