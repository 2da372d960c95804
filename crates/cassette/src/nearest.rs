//! The recorded request that is most like another one.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use crate::tape::{Exchange, Tape, key};

/// Finds the recorded request nearest to one that was not recorded: of the nearest method, of those about the
/// nearest name or URI, with the nearest params.
pub(crate) fn nearest<'a>(tape: &'a Tape, method: &str, params: &Value) -> Option<&'a Exchange> {
    let wanted = (shorten(method), name_of(params).map(shorten));
    let likeness = |exchange: &Exchange| {
        let distance = match exchange.method == method {
            true => 0,
            false => strsim::levenshtein(&wanted.0, &shorten(&exchange.method)),
        };
        (Reverse(distance), name_of(&exchange.params) == name_of(params))
    };
    let requests = || tape.exchanges.iter().filter(|exchange| exchange.is_request);
    let best = requests().map(likeness).max()?;
    let candidates = requests().filter(|exchange| likeness(exchange) == best).take(MAX_CANDIDATES);
    let text = shorten(&key("", params, &tape.variations));
    let rank = |exchange: &&Exchange| {
        let names = name_of(&exchange.params).map(shorten).zip(wanted.1.as_ref());
        let name = names.map_or(0.0, |(name, wanted)| strsim::jaro_winkler(&name, wanted));
        let other = shorten(&key("", &exchange.params, &tape.variations));
        (name, strsim::jaro_winkler(&text, &other))
    };
    let compare = |one: &(f64, f64), other: &(f64, f64)| {
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    };
    let ranked = candidates.map(|exchange| (rank(&exchange), exchange));
    ranked.max_by(|(one, _), (other, _)| compare(one, other)).map(|(_, exchange)| exchange)
}

/// The name or URI of what a request is about.
pub(crate) fn name_of(params: &Value) -> Option<&str> {
    params.get("name").or(params.get("uri")).and_then(Value::as_str)
}

/// A text for people: the method and the beginning of its params.
pub(crate) fn describe(method: &str, params: &Value) -> String {
    let mut params = params.clone();
    if let Some(members) = params.as_object_mut() {
        members.remove("_meta");
    }
    let is_empty = params.is_null() || params.as_object().is_some_and(Map::is_empty);
    let text = if is_empty { String::new() } else { params.to_string() };
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{method} {short}{dots}").trim_end().to_owned()
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_COMPARED).collect()
}

const MAX_CANDIDATES: usize = 1000;

const MAX_COMPARED: usize = 400;

const MAX_SHOWN: usize = 300;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::nearest;
    use crate::format::Cassette;
    use crate::tape::Tape;

    #[test]
    fn the_nearest_request_is_about_the_same() {
        let mut text = "{\"cassette\":1}\n".to_owned();
        let call = |name: &str, arguments: Value| {
            ("tools/call", json!({"name": name, "arguments": arguments}))
        };
        let read = |uri: &str| ("resources/read", json!({"uri": uri}));
        for (method, params) in [
            call("echo", json!({"text": "hello"})),
            call("list_files", json!({})),
            call("search", json!({"query": "rust runtime", "limit": 10})),
            call("search", json!({"query": "python", "limit": 3})),
            read("file:///a/b.txt"),
            read("file:///zzz"),
        ] {
            let message = json!({"id": 1, "method": method, "params": params});
            text += &format!("{}\n", json!({"from": "client", "message": message}));
        }
        let tape = Tape::new(&Cassette::parse(text.as_bytes()).unwrap(), &[]);
        for ((method, params), line) in [
            (call("echo", json!({})), 2),
            (call("list_files", json!({"text": "hello"})), 3),
            (call("search", json!({"query": "rust runtimes", "limit": 11})), 4),
            (call("search", json!({"query": "pyton"})), 5),
            (call("serch", json!({"query": "rust", "limit": 10})), 4),
            (read("file:///a/c.txt"), 6),
            (("resource/read", json!({"uri": "file:///zzz"})), 7),
            (("tools/cal", json!({"name": "list_files"})), 3),
        ] {
            let found = nearest(&tape, method, &params).unwrap();
            assert_eq!(found.line, line, "{method} {params}");
        }
    }
}
