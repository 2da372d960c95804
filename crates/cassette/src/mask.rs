//! Removal of secrets from messages.
//!
//! Values are masked by the names of the members that hold them, and by what they look like: URLs with
//! credentials, authorization headers, keys of well-known services. JSON inside of strings is masked
//! as well. Schemas keep their property names, which are no secrets.

use mcp_flow_proto::secrets::{
    is_count_name, is_encoded_login, is_secret_name, mask_and_collect, normalize_name,
};
use serde_json::{Map, Value};

/// Text in place of a secret.
pub const MASK: &str = "[masked]";

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
        let names = ["name", "key", "header", "variable", "field"];
        let mut named = names.iter().filter_map(|name| members.get(*name)?.as_str());
        let is_named = !context.in_schema
            && (named.any(|name| self.is_secret(name))
                || members.get("metadata").is_some_and(|about| self.is_key_secret(about)));
        let is_grant = members.keys().any(|name| GRANT.contains(&&*normalize_name(name)));
        let mut changed = false;
        for (name, value) in members.iter_mut() {
            let mut inner = self.enter(name, context);
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
        changed
    }

    /// Masks values, and those behind the name of a secret option: `["--password", "x"]`.
    fn mask_array(
        &self,
        values: &mut [Value],
        context: MaskContext,
        removed: &mut Vec<String>,
    ) -> bool {
        let mut changed = false;
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
        let in_headers = context.in_headers || ["headers", "env"].contains(&&*normal);
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
const VALUES: [&str; 6] = ["value", "values", "default", "defaultValue", "val", "content"];

/// Members beside the `code` of OAuth, which is a secret.
const GRANT: [&str; 4] = ["granttype", "redirecturi", "codeverifier", "redirecturl"];

/// Longest name of an option of a command.
const MAX_OPTION: usize = 64;

/// Limit on JSON within JSON.
const MAX_DEPTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::Masker;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    use serde_json::{Value, json};

    /// Checks that nothing of a secret is left, and that masking again changes nothing.
    fn check(masker: &Masker, value: &Value, secrets: &[&str]) {
        let mut masked = value.clone();
        assert!(masker.mask(&mut masked), "{value}");
        for secret in secrets {
            assert!(!masked.to_string().contains(secret), "{secret} in {masked} of {value}");
        }
        assert!(!masker.mask(&mut masked.clone()), "masked once: {masked}");
    }

    #[test]
    fn secrets_are_masked_wherever_they_are() {
        let masker = Masker::new(&["customer_name".to_owned()]);
        let secret = "hunter2hunter2hunter2";
        let nested = json!({"outer": {"password": secret}}).to_string();
        let doubly = json!({"text": nested}).to_string();
        let quoted = json!({"password": secret, "n": 1}).to_string();
        let escaped = Value::from(quoted.as_str()).to_string();
        let twice = Value::from(escaped.as_str()).to_string();
        for value in [
            json!({"password": secret}),
            json!({"Api-Key": secret, "x": 1}),
            json!({"credentials": {"user": secret, "list": [secret]}}),
            json!({"customerName": secret}),
            json!({"access_token": secret}),
            json!({"tokens": {"refresh": secret}}),
            json!({"tokens": [secret]}),
            json!({"sig": secret}),
            json!({"X-Amz-Signature": secret}),
            json!({"code": secret, "redirect_uri": "http://localhost"}),
            json!({"api": {"key": secret}}),
            json!({"env": [{"name": "DB_PASSWORD", "value": secret}]}),
            json!([{"key": "Authorization", "value": secret}, {"name": "customer-name", "value": [secret]}]),
            json!({"history": [{"key": "password", "response": {"value": secret, "timestamp": 1}}]}),
            json!({"prompt": {"defaultValue": secret, "metadata": {"key": "password"}}}),
            json!({"inputResponses": {"password#1": {"action": "accept", "content": {"x": secret}}}}),
            json!({"inputResponses": {"q": {"action": "accept", "content": {"password": secret}}}}),
            json!({"initialParams": {"password": secret}}),
            json!({"entries": [{"event": {"asked": {"key": "password"}}, "question": "password"},
                {"event": {"answered": {"value": secret}}, "question": "name"}]}),
            json!({"args": ["--password", secret]}),
            json!({"args": ["serve", "--api-key", secret, "--port", "80"]}),
            json!({"args": ["-u", format!("me:{secret}")]}),
            json!({"inputSchema": {"properties": {"password": {"default": secret}}}}),
            json!({"text": nested}),
            json!({"text": doubly}),
            // URLs
            json!(format!("https://h/?token={secret}")),
            json!(format!("ws://h?access_token={secret}")),
            json!(format!("https://example.com/?a=1&token={secret}&b=2")),
            json!(format!("https://h/cb?code={secret}&state=x")),
            json!(format!("https://h/?key={secret}")),
            json!(format!("https://h/x?X-Amz-Date=1&X-Amz-Signature={secret}&sig={secret}")),
            json!(format!("https://h/#access_token={secret}")),
            json!(format!("https://h/?next=https%3A%2F%2Fi%2F%3Ftoken%3D{secret}%26b")),
            json!(format!("https://me:{secret}@example.com/path")),
            json!(format!("https://me:p@ss{secret}@example.com/path")),
            json!(format!("postgres://me:p/w{secret}@example.com/path")),
            json!(format!("https://{secret}@example.com")),
            json!(format!("grant_type=authorization_code&code={secret}")),
            json!(format!("code={secret}&grant_type=authorization_code")),
            // Texts
            json!(format!("error:password={secret}")),
            json!(format!("a.b.password={secret}")),
            json!(format!("db_password: {secret}")),
            json!(format!("password => '{secret}'")),
            json!(format!("user[password]={secret}")),
            json!(format!("API key: {secret}")),
            json!(format!("<password>{secret}</password>")),
            json!(format!("GITHUB_TOKEN={secret}\nHOME=/root")),
            json!(format!("said: {quoted}")),
            json!(format!("body={escaped}")),
            json!(format!("body={twice} rest")),
            json!(format!("body={{\"secrets\": [\"{secret}\"], \"n\"")),
            json!(format!("password: \"with \\\" {secret}\"")),
            json!(format!("said {{\"p\\u0061ssword\": \"{secret}\"")),
            // Commands and headers
            json!(format!("server --password {secret}")),
            json!(format!("server --password=\"two {secret}\"")),
            json!(format!("curl -u me:{secret} https://h")),
            json!(format!("[\"--password\", \"{secret}\"] and more")),
            json!(format!("Authorization: Token {secret}")),
            json!(format!("Cookie: a=\"b\"; c={secret}")),
            json!(format!("curl -H 'Authorization: Bearer {secret}' x")),
            json!(format!("curl -H \"Cookie: a=b; c={secret}\" x")),
            json!(format!("Bearer {secret}")),
            json!(format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----"
            )),
            json!(format!("the key sk-{secret} is mine")),
            json!(format!("eyJhbGciOiJI.eyJ{secret}.{secret}")),
        ] {
            check(&masker, &value, &["hunter2"]);
        }
        let text =
            masker.mask_command(&["a", "--password", "two words", "-u", "a:b"].map(str::to_owned));
        assert_eq!(text, "a --password [masked] -u [masked]");
    }

    #[test]
    fn secrets_are_masked_in_base64() {
        let masker = Masker::new(&[]);
        for (plain, encoded) in [
            ("user:hunter2", STANDARD.encode("user:hunter2")),
            ("us:hunter2", STANDARD_NO_PAD.encode("us:hunter2")),
            ("jürgen:pässwörd", STANDARD_NO_PAD.encode("jürgen:pässwörd")),
            ("ÿÿÿ:>>>???", URL_SAFE_NO_PAD.encode("ÿÿÿ:>>>???")),
        ] {
            for value in
                [json!(format!("Basic {encoded}")), json!({"headers": {"X-Login": encoded}})]
            {
                check(&masker, &value, &[&encoded, plain]);
            }
        }
        let login = STANDARD.encode("user:hunter2");
        for value in [json!({"b": login}), json!(format!("see {login}, or not"))] {
            check(&masker, &value, &[&login]);
        }
        let whole = STANDARD.encode("Authorization: Bearer hunter2hunter2hunter2");
        let nested = STANDARD_NO_PAD.encode(format!("header {whole}"));
        for encoded in [whole, nested, STANDARD.encode("{\"password\":\"hunter2\"}")] {
            check(&masker, &json!({"text": format!("x {encoded}.")}), &[&encoded[..10]]);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        let masker = Masker::new(&[]);
        for value in [
            json!({"_meta": {"progressToken": 3}, "maxTokens": 100, "nextPageToken": "abc"}),
            json!({"usage": {"tokens": 100, "inputTokens": 7}, "code": "print(1)", "key": "name"}),
            json!({"error": {"code": -32602, "message": "max_tokens=100 is too much"}}),
            json!({"inputSchema": {"properties": {"password": {"type": "string"}, "token": {"type": "string"}}}}),
            json!({"arguments": [{"name": "password", "description": "of the user", "required": true}]}),
            json!({"inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}}}),
            json!({"args": ["--verbose", "x", "-u", "root", "--tokenizer", "y"]}),
            json!("Basic information about bearer authentication"),
            json!("https://example.com/path?q=1#x and a@b.example"),
            json!("http://localhost:8080/a@b http://[::1]:80/x@y"),
            json!({"text": "{\"a\": 1}", "uri": "file:///tmp/x", "isSecret": false}),
            json!("time: 12:30, ratio: 3, token::new() keyboard: yes"),
            json!("SGVsbG8gd29ybGQsIHRoaXMgaXMgdGV4dA== and /usr/local/lib/python3/site"),
            json!([
                STANDARD.encode("Note: it is late"),
                STANDARD.encode("see https://example.com/x")
            ]),
            json!([STANDARD.encode("2026-01-01T10:00:00"), STANDARD.encode("{\"name\":\"Ada\"}")]),
            json!("task-management-system-overview and ask-anything-you-want-here"),
        ] {
            let mut masked = value.clone();
            assert!(!masker.mask(&mut masked), "{masked}");
            assert_eq!(masked, value);
        }
    }
}
