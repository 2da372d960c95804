//! Order of recorded messages: an answer follows its question.
//!
//! Clocks, concurrent relays and editors can put a response before the request that it answers. Whoever
//! plays the recording would wait for the request forever.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::format::{Body, Record, Side};

/// Moves responses that precede their requests right behind them.
pub(crate) fn put_answers_behind_questions(records: Vec<Record>) -> Vec<Record> {
    let keys: Vec<_> = records.iter().map(key_of).collect();
    let is_request = |key: &&Option<(Key, bool)>| matches!(key, Some((_, true)));
    let mut unasked: HashSet<Key> =
        keys.iter().filter(is_request).flatten().map(|(key, _)| key.clone()).collect();
    let mut early: HashMap<Key, Vec<Record>> = HashMap::new();
    let mut ordered = Vec::with_capacity(records.len());
    for (record, key) in records.into_iter().zip(keys) {
        match key {
            Some((key, false)) if unasked.contains(&key) => {
                early.entry(key).or_default().push(record);
            }
            Some((key, true)) => {
                ordered.push(record);
                unasked.remove(&key);
                ordered.extend(early.remove(&key).unwrap_or_default());
            }
            _ => ordered.push(record),
        }
    }
    ordered
}

/// Connection, sender and id of a request.
type Key = (u64, bool, String);

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

/// The request that a record is or answers, and whether it is the request. None of notifications,
/// batches and what was too large to be kept.
fn key_of(record: &Record) -> Option<(Key, bool)> {
    let Body::Message(raw) = &record.body else { return None };
    let head: Head<'_> = serde_json::from_str(raw.get()).ok()?;
    let id = head.id?.get().to_owned();
    let is_request = head.method.is_some();
    let is_from_client = (record.from == Side::Client) == is_request;
    Some(((record.connection, is_from_client, id), is_request))
}

#[cfg(test)]
mod tests {
    use crate::format::Cassette;

    #[test]
    fn an_answer_that_precedes_its_question_is_moved_behind_it() {
        let line = |from: &str, message: &str| {
            format!("{{\"at\":1,\"from\":\"{from}\",\"message\":{message}}}\n")
        };
        let text = [
            "{\"cassette\":1}\n".to_owned(),
            line("client", "{\"id\":7,\"method\":\"tools/call\"}"),
            line("client", "{\"id\":7,\"result\":{\"answer\":1}}"),
            line("client", "{\"id\":9,\"result\":{\"nobody\":\"asked\"}}"),
            line("server", "{\"id\":7,\"method\":\"elicitation/create\"}"),
            line("server", "{\"id\":7,\"result\":{\"done\":1}}"),
        ];
        let cassette = Cassette::parse(text.concat().as_bytes()).unwrap();
        let lines: Vec<_> = cassette.records.iter().map(|record| record.line).collect();
        assert_eq!(lines, [2, 4, 5, 3, 6]);
    }
}
