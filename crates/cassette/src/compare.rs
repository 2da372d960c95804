//! Differences between a recorded and a live result.

use std::collections::{HashMap, HashSet};

use mcp_flow_proto::secrets::decode_base64_text;
use regex::Regex;
use serde_json::Value;

use crate::mask::MASK;
use crate::renamed::Renamed;

/// A place at which two values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path, such as `result.content.0.text`.
    pub path: String,
    /// Recorded value, shortened; empty if there was none.
    pub recorded: String,
    /// Live value, shortened; empty if there is none.
    pub live: String,
}

/// Members that vary from run to run.
#[derive(Clone, Debug, Default)]
pub struct Variations {
    names: HashSet<String>,
    /// Paths, with `*` in place of positions, by the request's method and name.
    paths: HashSet<(String, String)>,
}

impl Variations {
    /// Ignores members with these names, wherever they are.
    pub fn named(names: &[String]) -> Self {
        Self { names: names.iter().cloned().collect(), paths: HashSet::new() }
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Learns that a path of the results of a request varies.
    pub(crate) fn learn(&mut self, request: &str, path: &str) {
        self.paths.insert((request.to_owned(), general(path)));
    }

    pub(crate) fn varies(&self, request: &str, path: &str) -> bool {
        !self.paths.is_empty() && self.paths.contains(&(request.to_owned(), general(path)))
    }
}

/// A path with `*` in place of positions.
fn general(path: &str) -> String {
    let part = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => "*".to_owned(),
        false => part.to_owned(),
    };
    path.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Compares values, with rules for what varies.
pub(crate) struct Comparison<'a> {
    pub(crate) variations: &'a Variations,
    /// The request's method and name.
    pub(crate) request: &'a str,
    /// Times and UUIDs count as different.
    pub(crate) is_strict: bool,
    pub(crate) patterns: &'a CommonPatterns,
    pub(crate) differences: Vec<Difference>,
    /// Texts that may differ and do: later requests of the client refer to them.
    pub(crate) renamed: Renamed,
}

/// Patterns of texts that differ from run to run.
#[derive(Debug)]
pub(crate) struct CommonPatterns {
    time: Regex,
    uuid: Regex,
}

impl CommonPatterns {
    #[expect(clippy::expect_used, reason = "the patterns are constant, and tests compile them")]
    pub(crate) fn new() -> Self {
        let compile = |pattern: &str| Regex::new(pattern).expect("the pattern is valid");
        Self {
            // A date with a time, or the time of a day.
            time: compile(concat!(
                r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?",
                r"|[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?( ?[AaPp][Mm])?",
            )),
            uuid: compile(
                "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
            ),
        }
    }

    fn normalize(&self, text: &str) -> String {
        let text = self.time.replace_all(text, "<time>");
        self.uuid.replace_all(&text, "<uuid>").into_owned()
    }
}

impl Comparison<'_> {
    pub(crate) fn compare(&mut self, path: &str, recorded: &Value, live: &Value) {
        if self.variations.varies(self.request, path) {
            self.renamed.note(path, recorded, live);
            return;
        }
        if self.differences.len() >= MAX_DIFFERENCES {
            return;
        }
        match (recorded, live) {
            (Value::Object(before), Value::Object(now)) => {
                for (name, value) in before {
                    let live = now.get(name);
                    let path = format!("{path}.{name}");
                    match live {
                        _ if self.is_ignored(name) => {
                            self.renamed.note(&path, value, live.unwrap_or(&Value::Null));
                        }
                        Some(live) => self.compare(&path, value, live),
                        None => self.differ(path, Some(value), None),
                    }
                }
                for (name, value) in now {
                    if !before.contains_key(name) && !self.is_ignored(name) {
                        self.differ(format!("{path}.{name}"), None, Some(value));
                    }
                }
            }
            (Value::Array(before), Value::Array(now)) => self.compare_arrays(path, before, now),
            (Value::String(before), Value::String(now)) if before != now => {
                match inner_values(before, now) {
                    Some((before, now)) => self.compare(path, &before, &now),
                    None if self.is_common_variation(before, now) => {
                        self.renamed.note(path, recorded, live);
                    }
                    None => self.differ(path.to_owned(), Some(recorded), Some(live)),
                }
            }
            (Value::Number(before), Value::Number(now)) if before.as_f64() == now.as_f64() => {}
            (Value::String(before), _) if before == MASK => {}
            _ if recorded == live => {}
            _ => self.differ(path.to_owned(), Some(recorded), Some(live)),
        }
    }

    /// Compares values in their order, or by their names: one more tool does not change the others.
    fn compare_arrays(&mut self, path: &str, before: &[Value], now: &[Value]) {
        let Some((old, new)) = names_of(before).zip(names_of(now)) else {
            for (index, value) in before.iter().enumerate() {
                let path = format!("{path}.{index}");
                match now.get(index) {
                    Some(live) => self.compare(&path, value, live),
                    None => self.differ(path, Some(value), None),
                }
            }
            for (index, value) in now.iter().enumerate().skip(before.len()) {
                self.differ(format!("{path}.{index}"), None, Some(value));
            }
            return;
        };
        let positions: HashMap<&str, usize> =
            new.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let mut kept = Vec::new();
        for (index, (name, value)) in old.iter().zip(before).enumerate() {
            let path = format!("{path}.{index}");
            match positions.get(name) {
                Some(at) => {
                    self.compare(&path, value, &now[*at]);
                    kept.push(*at);
                }
                None => self.differ(path, Some(value), None),
            }
        }
        let known: HashSet<&str> = old.iter().copied().collect();
        for (index, (name, value)) in new.iter().zip(now).enumerate() {
            if !known.contains(name) {
                self.differ(format!("{path}.{index}"), None, Some(value));
            }
        }
        if !kept.is_sorted() {
            let in_order = |names: &[&str]| Value::from(names.join(", "));
            self.differ(path.to_owned(), Some(&in_order(&old)), Some(&in_order(&new)));
        }
    }

    fn is_ignored(&self, name: &str) -> bool {
        OPAQUE.contains(&name) || self.variations.has_name(name)
    }

    /// Returns whether texts differ only where they were masked, or in times and UUIDs.
    fn is_common_variation(&self, before: &str, now: &str) -> bool {
        if before.contains(MASK) {
            return fits_mask(before, now);
        }
        !self.is_strict && {
            let (before, now) = (self.patterns.normalize(before), self.patterns.normalize(now));
            before == now
        }
    }

    fn differ(&mut self, path: String, recorded: Option<&Value>, live: Option<&Value>) {
        if self.variations.varies(self.request, &path) {
            return;
        }
        let show = |value: Option<&Value>| {
            let text = value.map(Value::to_string).unwrap_or_default();
            let short: String = text.chars().take(MAX_SHOWN).collect();
            if short.len() < text.len() { format!("{short}…") } else { short }
        };
        self.differences.push(Difference { path, recorded: show(recorded), live: show(live) });
    }
}

/// The values that two texts hold: JSON, whose formatting and order do not matter and change when it is
/// masked, or texts in base64.
fn inner_values(before: &str, now: &str) -> Option<(Value, Value)> {
    let json = |text: &str| -> Option<Value> {
        let text = text.trim();
        text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok())?
    };
    let base64 = |text: &str| (text.len() >= MIN_BASE64).then(|| decode_base64_text(text))?;
    json(before).zip(json(now)).or_else(|| Some((base64(before)?.into(), base64(now)?.into())))
}

/// The names or URIs of objects, if each has one of its own.
fn names_of(values: &[Value]) -> Option<Vec<&str>> {
    fn name(value: &Value) -> Option<&str> {
        ["name", "uri", "uriTemplate"].iter().find_map(|member| value.get(member)?.as_str())
    }
    let names: Vec<_> = values.iter().map(name).collect::<Option<_>>()?;
    let unique = names.iter().collect::<HashSet<_>>().len();
    (unique == names.len()).then_some(names)
}

/// Returns whether a live value is a recorded one apart from what was masked and what varies.
pub(crate) fn fits_masked(recorded: &Value, live: &Value, variations: &Variations) -> bool {
    match (recorded, live) {
        (Value::String(before), _) if before == MASK => true,
        (Value::String(before), Value::String(now)) => {
            before == now || before.contains(MASK) && fits_mask(before, now)
        }
        (Value::Array(before), Value::Array(now)) => {
            let mut both = before.iter().zip(now);
            before.len() == now.len()
                && both.all(|(one, other)| fits_masked(one, other, variations))
        }
        (Value::Object(before), Value::Object(now)) => {
            let is_kept = |name: &&String| !variations.has_name(name);
            now.keys().filter(is_kept).all(|name| before.contains_key(name))
                && before.iter().filter(|(name, _)| is_kept(name)).all(|(name, value)| {
                    now.get(name).is_some_and(|now| fits_masked(value, now, variations))
                })
        }
        (Value::Number(before), Value::Number(now)) => before.as_f64() == now.as_f64(),
        _ => recorded == live,
    }
}

/// Returns whether a text has the parts around what was masked, in their order.
fn fits_mask(before: &str, now: &str) -> bool {
    let mut parts = before.split(MASK);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = now.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Members whose values mean something only to the server that gave them.
const OPAQUE: [&str; 9] = [
    "requestState",
    "sessionId",
    "sessionToken",
    "nextCursor",
    "taskId",
    "createdAt",
    "lastUpdatedAt",
    "elicitationId",
    "_meta",
];

/// Shortest base64 that is compared by what it holds.
const MIN_BASE64: usize = 12;

const MAX_DIFFERENCES: usize = 100;

const MAX_SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::{CommonPatterns, Comparison, Variations};
    use crate::renamed::Renamed;
    use serde_json::{Value, json};

    fn differences(recorded: &Value, live: &Value, variations: &Variations) -> Vec<String> {
        let patterns = CommonPatterns::new();
        let mut comparison = Comparison {
            variations,
            request: "tools/call x",
            is_strict: false,
            patterns: &patterns,
            differences: Vec::new(),
            renamed: Renamed::default(),
        };
        comparison.compare("result", recorded, live);
        comparison.differences.into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn only_real_differences_are_reported() {
        let none = Variations::default();
        for (recorded, live, expected) in [
            (json!({"a": 1}), json!({"a": 1.0}), &[][..]),
            (json!({"a": 1}), json!({"a": 2}), &["result.a"]),
            (json!({"a": 1}), json!({}), &["result.a"]),
            (json!({}), json!({"a": 1}), &["result.a"]),
            (json!([1, 2]), json!([1, 3, 4]), &["result.1", "result.2"]),
            (json!("at 2026-01-01T10:00:00Z"), json!("at 2027-02-03 11:12:13.5+01:00"), &[]),
            (json!("x 2026-01-01T10:00:00Z"), json!("y 2026-01-01T10:00:00Z"), &["result"]),
            (json!({"requestState": "abcd"}), json!({"requestState": "efgh"}), &[]),
            (json!({"k": "[masked]"}), json!({"k": "secret"}), &[]),
            (json!("token=[masked] ok"), json!("token=abc ok"), &[]),
            (json!("token=[masked] ok"), json!("token=abc bad"), &["result"]),
            (json!(null), json!("x"), &["result"]),
            (json!("made at 9:18:05 AM"), json!("made at 10:00:59 PM"), &[]),
            (json!("{\"a\":1,\"b\":\"[masked]\"}"), json!("{\n \"b\": \"x\", \"a\": 1}"), &[]),
            (json!("{\"a\":1}"), json!("{\"a\":2}"), &["result.a"]),
            (json!({"sessionId": "a1", "sessionToken": "b"}), json!({"sessionId": "c2"}), &[]),
            // "made at 8:28:34 PM", "made at 9:07:01 AM", "sold at 9:07:01 AM" in base64.
            (json!("bWFkZSBhdCA4OjI4OjM0IFBN"), json!("bWFkZSBhdCA5OjA3OjAxIEFN"), &[]),
            (json!("bWFkZSBhdCA4OjI4OjM0IFBN"), json!("c29sZCBhdCA5OjA3OjAxIEFN"), &["result"]),
            // What has a name is compared by it, wherever it is.
            (
                json!([{"name": "a", "x": 1}, {"name": "b", "x": 1}, {"name": "c", "x": 1}]),
                json!([{"name": "new"}, {"name": "a", "x": 1}, {"name": "b", "x": 2}]),
                &["result.1.x", "result.2", "result.0"],
            ),
            (json!([{"uri": "a"}, {"uri": "b"}]), json!([{"uri": "b"}, {"uri": "a"}]), &["result"]),
            (
                json!([{"name": "a"}, {"name": "a"}]),
                json!([{"name": "a"}, {"name": "b"}]),
                &["result.1.name"],
            ),
        ] {
            assert_eq!(differences(&recorded, &live, &none), expected, "{recorded} {live}");
        }
        let (recorded, live) = (json!({"l": [{"pid": 1}]}), json!({"l": [{"pid": 2}]}));
        assert!(differences(&recorded, &live, &Variations::named(&["pid".to_owned()])).is_empty());
        let mut learned = Variations::default();
        learned.learn("tools/call x", "result.l.7.pid");
        assert!(differences(&recorded, &live, &learned).is_empty());
    }
}
