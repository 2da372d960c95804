//! Removal of secrets from messages.
//!
//! Values are masked by the names of the members that hold them, and by what they look like: URLs with
//! credentials, authorization headers, keys of well-known services. JSON inside of strings is masked
//! as well. Schemas keep their property names, which are no secrets.

use std::borrow::Cow;

use mcp_flow_proto::secrets::{
    is_count_name, is_encoded_login, is_secret_name, is_working_directory, mask_and_collect,
    normalize_name,
};
use serde_json::{Map, Value};

pub use mcp_flow_proto::secrets::MASK;

/// Rules for what is masked.
#[derive(Clone, Debug)]
pub struct Masker {
    names: Vec<String>,
}

/// Surroundings of a value, on which it depends whether the value is masked.
#[derive(Clone, Copy, Default)]
struct MaskContext {
    /// Beneath a member with the name of a secret.
    is_secret: bool,
    /// Beneath a member whose numbers are no secrets.
    is_count: bool,
    /// Within a JSON Schema.
    in_schema: bool,
    /// Within an object of headers or environment variables.
    in_headers: bool,
    /// Within an object named after an API, whose `key` is a secret.
    in_api: bool,
    depth: usize,
}

impl Masker {
    /// Masks common secrets, and the values of members with these names.
    ///
    /// ```
    /// use mcp_flow_cassette::Masker;
    /// use serde_json::json;
    ///
    /// let masker = Masker::new(&["customer".to_owned()]);
    /// let mut value = json!({"customer": "Ada", "apiKey": "abc", "city": "Paris"});
    /// masker.mask(&mut value);
    /// assert_eq!(value, json!({"customer": "[masked]", "apiKey": "[masked]", "city": "Paris"}));
    /// ```
    pub fn new(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| normalize_name(name)).collect() }
    }

    /// Masks a value. Returns whether anything was masked.
    pub fn mask(&self, value: &mut Value) -> bool {
        self.mask_at(value, MaskContext::default(), &mut Vec::new())
    }

    /// Masks a value, and adds what was removed.
    pub(crate) fn mask_and_collect(&self, value: &mut Value, removed: &mut Vec<String>) {
        self.mask_at(value, MaskContext::default(), removed);
    }

    /// Masks a text, such as a line of a log.
    pub fn mask_text(&self, text: &str) -> String {
        let masked = self.masked_text(text, MaskContext::default(), &mut Vec::new());
        masked.unwrap_or_else(|| text.to_owned())
    }

    /// Masks a command, and joins its words.
    ///
    /// ```
    /// use mcp_flow_cassette::Masker;
    ///
    /// let command = ["server", "--password", "hunter2", "--port", "80"].map(str::to_owned);
    /// assert_eq!(Masker::new(&[]).mask_command(&command), "server --password [masked] --port 80");
    /// ```
    pub fn mask_command(&self, words: &[String]) -> String {
        let mut words: Vec<_> = words.iter().map(|word| Value::from(word.as_str())).collect();
        self.mask_array(&mut words, MaskContext::default(), &mut Vec::new());
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        self.mask_text(&words.join(" "))
    }

    fn mask_at(&self, value: &mut Value, context: MaskContext, removed: &mut Vec<String>) -> bool {
        match value {
            Value::Object(members) => self.mask_object(members, context, removed),
            Value::Array(values) => self.mask_array(values, context, removed),
            Value::Number(_) if context.is_count => false,
            Value::String(_) | Value::Number(_) if context.is_secret && !context.in_schema => {
                replace(value, removed)
            }
            Value::String(text) => match self.masked_text(text, context, removed) {
                Some(masked) => {
                    *text = masked;
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    fn mask_object(
        &self,
        members: &mut Map<String, Value>,
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> bool {
        // `{"name": "DB_PASSWORD", "value": …}`
        let names = ["name", "key", "header", "variable", "field", "k"];
        let mut named = names.iter().filter_map(|name| members.get(*name)?.as_str());
        let value = members.get("value").and_then(Value::as_str).unwrap_or_default();
        let is_named = !context.in_schema
            && (named.any(|name| self.is_secret(name) && !is_working_directory(name, value))
                || members.get("metadata").is_some_and(|about| self.is_key_secret(about)));
        let is_grant = members.keys().any(|name| GRANT.contains(&&*normalize_name(name)));
        let mut changed = false;
        for (name, value) in members.iter_mut() {
            let mut inner = self.enter(name, context);
            let text = value.as_str().unwrap_or_default();
            inner.is_secret &= context.is_secret || !is_working_directory(name, text);
            inner.is_secret |= is_named && VALUES.contains(&&**name);
            inner.is_secret |= is_grant && name == "code";
            changed |= match (name.as_str(), value) {
                ("response", Value::Object(response)) if is_named => {
                    response.get_mut("value").is_some_and(|value| mask_all(value, removed))
                        | self.mask_object(response, inner, removed)
                }
                ("inputResponses", Value::Object(responses)) => {
                    self.mask_responses(responses, inner, removed)
                }
                ("entries", Value::Array(entries)) => {
                    self.mask_journal(entries, removed) | self.mask_array(entries, inner, removed)
                }
                (_, value) => self.mask_at(value, inner, removed),
            };
        }
        self.mask_names(members, context, removed) | changed
    }

    /// Masks names of members that are keys: those of well-known services, and beneath the name of a secret
    /// those that are no words.
    fn mask_names(
        &self,
        members: &mut Map<String, Value>,
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> bool {
        let is_random = |name: &str| {
            name.len() >= MIN_RANDOM
                && !name.starts_with(MASK)
                && name.bytes().any(|byte| byte.is_ascii_digit())
                && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        };
        let is_key = |name: &str| {
            (context.is_secret && is_random(name))
                || matches!(mask_and_collect(name, MASK, &|_| false, &mut |_| {}), Cow::Owned(_))
        };
        if context.in_schema || !members.keys().any(|name| name.len() >= MIN_RANDOM && is_key(name))
        {
            return false;
        }
        for (name, value) in std::mem::take(members) {
            if !is_key(&name) {
                members.insert(name, value);
                continue;
            }
            removed.push(name);
            let mut number = 1;
            let mut masked = MASK.to_owned();
            while members.contains_key(&masked) {
                number += 1;
                masked = format!("{MASK} {number}");
            }
            members.insert(masked, value);
        }
        true
    }

    /// Masks values, and those behind the name of a secret option: `["--password", "x"]`.
    fn mask_array(
        &self,
        values: &mut [Value],
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> bool {
        let mut changed = self.mask_pairs(values, context, removed);
        let mut option = String::new();
        for value in values {
            let text = value.as_str().unwrap_or_default();
            let is_login = ["-u", "-U", "--user", "--proxy-user"].contains(&&*option)
                && text.split_once(':').is_some_and(|(user, _)| !user.is_empty());
            let is_value = !option.is_empty()
                && !text.starts_with("--")
                && !context.in_schema
                && (is_login || self.is_secret(&option));
            let is_option = text.starts_with('-') && text.len() <= MAX_OPTION && !is_value;
            option = if is_option { text.to_owned() } else { String::new() };
            changed |= match is_value && value.is_string() {
                true => replace(value, removed),
                false => self.mask_at(value, context, removed),
            };
        }
        changed
    }

    /// Masks the values of pairs: `[["X-Api-Key", "x"]]`, and in headers also `["X-Api-Key", "x"]`.
    fn mask_pairs(
        &self,
        values: &mut [Value],
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> bool {
        let is_pair =
            |pair: &[Value]| matches!(pair, [name, _] if name.as_str().is_some_and(is_name));
        let mask = |pair: &mut [Value], removed: &mut Vec<String>| match pair {
            [Value::String(name), value] if self.is_secret(name) => mask_all(value, removed),
            _ => false,
        };
        if context.in_schema || values.is_empty() {
            return false;
        }
        if context.in_headers
            && values.iter().all(Value::is_string)
            && values.chunks(2).all(is_pair)
        {
            let pairs = values.chunks_mut(2);
            return pairs.fold(false, |changed, pair| mask(pair, removed) | changed);
        }
        if !values.iter().all(|value| value.as_array().is_some_and(|pair| is_pair(pair))) {
            return false;
        }
        let pairs = values.iter_mut().filter_map(Value::as_array_mut);
        pairs.fold(false, |changed, pair| mask(pair, removed) | changed)
    }

    /// Masks answers to questions of flows, by the keys of the questions.
    fn mask_responses(
        &self,
        responses: &mut Map<String, Value>,
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> bool {
        let mut changed = false;
        for (key, response) in responses.iter_mut() {
            // Behind a number sign is the number of the question.
            let key = key.split('#').next().unwrap_or_default();
            if let (true, Value::Object(response)) = (self.is_secret(key), &mut *response) {
                let given = response.iter_mut().filter(|(name, _)| *name != "action");
                changed |=
                    given.fold(false, |changed, (_, value)| mask_all(value, removed) | changed);
            }
            changed |= self.mask_at(response, context, removed);
        }
        changed
    }

    /// Masks answers in the journal of a session, by the keys of the questions before them.
    fn mask_journal(&self, entries: &mut [Value], removed: &mut Vec<String>) -> bool {
        let (mut changed, mut is_open_secret, mut was_secret) = (false, false, false);
        for entry in entries {
            let asked = ["asked", "queued"].map(|kind| entry["event"][kind]["key"].as_str());
            was_secret |= asked.into_iter().flatten().any(|key| self.is_secret(key));
            let next = entry["question"].as_str().is_some_and(|key| self.is_secret(key));
            let Some(event) = entry.get_mut("event") else { continue };
            for (path, is_wanted) in [
                ("/answered/value", is_open_secret),
                ("/rejected/value", is_open_secret),
                ("/answered_ahead/answered/value", was_secret),
            ] {
                if let (true, Some(value)) = (is_wanted, event.pointer_mut(path)) {
                    changed |= mask_all(value, removed);
                }
            }
            is_open_secret = next;
        }
        changed
    }

    /// Returns whether the `key` in the metadata of a question is that of a secret.
    pub(crate) fn is_key_secret(&self, metadata: &Value) -> bool {
        metadata["key"].as_str().is_some_and(|key| self.is_secret(key))
    }

    /// The context of a member.
    fn enter(&self, name: &str, context: MaskContext) -> MaskContext {
        let normal = normalize_name(name);
        let is_own = self.is_secret(name) || (context.in_api && normal == "key");
        let is_secret = context.is_secret || is_own;
        let is_schema = ["inputSchema", "outputSchema", "requestedSchema"].contains(&name);
        // The example and default of a secret are secrets too.
        let is_value = ["default", "const", "examples", "example", "enum"].contains(&name);
        let in_schema = (context.in_schema || is_schema) && !(context.is_secret && is_value);
        let in_headers = context.in_headers || normal.ends_with("headers") || normal == "env";
        MaskContext {
            is_secret,
            is_count: context.is_count || !context.is_secret && is_own && is_count_name(name),
            in_schema,
            in_headers,
            in_api: normal.ends_with("api"),
            depth: context.depth,
        }
    }

    /// Returns whether a member with this name holds a secret.
    fn is_secret(&self, name: &str) -> bool {
        self.names.contains(&normalize_name(name)) || is_secret_name(name)
    }

    fn masked_text(
        &self,
        text: &str,
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> Option<String> {
        let start = text.trim_start();
        if context.depth < MAX_DEPTH
            && start.starts_with(['{', '['])
            && let Ok(mut inner) = serde_json::from_str::<Value>(start)
        {
            let deeper = MaskContext { depth: context.depth + 1, ..MaskContext::default() };
            return self.mask_at(&mut inner, deeper, removed).then(|| inner.to_string());
        }
        if context.in_headers && is_encoded_login(text) {
            removed.push(text.to_owned());
            return Some(MASK.to_owned());
        }
        let is_secret = |name: &str| self.is_secret(name);
        let masked =
            mask_and_collect(text, MASK, &is_secret, &mut |secret| removed.push(secret.to_owned()));
        (masked != text).then(|| masked.into_owned())
    }
}

/// Returns whether a text may be the name of a header or variable.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=MAX_OPTION).contains(&text.len()) && text.bytes().all(is_part)
}

/// Masks a value unless it is masked already.
fn replace(value: &mut Value, removed: &mut Vec<String>) -> bool {
    match std::mem::replace(value, MASK.into()) {
        Value::String(text) if text == MASK => return false,
        Value::String(text) => removed.push(text),
        Value::Number(number) => removed.push(number.to_string()),
        _ => {}
    }
    true
}

/// Masks all values within a value, and adds what was removed.
pub(crate) fn mask_all(value: &mut Value, removed: &mut Vec<String>) -> bool {
    let mut changed = false;
    match value {
        Value::Null => {}
        Value::Array(values) => {
            values.iter_mut().for_each(|value| changed |= mask_all(value, removed));
        }
        Value::Object(members) => {
            members.values_mut().for_each(|value| changed |= mask_all(value, removed));
        }
        other => changed = replace(other, removed),
    }
    changed
}

/// Members that hold the value of what another member names.
const VALUES: [&str; 7] = ["value", "values", "default", "defaultValue", "val", "content", "v"];

/// Members beside the `code` of OAuth, which is a secret.
const GRANT: [&str; 4] = ["granttype", "redirecturi", "codeverifier", "redirecturl"];

/// Longest name of an option of a command.
const MAX_OPTION: usize = 64;

/// Shortest name of a member that may be a secret, in bytes.
const MIN_RANDOM: usize = 10;

/// Limit on JSON within JSON.
const MAX_DEPTH: usize = 4;

#[cfg(test)]
mod tests;
