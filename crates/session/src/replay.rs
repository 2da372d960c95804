//! A journal for a flow that runs again from the top.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;

use crate::event::{Event, Outcome};
use crate::prompt::Prompt;

/// What a flow has done before, handed out in the order it asks for it.
///
/// Questions come back strictly in the order they were asked. Steps and notes come back by key,
/// the first of a key first, because steps that ran side by side may have ended in any order.
#[derive(Debug, Default)]
pub struct Replay {
    questions: VecDeque<Past>,
    steps: HashMap<String, VecDeque<Outcome>>,
    notes: HashMap<String, usize>,
    turn: usize,
}

#[derive(Debug)]
struct Past {
    key: String,
    /// None if there is nothing to compare: it was answered from the start, or asked in this run.
    prompt: Option<Arc<Prompt>>,
    answer: Option<Value>,
}

/// What the journal knows of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// It was answered.
    Answered(Value),
    /// It is the open question.
    Open,
    /// The journal ends before it: ask.
    New,
    /// Another question came first. Where parts of a flow run side by side, its turn may come.
    NotYet,
    /// The journal has another question under this key.
    Differs(Divergence),
}

/// The flow asks something other than it did before; the code must have changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "turn {turn} asked `{recorded_key}` ({recorded}) before and `{asked_key}` ({asked}) now; \
     the flow must have changed since"
)]
pub struct Divergence {
    /// Which question, counted from 0.
    pub turn: usize,
    /// The key the journal has.
    pub recorded_key: String,
    /// The question the journal has.
    pub recorded: String,
    /// The key the flow asks now, or nothing where it came to its end instead.
    pub asked_key: String,
    /// The question the flow asks now.
    pub asked: String,
}

impl Replay {
    /// Takes a journal apart.
    pub fn new(events: &[Event]) -> Self {
        let mut replay = Self::default();
        for event in events {
            match event {
                Event::Asked(asked) => replay.questions.push_back(Past {
                    key: asked.key.clone(),
                    prompt: Some(asked.prompt.clone()),
                    answer: None,
                }),
                Event::Given { key, value, .. } => replay.questions.push_back(Past {
                    key: key.clone(),
                    prompt: None,
                    answer: Some(value.clone()),
                }),
                Event::Answered(answered) => {
                    if let Some(question) = replay.questions.back_mut() {
                        question.answer = Some(answered.value.clone());
                    }
                }
                Event::StepDone { key, outcome, .. } => {
                    replay.steps.entry_ref(key.as_str()).or_default().push_back(outcome.clone());
                }
                Event::DataSet { key, .. } => {
                    *replay.notes.entry_ref(key.as_str()).or_default() += 1;
                }
                Event::Started(_)
                | Event::Began { .. }
                | Event::Rejected { .. }
                | Event::Ended(_) => {}
            }
        }
        replay
    }

    /// What is known of the question a flow asks now. An answer is handed out once.
    pub fn question(&mut self, key: &str, prompt: &Prompt) -> Known {
        let Some(past) = self.questions.front() else { return Known::New };
        if past.key != key {
            return Known::NotYet;
        }
        if past.prompt.as_ref().is_some_and(|recorded| **recorded != *prompt) {
            return Known::Differs(self.divergence(Some((key, prompt))));
        }
        if past.answer.is_none() {
            return Known::Open;
        }
        self.turn += 1;
        match self.questions.pop_front().and_then(|past| past.answer) {
            Some(answer) => Known::Answered(answer),
            None => Known::New,
        }
    }

    /// Fills in the answer to the open question, which the flow gets when it looks again.
    pub fn answer(&mut self, value: Value) {
        // It is the last on record, though the flow may yet have to come that far.
        if let Some(open) = self.questions.back_mut() {
            open.answer = Some(value);
        }
    }

    /// Notes a question that has just been asked. It is not compared with itself.
    pub fn asked(&mut self, key: &str) {
        self.questions.push_back(Past { key: key.to_owned(), prompt: None, answer: None });
    }

    /// How a step of this key ended before, the first one first.
    pub fn step(&mut self, key: &str) -> Option<Outcome> {
        self.steps.get_mut(key)?.pop_front()
    }

    /// Whether a note of this key was taken before; each counts once.
    pub fn noted(&mut self, key: &str) -> bool {
        match self.notes.get_mut(key) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether the flow has asked everything it asked before.
    pub fn is_over(&self) -> bool {
        self.questions.is_empty()
    }

    /// How the next question on record differs from what the flow asks, or from its end.
    pub fn divergence(&self, now: Option<(&str, &Prompt)>) -> Divergence {
        let past = self.questions.front();
        let message = |prompt: Option<&Prompt>| {
            prompt.map_or_else(String::new, |prompt| {
                let message: String = prompt.message.chars().take(LONGEST_SHOWN).collect();
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

const LONGEST_SHOWN: usize = 80;
