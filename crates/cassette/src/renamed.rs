//! Texts of a recording that a live server has others for: ids, states, tokens. What the client sends
//! later names them as the live server did.

use std::collections::HashMap;

use serde_json::Value;

use crate::mask::MASK;

/// Live texts by the recorded ones.
#[derive(Debug, Default)]
pub(crate) struct Renamed {
    texts: HashMap<String, String>,
    /// Live texts of what was masked, by the name of the member.
    masked: HashMap<String, String>,
}

impl Renamed {
    /// Notes the texts in a value at a path, and the words in them, if there are others in their places.
    pub(crate) fn note(&mut self, path: &str, recorded: &Value, live: &Value) {
        match (recorded, live) {
            (Value::String(before), Value::String(now)) if before == MASK => {
                let name = path.rsplit('.').next().unwrap_or_default();
                self.masked.insert(name.to_owned(), now.clone());
            }
            (Value::String(before), Value::String(now)) => {
                self.note_text(before, now);
                let words = |text: &str| text.split_whitespace().count();
                if words(before) == words(now) {
                    let words = before.split_whitespace().zip(now.split_whitespace());
                    words.for_each(|(before, now)| self.note_text(bare(before), bare(now)));
                }
            }
            (Value::Array(before), Value::Array(now)) => {
                before.iter().zip(now).for_each(|(one, other)| self.note(path, one, other));
            }
            (Value::Object(before), Value::Object(now)) => {
                for (name, value) in before {
                    let live = now.get(name).unwrap_or(&Value::Null);
                    self.note(&format!("{path}.{name}"), value, live);
                }
            }
            _ => {}
        }
    }

    fn note_text(&mut self, before: &str, now: &str) {
        if before != now && before.len() >= MIN_LENGTH && !before.contains(MASK) {
            self.texts.insert(before.to_owned(), now.to_owned());
        }
    }

    /// Adds what was noted later.
    pub(crate) fn extend(&mut self, later: Self) {
        self.texts.extend(later.texts);
        self.masked.extend(later.masked);
    }

    /// Replaces each text that is a whole value.
    pub(crate) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(now) = self.texts.get(text) {
                    now.clone_into(text);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.apply(value)),
            Value::Object(members) => {
                for (name, value) in members {
                    match self.masked.get(name) {
                        Some(now) if value == MASK => *value = now.as_str().into(),
                        _ => self.apply(value),
                    }
                }
            }
            _ => {}
        }
    }
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| !letter.is_alphanumeric())
}

/// Shortest text that later requests are searched for.
const MIN_LENGTH: usize = 4;
