//! Secrets that were removed from messages, to be removed wherever they are repeated.

use std::collections::VecDeque;

use serde_json::Value;

use crate::mask::MASK;

/// The latest secrets of a connection.
#[derive(Debug, Default)]
pub(crate) struct RemovedTexts {
    texts: VecDeque<String>,
    bytes: usize,
}

impl RemovedTexts {
    /// Remembers a secret, and what is behind the scheme or name in it: `Bearer x`, `user:x`.
    pub(crate) fn add(&mut self, secret: &str) {
        if let Some((_, behind)) = secret.split_once([' ', ':']) {
            self.add_one(behind.trim_start());
        }
        // Within JSON in a string.
        let encoded = Value::from(secret).to_string();
        self.add_one(encoded.get(1..encoded.len() - 1).unwrap_or_default());
        self.add_one(secret);
    }

    fn add_one(&mut self, text: &str) {
        // Shorter texts are found in too much that is no secret.
        let has_length = (MIN_LENGTH..=MAX_LENGTH).contains(&text.len());
        let is_mask = text.contains(MASK) || MASK.contains(text);
        if !has_length || is_mask || self.texts.iter().any(|known| known == text) {
            return;
        }
        self.bytes += text.len();
        self.texts.push_back(text.to_owned());
        while self.texts.len() > MAX_TEXTS || self.bytes > MAX_BYTES {
            self.bytes -= self.texts.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Masks the secrets in all texts of a value, and the numbers that are one.
    pub(crate) fn remove_from(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.remove_from_text(text),
            Value::Number(number) if self.texts.contains(&number.to_string()) => {
                *value = MASK.into();
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.remove_from(value)),
            Value::Object(members) => {
                members.values_mut().for_each(|value| self.remove_from(value));
            }
            _ => {}
        }
    }

    /// Masks the secrets in a text.
    pub(crate) fn remove_from_text(&self, text: &mut String) {
        // The latest first: an earlier one may be a part of it.
        for secret in self.texts.iter().rev() {
            if text.contains(secret.as_str()) {
                *text = without(text, secret);
            }
        }
    }
}

/// A text with a secret masked. One of letters only may be a part of any word, and is replaced where it
/// stands alone.
fn without(text: &str, secret: &str) -> String {
    let is_word = secret.chars().all(char::is_alphabetic);
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(secret) {
        let end = at + secret.len();
        let is_part = text[..at].ends_with(char::is_alphabetic)
            || text[end..].starts_with(char::is_alphabetic);
        if !(is_word && is_part) {
            out.push_str(&text[copied..at]);
            out.push_str(MASK);
            copied = end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Shortest text that is remembered, in bytes.
const MIN_LENGTH: usize = 6;

const MAX_LENGTH: usize = 4096;

/// Limit on texts of a connection.
const MAX_TEXTS: usize = 64;

/// Limit on the texts of a connection together, in bytes.
const MAX_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::RemovedTexts;
    use serde_json::json;

    #[test]
    fn repeated_secrets_are_masked_and_parts_of_words_stay() {
        let mut removed = RemovedTexts::default();
        for secret in
            ["topsecretXYZ1", "include", "Bearer abcdefg1", "me:pass\"word", "short", "246810"]
        {
            removed.add(secret);
        }
        for (text, masked) in [
            ("Echo: topsecretXYZ1.", "Echo: [masked]."),
            ("xtopsecretXYZ1y", "x[masked]y"),
            ("it includes to include", "it includes to [masked]"),
            ("abcdefg1 and Bearer abcdefg1", "[masked] and [masked]"),
            ("pass\"word", "[masked]"),
            ("{\"said\":\"me:pass\\\"word\"}", "{\"said\":\"[masked]\"}"),
            ("short", "short"),
            ("your code is 246810", "your code is [masked]"),
        ] {
            let mut value = json!({"list": [text]});
            removed.remove_from(&mut value);
            assert_eq!(value["list"][0], masked);
        }
        let mut number = json!(246_810);
        removed.remove_from(&mut number);
        assert_eq!(number, "[masked]");
    }

    #[test]
    fn a_bounded_number_of_secrets_is_remembered() {
        let mut removed = RemovedTexts::default();
        (0..10_000).for_each(|number| removed.add(&format!("secret-{number}")));
        removed.add(&"x".repeat(4000));
        let bytes: usize = removed.texts.iter().map(String::len).sum();
        assert!(removed.texts.len() <= 64 && bytes == removed.bytes && bytes <= 16 * 1024);
        let mut value = json!(["secret-9999", "secret-1"]);
        removed.remove_from(&mut value);
        assert_eq!(value, json!(["[masked]", "secret-1"]));
    }
}
