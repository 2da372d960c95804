//! The recorded request that is most like another one.

use serde_json::Value;

use crate::tape::{Exchange, Tape, key};

/// Finds the recorded request nearest to one that was not recorded.
pub(crate) fn nearest<'a>(tape: &'a Tape, method: &str, params: &Value) -> Option<&'a Exchange> {
    let requests = || tape.exchanges.iter().filter(|exchange| exchange.is_request);
    let wanted = shorten(&key(method, params, &tape.variations));
    let same = requests().filter(|exchange| exchange.method == method).take(MAX_CANDIDATES);
    let score = |exchange: &&Exchange| {
        let text = shorten(&key(&exchange.method, &exchange.params, &tape.variations));
        let likeness = strsim::jaro_winkler(&wanted, &text);
        #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and 1")]
        let rank = (likeness * 1e6) as i64;
        rank
    };
    same.max_by_key(score).or_else(|| {
        let rank = |exchange: &&Exchange| strsim::levenshtein(method, &exchange.method);
        requests().take(MAX_CANDIDATES).min_by_key(rank)
    })
}

/// A text for people: the method and the beginning of its params.
pub(crate) fn describe(method: &str, params: &Value) -> String {
    let mut params = params.clone();
    if let Some(members) = params.as_object_mut() {
        members.remove("_meta");
    }
    let text = params.to_string();
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{method} {short}{dots}")
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_COMPARED).collect()
}

const MAX_CANDIDATES: usize = 1000;

const MAX_COMPARED: usize = 400;

const MAX_SHOWN: usize = 300;
